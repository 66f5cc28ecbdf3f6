"""``runs list``, ``show``, ``compare``, ``export``, ``clean``, ``forget``, ``repair``, ``adopt``, ``rebuild``."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.cli import help_text, run_flags
from hpclaunch.cli.offers import offer, one_of
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.units import WALLTIME_FORMS, count, parse_walltime

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.runs import Run

app = typer.Typer(
    cls=help_text.PlainGroup,
    help="List, show, compare, export and delete run directories.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    state: Annotated[
        str | None,
        typer.Option(autocompletion=offer("states"), help="Only runs whose last recorded state is this one."),
    ] = None,
    all_: run_flags.EveryTask = False,
    json: run_flags.Json = False,
) -> None:
    """List the runs with their last recorded states, newest first.

    The scheduler is not asked; `hpclaunch status` asks it.
    """
    from hpclaunch import runs
    from hpclaunch.actions.following import states
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
def show(
    run: run_flags.RunName = None,
    draw_model: Annotated[
        Path | None, typer.Option(help="Draw the trained model into FILE.png or FILE.svg (needs matplotlib).")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Show everything in a run directory.

    This includes states, starts, logs, checkpoints and the result.
    """
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_details
    from hpclaunch.runs.unread import READ_BY_A_PAGE, refuse_strange_names, strange_place, unread

    (found,) = states.find(System(warn=console.warn), [run] if run else [])
    refuse_strange_names([run] if run else [])
    if strange := strange_place(found.home):
        raise Refused(strange)
    for fault in unread(found, READ_BY_A_PAGE):
        console.warn(str(fault))
    if draw_model is not None:
        _draw_model(found, draw_model)
    run_details.show_everything(found, json)


def _draw_model(run: Run, path: Path) -> None:
    from hpclaunch.actions.sharing.model_layers import layers_of
    from hpclaunch.cli.show import console
    from hpclaunch.reports.charts.canvas import check_file
    from hpclaunch.reports.charts.model_chart import draw

    check_file(path, "--draw-model")
    layers = layers_of(run)
    parameters = sum(layer.parameters for layer in layers)
    try:
        draw(layers, path, title=f"{run.name}: {count(parameters, 'parameter')}")
    except OSError as error:
        raise Refused(Fault(where=str(path), what=f"cannot be written: {error.strerror}")) from None
    console.say(f"the model is drawn in {path}")


@app.command()
def compare(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", autocompletion=offer("runs"), help="Names, directories or job IDs of two runs or more."
        ),
    ],
    json: run_flags.Json = False,
) -> None:
    """Show the differences between runs: request, code, software, result."""
    from hpclaunch import runs
    from hpclaunch.actions.following import inspect, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    found = runs.each(states.find(System(warn=console.warn), run))
    if len(found) < 2:
        raise InvalidRequest(Fault(what="name two runs or more", next="hpclaunch runs list"))
    run_tables.show_differences(found, inspect.differences(found), json)


@app.command()
def export(
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", autocompletion=offer("runs"), help="Names, directories or job IDs of ended runs."
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            autocompletion=one_of("tensorboard", "mlflow", "ro-crate"),
            help="tensorboard, mlflow or ro-crate.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="The new folder to write.", rich_help_panel=help_text.OUTPUT
        ),
    ],
    license_: Annotated[
        str,
        typer.Option(
            "--license", metavar="SPDX", help="The license of an RO-Crate, such as CC-BY-4.0, or its address."
        ),
    ] = "",
    with_paths: Annotated[
        bool,
        typer.Option("--with-paths", help="Leave this machine's folders in an RO-Crate [default: names for them]."),
    ] = False,
    include: Annotated[
        list[str],
        typer.Option(
            metavar="PATTERN",
            help="Take files of an RO-Crate's code/ and model/ that look like secrets, or are large. Repeatable.",
        ),
    ] = [],  # noqa: B006
    json: run_flags.Json = False,
) -> None:
    """Write ended runs as files of other tools.

    tensorboard: event files. mlflow: a file store. ro-crate: one run with its script, code, settings and results, for a
    repository of research data (Workflow Run Crate 0.5).
    """
    from hpclaunch.actions.following import states
    from hpclaunch.actions.sharing import export
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.runs.unread import refuse_strange_names

    refuse_strange_names(run)
    found = states.find(System(warn=console.warn), run)
    options = export.CrateOptions(license=license_, with_paths=with_paths, include=tuple(include))
    exported = export.export(found, to, output, options)
    for note in exported.notes:
        console.warn(note)
    if json:
        names = [one.id for one in exported.runs]
        console.write_json("export", {"format": to, "folder": str(output), "runs": names})
        return
    console.say(f"{count(len(exported.runs), 'run')} written as {to}")
    command = export.next_command(to, output)
    if command:
        console.say(f"  {command}")
    console.write(f"{output}\n")


@app.command()
def clean(
    run: run_flags.NamedRuns = None,
    older_than: Annotated[
        str | None, typer.Option(help=f"Only runs that are older than this: {WALLTIME_FORMS}.")
    ] = None,
    keep: Annotated[int, typer.Option(min=0, help="Keep this many of the newest runs.")] = 0,
    all_folders: Annotated[
        bool, typer.Option("--all-folders", help="Cover the runs of all folders, not only those of this one.")
    ] = False,
    yes: run_flags.Yes = False,
    json: run_flags.Json = False,
) -> None:
    """Delete the directories of ended runs, with logs and checkpoints.

    Without RUN it covers the runs of the current folder. It asks for confirmation first.
    """
    from hpclaunch import runs
    from hpclaunch.actions.following import clean as cleaning
    from hpclaunch.actions.following import states
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
    if run:
        found = runs.newest_first(system.index, system.run_folders, states.find(system, run))
    else:
        found = _runs_to_cover(system, all_folders)
    ended, kept = cleaning.cleanable(found, _age(older_than), keep, system.now())
    cleaning.refuse_others(ended)
    if run and kept:
        raise Refused([cleaning.explain_kept(each_run) for each_run in kept])
    deletions = cleaning.measure(ended)
    run_tables.show_deletions(deletions, kept, json)
    if not deletions and not json:
        return
    if deletions and not yes and not console.confirmed("delete these directories, with their checkpoints? [y/N]"):
        raise Refused(Fault(what="nothing was deleted", next="to delete without confirmation, add --yes"))
    run_tables.show_deleted(deletions, cleaning.delete(system, ended, console.say), json)


def _runs_to_cover(system: System, all_folders: bool) -> list[Run]:
    """Return the runs that `clean` covers when none is named; says how many it does not cover."""
    from hpclaunch.actions.following import clean as cleaning
    from hpclaunch.actions.following import states
    from hpclaunch.cli.show import console

    known = states.recorded_runs(system)
    own = cleaning.of_this_user(known)
    if own != known:
        console.say(f"{count(len(known) - len(own), 'run')} of other users not covered")
    here = own if all_folders else cleaning.of_folder(system, own)
    if here != own:
        console.say(f"{count(len(own) - len(here), 'run')} of other folders not covered; add --all-folders for them")
    return states.refreshed(here)


@app.command()
def forget(
    run: run_flags.NamedRuns = None,
    yes: run_flags.Yes = False,
    json: run_flags.Json = False,
) -> None:
    """Close runs whose state stays unknown.

    Their state becomes FORGOTTEN. No job is cancelled, and no file is deleted. It asks for confirmation first.
    """
    from hpclaunch.actions.following import cancel, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    if not run:
        raise InvalidRequest(Fault(what="name the runs to close", next="hpclaunch status lists the runs"))
    found = cancel.forgettable(states.find(System(warn=console.warn), run))
    for each_run in found:
        line = f"  {each_run.label} {each_run.job_id or '-'} {each_run.state} {each_run.reason}"
        console.say(line.rstrip(), is_asked=not yes)
    after = "hpclaunch will not ask about them again. It cancels no job: one that still runs continues."
    console.say(after, is_asked=not yes)
    if not yes and not console.confirmed(f"close {count(len(found), 'run')}? [y/N]"):
        raise Refused(Fault(what="nothing was changed", next="to close them without confirmation, add --yes"))
    run_tables.show_status(cancel.forget(found), json)


@app.command()
def repair(
    run: run_flags.OneRun,
    state: Annotated[
        str,
        typer.Option(
            "--state", metavar="STATE", autocompletion=offer("ends"), help="How it ended: COMPLETED, FAILED, TIMEOUT, …"
        ),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why the record is wrong. It is kept.")],
    json: run_flags.Json = False,
) -> None:
    """Correct the recorded end of a run.

    The record of an ended run is final: no scheduler's answer changes it. This is the only way to change it. The record
    keeps who did so, when, why, and what it said before.
    """
    from hpclaunch.actions.following import repair as repairing
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    wanted, why = repairing.wanted_state(state), repairing.wanted_reason(reason)
    (found,) = states.find(System(warn=console.warn), [run])
    run_tables.show_status([repairing.repair(found, wanted, why)], json)


@app.command()
def adopt(
    folder: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories.")],
    json: run_flags.Json = False,
) -> None:
    """Make runs your own that were moved, or that another home or version made.

    hpclaunch acts only on runs of yours: it cancels, starts and deletes no others. Look at the record first
    (runs show DIR): from now on its job IDs are believed.
    """
    from hpclaunch.actions.following import adopt as adoption
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    run_tables.show_status(adoption.adopt(System(warn=console.warn), folder), json)


@app.command()
def rebuild(
    folder: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER...", help="Folders that hold run directories.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Write the list of runs again from the run directories.

    It looks in ./runs, beside the runs in the old list, and in each FOLDER.
    """
    from hpclaunch.actions.following import clean as cleaning
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    rebuilt = cleaning.rebuild(system, folder or [])
    states.warn_not_permitted(system, rebuilt.not_permitted)
    if json:
        plain = {"runs": rebuilt.paths, "forgotten": rebuilt.forgotten, "not_permitted": rebuilt.not_permitted}
        console.write_json("rebuilt", {name: list(map(str, paths)) for name, paths in plain.items()})
        return
    for path in rebuilt.forgotten:
        if os.path.exists(path):
            console.warn(f"{path} is not in the new list: its record cannot be read")
    missing = sum(not os.path.exists(path) for path in rebuilt.forgotten)
    removed = f"{count(missing, 'run')} removed, whose directory no longer exists"
    console.say(f"the list has {count(len(rebuilt.paths), 'run')}; {removed}")


def _age(text: str | None) -> timedelta:
    try:
        return timedelta(seconds=parse_walltime(text) if text else 0)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(Fault(where="--older-than", what=str(error), allowed=WALLTIME_FORMS)) from None
