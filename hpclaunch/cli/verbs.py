"""The commands of ``hpclaunch``. Only the typed one is built, because building one takes milliseconds."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer.core
import typer.main

# Command -> the module of this package whose `app` has it; in the order of --help.
MODULES = {
    "submit": "submit",
    "render": "submit",
    "plan": "plan",
    "profile": "profile",
    "status": "runs",
    "logs": "runs",
    "wait": "runs",
    "cancel": "runs",
    "retry": "runs",
    "resume": "runs",
    "results": "runs",
    "runs": "run_directories",
    "jobs": "jobs",
    "sites": "sites",
    "doctor": "doctor",
    "data": "datasets",
}


class Verbs(typer.core.TyperGroup):
    """A group of commands, each built on first use."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands; builds none."""
        return list(MODULES)


class Commands(Mapping[str, Any]):
    """Name -> command."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._built:
            self._built[word] = _build(word, MODULES[word])
        return self._built[word]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


def _build(word: str, module: str) -> Any:
    app: typer.Typer = importlib.import_module(f"hpclaunch.cli.{module}").app
    commands = [command for command in app.registered_commands if command.name == word]
    if not commands:  # a group with its own commands, such as runs list
        group = typer.main.get_group(app)
        group.name = word
        return group
    return typer.main.get_command_from_info(commands[0], pretty_exceptions_short=False, rich_markup_mode=None)
