"""docs/reference/commands.md: every verb with its arguments, flags and defaults, written from the program itself."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import typer.main

from hpclaunch.cli import app
from hpclaunch.cli.help_text import EXAMPLE
from hpclaunch.cli.verbs import VERBS

HEAD = """# Commands: every verb and flag

This page is written from the program itself. `hpclaunch VERB --help` prints the common flags of a verb with many, and
`--help-all` prints what stands here. Flags may stand before or after the names. A flag marked *repeatable* can be typed
several times. Every verb also has `-q`, `--quiet` (errors, warnings and results only) and `-v`, `--verbose` (each
program of the scheduler with its time, and at a submission each choice with its origin).

| verb | what it does |
|---|---|
"""
HIDDEN = {"--help"}
VALUES = {"STR": "TEXT", "INT": "N", "INT RANGE": "N", "FLOAT": "NUMBER", "FLOAT RANGE": "NUMBER"}


def document() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    rows = [f"| [`{verb}`](#hpclaunch-{verb}) | {summary} |" for verb, (_, summary) in VERBS.items()]
    parts = [HEAD + "\n".join(rows) + "\n"]
    parts += [_section(root.commands[verb], f"hpclaunch {verb}", 2) for verb in VERBS]
    return "\n".join(parts)


def _section(command: Any, name: str, level: int) -> str:
    lines = [f"{'#' * level} `{name}`", "", _filled(command.help or ""), ""]
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    params = list(_rows(command))
    if params and (not inner or command.invoke_without_command):
        lines += ["| argument or flag | meaning |", "|---|---|", *params, ""]
    text = "\n".join(lines)
    return "\n".join([text, *(_section(one, f"{name} {word}", level + 1) for word, one in inner.items())])


def _rows(command: Any) -> Iterator[str]:
    for param in command.params:
        if HIDDEN & set(param.opts) or getattr(param, "hidden", False):
            continue
        form = _form(param)
        text = _cell(param.help or "")
        default = _default(param, text)
        yield f"| {form} | {text}{default} |"


def _form(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_cell(param.metavar or param.name.upper())}`"
    names = [*param.opts, *param.secondary_opts]
    flag = param.is_flag or param.count
    kind = param.type.name.upper()
    value = "" if flag else f" {_cell(param.metavar or VALUES.get(kind, kind))}"
    return ", ".join(f"`{name}{value}`" for name in names)


def _default(param: Any, text: str) -> str:
    """The default, unless the help names it or there is none."""
    value = param.default
    if "[default" in text or callable(value) or not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    return f" [default: `{value}`]"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def _filled(text: str) -> str:
    parts = []
    for one in re.split(r"\n\s*\n", text.replace("\b", "")):
        if one.startswith(EXAMPLE):
            parts.append(f"```\n{textwrap.dedent(one)}\n```")
        else:
            parts.append(textwrap.fill(" ".join(one.split()), 120, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(parts)
