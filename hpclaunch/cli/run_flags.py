"""The flags of commands about runs, and those of the output, that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hpclaunch.cli import help_text
from hpclaunch.cli.offers import offer

RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=offer("runs"),
        help="A run's name, directory or job ID, or @2 [default: the newest, @1].",
    ),
]

OneRun = Annotated[
    str,
    typer.Argument(metavar="RUN", autocompletion=offer("runs"), help="A run's name, directory, job ID, or @2."),
]


def _several_runs(otherwise: str = "") -> Any:
    """Return the argument for several runs; ``otherwise``: which are meant without a name, as the help says it."""
    words = f"Names, directories, job IDs of runs, or @2{otherwise}."
    return typer.Argument(metavar="RUN...", autocompletion=offer("runs"), help=words)


Runs = Annotated[list[str] | None, _several_runs(" [default: all runs]")]

NamedRuns = Annotated[list[str] | None, _several_runs()]

NewestRuns = Annotated[list[str] | None, _several_runs(" [default: the newest run]")]

EveryTask = Annotated[
    bool,
    typer.Option("--all", help="Show each run of a job array on a line [default: the number of its runs by state]."),
]

Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Follow the run until it has ended; the exit code is 0 if it completed.",
        rich_help_panel=help_text.START,
    ),
]

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME|DATE", help="Only runs of the last 7d (or 12h, …), or since 2026-11-24 (UTC)."),
]

Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.", rich_help_panel=help_text.OUTPUT)]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=help_text.START)]
