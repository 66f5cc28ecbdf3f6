"""The words that may follow ``hpclaunch``. Only the one that was typed is built: each costs Typer milliseconds."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer.core
import typer.main

# Word -> (the module of this package whose `app` has it, its line in --help), in the order of --help.
VERBS = {
    "submit": ("submit", "Submit a job, or any script, as a multi-node run."),
    "render": ("submit", "Print the script that submit would submit."),
    "plan": ("plan", "Recommend how many nodes to use, and how to train on them."),
    "profile": ("profile", "Measure a job on one node and on two, for later plans."),
    "status": ("runs", "Show the state of runs, newest first."),
    "logs": ("runs", "Print the log of a run."),
    "wait": ("runs", "Wait until runs have ended."),
    "cancel": ("runs", "Cancel runs."),
    "retry": ("runs", "Start a run again that a node or a preemption ended."),
    "resume": ("runs", "Continue an ended run from its last checkpoint."),
    "results": ("runs", "Show the final metrics of runs, newest first."),
    "runs": ("run_directories", "List, compare and delete run directories."),
    "jobs": ("jobs", "List the jobs that can be submitted by name; make a new one."),
    "sites": ("sites", "List, show and detect the clusters that hpclaunch knows."),
    "doctor": ("doctor", "Test ranks, GPUs, MPI and folders with a short job."),
    "data": ("datasets", "Download data sets before a job is queued."),
}


class Verbs(typer.core.TyperGroup):
    """A group of commands that are built when they are asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words alone, so that no command is built."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands for ``--help`` from the table, so that no command is built."""
        with formatter.section("Commands"):
            formatter.write_dl([(word, summary) for word, (_, summary) in VERBS.items()])


class Commands(Mapping[str, Any]):
    """Word -> command."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._built:
            self._built[word] = _build(word, VERBS[word][0])
        return self._built[word]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _build(word: str, module: str) -> Any:
    app: typer.Typer = importlib.import_module(f"hpclaunch.cli.{module}").app
    found = [verb for verb in app.registered_commands if verb.name == word]
    if not found:  # a word with words of its own: runs list
        group = typer.main.get_group(app)
        group.name = word
        return group
    return typer.main.get_command_from_info(found[0], pretty_exceptions_short=False, rich_markup_mode=None)
