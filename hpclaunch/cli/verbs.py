"""The words that may follow ``hpclaunch``. Only the one that was typed is built: each costs Typer milliseconds."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer.core
import typer.main

# Word -> the module of this package whose `app` has it; in the order of --help.
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
    """A group of commands that are built when they are asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        """The words alone, so that nothing is built."""
        return list(MODULES)


class Commands(Mapping[str, Any]):
    """Word -> command."""

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
    found = [verb for verb in app.registered_commands if verb.name == word]
    if not found:  # a word with words of its own: runs list
        group = typer.main.get_group(app)
        group.name = word
        return group
    return typer.main.get_command_from_info(found[0], pretty_exceptions_short=False, rich_markup_mode=None)
