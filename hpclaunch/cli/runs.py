"""``status``, ``logs`` and ``cancel``: what happens to a run after it was submitted."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.cli import complete

RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job id [default: newest]."
    ),
]
OneRun = Annotated[
    str | None, typer.Argument(metavar="RUN", autocompletion=complete.runs, help="One run [default: all].")
]
NamedRun = Annotated[
    str, typer.Argument(metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job id.")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


def add_to(app: typer.Typer) -> None:
    """Add the three verbs."""
    app.command()(status)
    app.command()(logs)
    app.command()(cancel)


def status(run: OneRun = None, json: Json = False) -> None:
    """Show the state of one run or of all, newest first."""
    from hpclaunch import console, launch

    world = launch.World()
    found = [launch.find_run(world, run)] if run else launch.all_runs(world)
    console.show_status(found, json)


def logs(
    run: RunName = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
) -> None:
    """Print a run's log."""
    from hpclaunch import console, launch

    world = launch.World()
    found = launch.find_run(world, run)
    if not follow or not found.job_id:
        console.write_bytes(launch.Tail(found).read())
        return
    try:
        for _, text in launch.follow(world, found):
            console.write_bytes(text)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def cancel(run: NamedRun, json: Json = False) -> None:
    """End a run."""
    from hpclaunch import console, launch

    found = launch.cancel(launch.World(), run)
    console.show_status([found], json)
