"""The commands of ``hpclaunch``. Only the typed one is built, because building one takes milliseconds."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer.core
import typer.main

from hpclaunch.cli import help_text

# Command -> (the module of this package whose `app` has it, its line in --help), in the order of --help.
VERBS = {
    "submit": ("submit", "Submit a job, your own script, or any command, as a multi-node run."),
    "render": ("submit", "Print the script that submit would submit."),
    "shell": ("shell", "Open a shell in an allocation, with the environment of a job."),
    "search": ("search", "Search for the best parameters of a job: many trials in one allocation."),
    "plan": ("plan", "Recommend a node count and training settings for a job."),
    "profile": ("profile", "Measure a job in short runs, so that plans use measurements."),
    "scale": ("scale", "Measure a job on several node counts: speed-up, efficiency, cost."),
    "status": ("runs", "Show the state of runs, newest first."),
    "watch": ("live_screen", "Show runs on a live screen, with queue, epochs, loss and use."),
    "logs": ("runs", "Print a run's log, with all its ranks and starts."),
    "wait": ("runs", "Wait until runs have ended."),
    "cancel": ("runs", "Cancel runs that wait or run."),
    "retry": ("runs", "Start a run again after a fault of the machine."),
    "resume": ("runs", "Continue an ended run from its last checkpoint."),
    "rerun": ("rerun", "Make the same run again, from its record."),
    "efficiency": ("efficiency", "Show how well runs used what they asked for, and what to ask for next time."),
    "results": ("runs", "Show the final metrics of runs, newest first."),
    "report": ("report", "Write a page about a run: what it did, how well it used the machine."),
    "runs": ("run_directories", "List, show, compare, export and delete run directories."),
    "jobs": ("jobs", "List and show jobs, or make a new one."),
    "sites": ("sites", "List and show clusters, or describe this one."),
    "doctor": ("doctor", "Check a site with a short probe job."),
    "environment": ("environment", "Make the software environment of a framework, and list those made."),
    "trust": ("trust", "Allow what a project's files start on this machine."),
    "data": ("datasets", "Fetch data sets before a job is submitted."),
    "bundle": ("bundle", "Make one file that installs hpclaunch without internet."),
    "docs": ("docs", "Read a page of the manual, or list the pages."),
}


GROUPS = {
    "Start a run": ("submit", "render", "shell", "search"),
    "Plan and measure": ("plan", "profile", "scale"),
    "Look at runs": ("status", "watch", "logs", "wait", "efficiency", "results", "report"),
    "Change runs": ("cancel", "retry", "resume", "rerun", "runs"),
    "Sites, jobs and data": ("jobs", "sites", "doctor", "environment", "data"),
    "Set up and read": ("trust", "bundle", "docs"),
}
"""Title in --help -> its commands; one that is in none of them stands under "Commands"."""


class Verbs(help_text.PlainGroup):
    """A group of commands, each built on first use."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands; builds none."""
        return list(VERBS)

    def command_rows(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return title -> (command, what it does) from the table, so that no command is built."""
        titles = {word: title for title, words in GROUPS.items() for word in words}
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS, "Commands")}
        for word, (_, summary) in VERBS.items():
            rows[titles.get(word, "Commands")].append((word, summary))
        return rows


class Commands(Mapping[str, Any]):
    """Name -> command."""

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
    for one in app.registered_commands:
        one.cls = help_text.PlainCommand
    commands = [command for command in app.registered_commands if command.name == word]
    if not commands:  # a group with its own commands, such as runs list
        group = typer.main.get_group(app)
        group.name = word
        return group
    return typer.main.get_command_from_info(commands[0], pretty_exceptions_short=False, rich_markup_mode=None)
