"""``runs list``, ``show``, ``compare``, ``clean``, ``forget`` and ``rebuild``: the run directories."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from hpclaunch.cli import complete, flags
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.units import WALLTIME_FORMS, count, parse_walltime

app = typer.Typer(help="List, show, compare and delete run directories.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="Only runs whose last recorded state is this one.")] = None,
    all_: flags.EveryTask = False,
    json: flags.Json = False,
) -> None:
    """List the runs with their last recorded states, newest first.

    The scheduler is not asked; `hpclaunch status` asks it.
    """
    from hpclaunch import runs
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    found = states.recorded_runs(System(warn=console.warn))
    found = runs.each(found) if all_ else found
    wanted = [run for run in found if state is None or run.state == state.upper()]
    if found and not wanted and not json:
        console.say(f"no run is {state}; the states are {', '.join(sorted({run.state for run in found}))}")
        return
    run_tables.show_status(wanted, json)


@app.command()
def show(run: flags.RunName = None, json: flags.Json = False) -> None:
    """Show everything in a run directory.

    This includes states, starts, logs, checkpoints and the result.
    """
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    (found,) = states.find(System(warn=console.warn), [run] if run else [])
    run_tables.show_everything(found, json)


@app.command()
def compare(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", autocompletion=complete.runs, help="Names, directories or job IDs of two runs or more."
        ),
    ],
    json: flags.Json = False,
) -> None:
    """Show the differences between runs: request, code, software, result."""
    from hpclaunch import runs
    from hpclaunch.actions import inspect, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    found = runs.each(states.find(System(warn=console.warn), run))
    if len(found) < 2:
        raise InvalidRequest(Fault(what="name two runs or more", next="hpclaunch runs list"))
    run_tables.show_differences(found, inspect.differences(found), json)


@app.command()
def clean(
    run: flags.NamedRuns = None,
    older_than: Annotated[
        str | None, typer.Option(help=f"Only runs that are older than this: {WALLTIME_FORMS}.")
    ] = None,
    keep: Annotated[int, typer.Option(min=0, help="Keep this many of the newest runs.")] = 0,
    yes: flags.Yes = False,
    json: flags.Json = False,
) -> None:
    """Delete the directories of ended runs, with logs and checkpoints.

    It asks for confirmation first.
    """
    from hpclaunch.actions import clean as cleaning
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    if not run and older_than is None and keep == 0:
        raise InvalidRequest(
            Fault(
                what="no runs were named",
                allowed="RUN..., --older-than, --keep",
                next="hpclaunch runs clean --older-than 30d",
            )
        )
    system = System(warn=console.warn)
    found = states.find(system, run) if run else states.all_runs(system)
    ended, kept = cleaning.cleanable(found, _age(older_than), keep, system.now())
    if run and kept:
        raise Refused([cleaning.explain_kept(each_run) for each_run in kept])
    deletions = cleaning.measure(ended)
    run_tables.show_deletions(deletions, kept, json)
    if not deletions and not json:
        return
    if deletions and not yes and not console.confirmed("delete these directories, with their checkpoints? [y/N]"):
        raise Refused(Fault(what="nothing was deleted", next="to delete without confirmation, add --yes"))
    run_tables.show_deleted(deletions, cleaning.delete(system, ended, console.say), json)


@app.command()
def forget(
    run: flags.NamedRuns = None,
    yes: flags.Yes = False,
    json: flags.Json = False,
) -> None:
    """Close runs whose state nobody can know any more.

    Their state becomes FORGOTTEN. No job is cancelled, and no file is deleted. It asks for confirmation first.
    """
    from hpclaunch.actions import cancel, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    if not run:
        raise InvalidRequest(Fault(what="name the runs to close", next="hpclaunch status lists the runs"))
    found = cancel.forgettable(states.find(System(warn=console.warn), run))
    for each_run in found:
        console.say(f"  {each_run.label} {each_run.job_id or '-'} {each_run.state} {each_run.reason}".rstrip())
    console.say("hpclaunch will not ask about them again. It cancels no job: one that still runs continues.")
    if not yes and not console.confirmed(f"close {count(len(found), 'run')}? [y/N]"):
        raise Refused(Fault(what="nothing was changed", next="to close them without confirmation, add --yes"))
    run_tables.show_status(cancel.forget(found), json)


@app.command()
def rebuild(
    folder: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER...", help="Folders that hold run directories.")
    ] = None,
    json: flags.Json = False,
) -> None:
    """Write the list of runs again from the run directories.

    It looks in ./runs, beside the runs in the old list, and in each FOLDER.
    """
    from hpclaunch.actions import clean as cleaning
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    rebuilt = cleaning.rebuild(system, folder or [])
    states.warn_not_permitted(system, rebuilt.not_permitted)
    if json:
        plain = {"runs": rebuilt.paths, "forgotten": rebuilt.forgotten, "not_permitted": rebuilt.not_permitted}
        console.write_json({name: list(map(str, paths)) for name, paths in plain.items()})
        return
    for path in rebuilt.forgotten:
        if path.exists():
            console.warn(f"{path} is not in the new list: its record cannot be read")
    missing = sum(not path.exists() for path in rebuilt.forgotten)
    removed = f"{count(missing, 'run')} removed, whose directory no longer exists"
    console.say(f"the list has {count(len(rebuilt.paths), 'run')}; {removed}")


def _age(text: str | None) -> timedelta:
    try:
        return timedelta(seconds=parse_walltime(text) if text else 0)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(Fault(where="--older-than", what=str(error), allowed=WALLTIME_FORMS)) from None
