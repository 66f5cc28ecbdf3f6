"""The text of ``--help``: options in groups, whole names and whole words at every width; no library draws it."""

from __future__ import annotations

import functools
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer.core

from hpclaunch.cli.show import colour, streams
from hpclaunch.core import waiting

GROUPS = SITE, RANKS, CODE, TRAINING, RUN, START, OUTPUT = (
    *("Site and resources", "Ranks and software", "Code and data", "Training", "Run", "How to start", "Output"),
)
"""The titles of groups of options, in their order: ``rich_help_panel`` of each option. Others are below "Options"."""
_FEW = 12
"""A command with at most so many options has no groups but Options and Output."""
_MANY = 30
"""A command with more options has two levels of help."""
COMMON = frozenset(
    ("--site", "--nodes", "--tasks-per-node", "--account", "--partition", "--qos", "--walltime", "--gpus-per-node")
    + ("--python", "--module", "--conda", "--data-dir", "--synthetic", "--set", "--sweep", "--recipe", "--name")
    + ("--restarts", "--after", "--wait", "--dry-run", "--output", "--json", "--verbose", "--help", "--help-all")
)
"""The options in groups that a long help shows, beside those of the command alone, which are in none."""
_OF_EVERY_COMMAND = 5
"""Options that most commands have: --output, --json, --quiet, --verbose, --help."""
_WIDEST, _NARROWEST = 100, 40
EXAMPLE = " " * 4
"""How a line of a docstring begins that is a command to type."""
_MOST_FOR_NAMES = 28
_BELOW = 6
"""The indentation of a help with a word that has no room beside the names."""
_VALUES = {
    **dict.fromkeys(("--walltime", "--deadline", "--timeout", "--older-than", "--since"), "TIME"),
    **dict.fromkeys(("--data-dir", "--runs-dir"), "DIR"),
    "--memory": "SIZE",
    "--signal": "SIGNAL@SECONDS",
    "--hosts": "FILE",
    "--script": "FILE",
}
"""What stands for the value of an option whose type is a text; NAME for the others."""
_TYPES = ((r"<int(?: range)?>|INTEGER(?: RANGE)?", "N"), (r"<float(?: range)?>|FLOAT(?: RANGE)?", "NUMBER"))
_PATH = r"<path>|<file>|<directory>|\bPATH$"


class PlainCommand(typer.core.TyperCommand):
    """A command with the options that every command has, and with this help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what was typed; for a completion without the option at its end, whose value is still to come.

        The parser would give up there, and a completion would not know the job that was typed before.
        """
        is_open = bool(ctx.resilient_parsing and args) and args[-1].startswith("-")
        return list(super().parse_args(ctx, args[:-1] if is_open else args))

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, which refuses a second ``--site``.

        The last one alone would count, as of other options, which an alias may hold for the usual case.
        """
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            options, rest, order = parse(args)
            twice = [one for one in {*order} if one.name == "site" and not one.multiple and order.count(one) > 1]
            if twice and not ctx.resilient_parsing:
                raise typer.BadParameter("is typed more than once, and this command takes one site", ctx, twice[0])
            return options, rest, order

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its parameters, and at the end those of every command."""
        *own, last = super().get_params(ctx)
        shown = [*own, *common_options(), last]
        return [*shown, _help_all(is_hidden=not _has_more_than(_MANY, shown))]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help for the width of the terminal, of many options the common ones."""
        formatter.write("\n".join(help_of(self, ctx, _width(), is_short=True)) + "\n")


class PlainGroup(typer.core.TyperGroup):
    """A group of commands with this help, which has no second level: ``--help-all`` is ``--help``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its parameters, and ``--help-all``."""
        return [*super().get_params(ctx), _help_all(is_hidden=True)]

    def command_rows(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return title -> (command, what it does)."""
        return {"Commands": [(name, _first_sentence(self.commands[name])) for name in self.list_commands(ctx)]}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help for the width of the terminal."""
        formatter.write("\n".join(help_of(self, ctx, _width(), self.command_rows(ctx))) + "\n")


@functools.cache
def common_options() -> Sequence[Any]:
    """Return the options that every command has: how much it says."""
    quiet = "Show errors, warnings and results only."
    verbose = "Show each program of the scheduler with its time and exit code; of a submission each choice, too."
    return (
        _flag(("-q", "--quiet"), quiet, _be_quiet),
        _flag(("-v", "--verbose"), verbose, _tell_more),
    )


@functools.cache
def _help_all(is_hidden: bool) -> Any:
    """Return the option that shows the help with every option; hidden where that is the usual help."""
    return _flag(("--help-all",), "Show every option, and exit.", _show_all, is_eager=True, is_hidden=is_hidden)


def _flag(names: Sequence[str], text: str, callback: Any, is_eager: bool = False, is_hidden: bool = False) -> Any:
    """Return an option without a value that acts by itself, beside a command's own."""
    return typer.core.TyperOption(
        param_decls=list(names),
        is_flag=True,
        default=False,
        expose_value=False,
        callback=callback,
        help=text,
        rich_help_panel=OUTPUT,
        is_eager=is_eager,
        hidden=is_hidden,
    )


def _show_all(context: Any, _parameter: Any, typed: bool) -> None:
    if typed and not context.resilient_parsing:
        command = context.command
        rows = command.command_rows(context) if isinstance(command, PlainGroup) else None
        typer.echo("\n".join(help_of(command, context, _width(), rows)))
        context.exit()  # as --help does


def _be_quiet(_context: Any, _parameter: Any, typed: bool) -> None:
    streams.be_quiet(typed)


def _tell_more(_context: Any, _parameter: Any, typed: bool) -> None:
    streams.be_verbose(typed)
    waiting.report_programs_to(_say if typed else None)


def _say(text: str) -> None:
    from hpclaunch.cli.show import console

    console.say(text)


def help_of(
    command: Any,
    context: Any,
    width: int,
    commands: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    is_short: bool = False,
) -> list[str]:
    """Return the lines of a command's help; ``commands`` are those of a group: title -> (name, what it does).

    ``is_short``: of a command with many options, its own and those of ``COMMON``.
    """
    usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    lines = _wrap(usage, width, "Usage: ", " " * 7)
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith(EXAMPLE):
            examples = paragraph.split("\n")
            lines += ["", *(part for one in examples for part in _wrap(one, width, EXAMPLE, EXAMPLE + "    "))]
        else:
            lines += ["", *_wrap(paragraph, width, "  ", "  ")]
    parameters, left_out = _parameter_rows(command, context, commands is not None, is_short)
    for sections in (commands or {}, parameters):
        names = [name for rows in sections.values() for name, _ in rows]
        column = min(_MOST_FOR_NAMES, width // 2, max(map(len, names), default=0)) + 2
        for title, rows in sections.items():
            if rows:
                lines += ["", _bold(f"{title}:"), *_rows(rows, width, column)]
    if command.epilog:
        lines += ["", *_wrap(command.epilog, width, "  ", "  ")]
    if left_out:
        lines += ["", *_wrap(f"{left_out} more options: {context.command_path} --help-all", width, "  ", "  ")]
    return lines


def _has_more_than(number: int, parameters: Sequence[Any]) -> bool:
    options = [one for one in parameters if one.param_type_name == "option"]
    return len(options) > number + _OF_EVERY_COMMAND


def _parameter_rows(
    command: Any, context: Any, is_group: bool, is_short: bool
) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """Return title -> (name, help) of the arguments and options, the groups in their order; and how many are left out.

    With ``is_short`` a command with many options has its own and those of ``COMMON``.
    """
    shown = [(one, one.get_help_record(context)) for one in command.get_params(context)]
    shown = [(one, record) for one, record in shown if record is not None]
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], **{title: [] for title in GROUPS}}
    is_long = _has_more_than(_FEW, [one for one, _ in shown])
    is_short = is_short and _has_more_than(_MANY, [one for one, _ in shown])
    left_out = 0
    for one, (name, text) in shown:
        is_rare = getattr(one, "rich_help_panel", None) is not None and not COMMON.intersection(one.opts)
        if is_short and is_rare:
            left_out += 1
            continue
        title = "Arguments" if one.param_type_name == "argument" else _title_of(one, is_long)
        title = "Options" if is_group else title
        sections[title].append((_plain_name(name, one.opts), _plain_help(text)))
    return sections, left_out


def _title_of(option: Any, is_long: bool) -> str:
    title = OUTPUT if {"--help", "--help-all"}.intersection(option.opts) else getattr(option, "rich_help_panel", None)
    return title if title and (is_long or title == OUTPUT) else "Options"


def _plain_name(name: str, words: Sequence[str]) -> str:
    for pattern, value in _TYPES:
        name = re.sub(pattern, value, name)
    name = re.sub(_PATH, "FILE", name)
    option = max(words, key=len)
    return re.sub(r"<str>|\bTEXT\b", _VALUES.get(option, "NAME"), name)


def _plain_help(text: str) -> str:
    """Return the help of an option, with its bounds in words."""
    text = re.sub(r"\bx>=(-?[0-9]+)", r"at least \1", text)
    return " ".join(re.sub(r"(-?[0-9]+)<=x<=([0-9]+)", r"\1 to \2", text).split())


def _rows(rows: Sequence[tuple[str, str]], width: int, column: int) -> Iterator[str]:
    for name, text in rows:
        is_wide = max(map(len, text.split()), default=0) > width - column - 2
        indent = " " * (_BELOW if is_wide else column + 2)
        lines = _wrap(text, width, indent, indent)
        if len(name) <= column - 2 and not is_wide:
            yield f"  {name:<{column}}{lines[0].lstrip()}".rstrip() if lines else f"  {name}"
            lines = lines[1:]
        else:
            yield f"  {name}"
        yield from lines


def _wrap(text: str, width: int, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _first_sentence(command: Any) -> str:
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())


def _width() -> int:
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


def _bold(text: str) -> str:
    return colour.paint(text, "bold") if streams.is_coloured() else text
