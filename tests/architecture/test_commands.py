"""Every command, argument and option says what it is for."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import hpclaunch.cli
from hpclaunch.cli import app, complete


def commands(command: Any, path: str = "hpclaunch") -> Iterator[tuple[str, Any]]:
    """Yield every command and group with what one types to reach it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_those_of_the_readme() -> None:
    verbs = {path.removeprefix("hpclaunch ") for path in COMMANDS if path != "hpclaunch"}
    assert verbs >= {"submit", "render", "plan", "status", "logs", "cancel", "jobs list", "jobs show", "jobs new"}
    assert verbs >= {"sites list", "sites show", "data fetch"}


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_and_its_options_have_help(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    silent = {"JOB", "SITE", "NAME"}  # these say what they are by their names
    without = [
        parameter.name
        for parameter in command.params
        if not getattr(parameter, "help", None) and getattr(parameter, "metavar", None) not in silent
    ]
    assert not without


@pytest.mark.parametrize(
    "path", [path for path in COMMANDS if path.split()[-1] in ("list", "show", "status", "submit", "plan")]
)
def test_what_tells_something_can_tell_it_as_json(path: str) -> None:
    assert "--json" in [option for parameter in COMMANDS[path].params for option in parameter.opts]


def test_submit_and_render_take_the_same_flags() -> None:
    flags = {
        verb: {option for parameter in COMMANDS[f"hpclaunch {verb}"].params for option in parameter.opts}
        for verb in ("submit", "render")
    }
    assert flags["submit"] - flags["render"] == {"--dry-run", "--full", "--here", "--test-only", "--wait"}
    assert flags["render"] - flags["submit"] == {"-o", "--output", "--standalone"}


def test_an_option_that_several_commands_share_is_written_once() -> None:
    """Its type stands in cli/flags.py or cli/run_flags.py; an option of one command alone stands in its signature."""
    written: Counter[str] = Counter()
    for path in Path(hpclaunch.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ("Option", "Argument"):
                written[ast.unparse(node)] += 1
    assert written.total() > 40
    assert [text for text, times in written.items() if times > 1] == []


def test_the_completions_that_flags_offer_are_those_that_exist() -> None:
    """A flag names its completion, so that only a shell that asks loads it."""
    calls = [
        node
        for path in Path(hpclaunch.cli.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "offer"
    ]
    assert {ast.literal_eval(call.args[0]) for call in calls} == set(complete.COMPLETIONS)
