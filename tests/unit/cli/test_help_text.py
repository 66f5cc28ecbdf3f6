"""The help of every command at three widths: groups, whole names, whole words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from hpclaunch import cli
from hpclaunch.cli import help_text, verbs


def contexts(command: Any, context: Any) -> Iterator[Any]:
    """Yield the context of a command, and those of all commands in it."""
    yield context
    for name, inner in getattr(command, "commands", {}).items():
        yield from contexts(inner, type(context)(inner, info_name=name, parent=context))


ROOT = typer.main.get_command(cli.app)
CONTEXTS = {
    context.command_path: context
    for context in contexts(ROOT, ROOT.context_class(ROOT, info_name="hpclaunch", help_option_names=["-h", "--help"]))
}


def lines_of(context: Any, width: int) -> list[str]:
    rows = getattr(context.command, "command_rows", None)
    return help_text.help_of(context.command, context, width, rows(context) if rows else None)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("path", CONTEXTS)
def test_no_name_is_folded_and_no_word_is_cut(path: str, width: int) -> None:
    context = CONTEXTS[path]
    lines = lines_of(context, width)
    assert [line for line in lines if len(line) > width] == []
    words = {word for line in lines for word in line.split()}
    for parameter in context.command.get_params(context):
        if getattr(parameter, "hidden", False):
            continue
        names = parameter.opts if parameter.param_type_name == "option" else []
        assert {name for name in names if name not in words and f"{name}," not in words} == set(), parameter.name
        typed = (parameter.help or "").split()
        assert {word for word in typed if word not in words} == set(), parameter.name
    for rows in getattr(context.command, "command_rows", lambda _: {})(context).values():
        for name, text in rows:
            assert {word for word in (name, *text.split()) if word not in words} == set()


def test_every_command_stands_in_a_group() -> None:
    grouped = [word for words in verbs.GROUPS.values() for word in words]
    assert sorted(grouped) == sorted(verbs.VERBS)


def test_every_group_is_used_and_the_great_commands_have_no_option_outside() -> None:
    titles: dict[str, list[str | None]] = {}
    for path, context in CONTEXTS.items():
        options = [one for one in context.command.get_params(context) if one.param_type_name == "option"]
        titles[path] = [getattr(one, "rich_help_panel", None) for one in options if "--help" not in one.opts]
    assert {title for found in titles.values() for title in found} == {*help_text.GROUPS, None}
    assert set(titles["hpclaunch submit"]) == set(titles["hpclaunch render"]) == set(help_text.GROUPS)


def test_a_long_help_has_groups_in_their_order_and_bounds_in_words() -> None:
    text = "\n".join(lines_of(CONTEXTS["hpclaunch submit"], 80))
    titles = [f"\n{title}:\n" for title in ("Arguments", *help_text.GROUPS)]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert "--nodes N " in text and "[at least 1]" in text and "<" not in text.replace("<=", "")
    short = "\n".join(lines_of(CONTEXTS["hpclaunch runs list"], 80))
    assert "\nOptions:\n" in short and "\nOutput:\n" in short and "Site and resources" not in short


LONG = [path for path, context in CONTEXTS.items() if "--help-all" in "\n".join(lines_of(context, 80))]


def test_submit_has_two_levels_of_help_and_status_has_one() -> None:
    assert "hpclaunch submit" in LONG and "hpclaunch status" not in LONG


@pytest.mark.parametrize("path", LONG)
def test_the_help_of_a_command_with_many_options_has_the_common_ones_and_how_to_see_all(path: str) -> None:
    context = CONTEXTS[path]
    short = help_text.help_of(context.command, context, 80, is_short=True)
    every = lines_of(context, 80)
    options = re.compile(r"  (?:-\w, )?(--[a-z-]+)")
    names, shown = ({found[1] for line in lines if (found := options.match(line))} for lines in (every, short))
    assert {"--site", "--json", "--help", "--help-all"} <= shown < names
    assert short[-1].split()[0] == str(len(names - shown)) and short[-1].endswith(f"{path} --help-all")


def test_examples_stand_before_the_options_one_a_line() -> None:
    short = help_text.help_of(CONTEXTS["hpclaunch submit"].command, CONTEXTS["hpclaunch submit"], 80, is_short=True)
    examples = [line for line in short if line.startswith("    hpclaunch submit ")]
    assert len(examples) == 4 and short.index(examples[-1]) < short.index("Arguments:")


def test_every_command_has_quiet_and_verbose() -> None:
    for path, context in CONTEXTS.items():
        if not hasattr(context.command, "commands"):
            words = {word for one in context.command.get_params(context) for word in one.opts}
            assert {"-q", "--quiet", "-v", "--verbose"} <= words, path
