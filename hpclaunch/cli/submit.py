"""``submit`` and ``render``, which take the same flags: what ``render`` prints, ``submit`` submits."""

# Annotations stay types here: Typer would compile the text of each of a hundred at every start.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.actions.preparing.submit import Prepared
    from hpclaunch.actions.system import System

app = typer.Typer()


@app.command(
    "submit",
    epilog="After --: the program's own arguments, as in submit ./train.py -- --lr 0.1; or a whole command.",
)
@flags.of_request("submit")
def submit(
    *,
    context: typer.Context,
    target: flags.Program = None,
    typed: flags.Typed,
    from_script: flags.FromScript = None,
    as_is: flags.AsIs = False,
    runs_dir: flags.RunsDir = None,
    dry_run: flags.DryRun = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="With --dry-run: print one file that also contains the functions of hpclaunch.sh.",
            rich_help_panel=help_text.START,
        ),
    ] = False,
    test_only: flags.TestOnly = False,
    wait: run_flags.Wait = False,
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="Run at once in the allocation that this shell is in; submit no job.",
            rich_help_panel=help_text.START,
        ),
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Submit a job, your own script, or any command, as a multi-node run.

        hpclaunch submit cifar --nodes 4
        hpclaunch submit ./train.py --nodes 2 --walltime 1h -- --lr 0.1
        hpclaunch submit --nodes 2 -- ./simulate --steps 1000
        hpclaunch submit cifar --sweep learning_rate=0.1,0.01 --dry-run

    hpclaunch chooses what you do not type; -v shows each choice with its origin.
    """
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    _refuse_contradictions(full and not dry_run, here and test_only)
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    program = typed_values.program_of(target, context.obj, from_script, as_is)
    request = typed_values.request_of(system, typed, several_types=True, **program)
    request = _taken_in(system, request, from_script)
    prepared = _prepare(system, request, runs_dir, here)
    if here and not dry_run:
        _run_here(system, prepared, json)
    elif test_only:
        _show_estimate(system, prepared, json)
    elif dry_run:
        _show_script(_checked_script(system, prepared, full), json)
    else:
        _start(system, prepared, wait, json)


@app.command(
    "render",
    epilog="After --: the program's own arguments, as in render ./train.py -- --lr 0.1; or a whole command.",
)
@flags.of_request("render")
def render(
    *,
    context: typer.Context,
    target: flags.Program = None,
    typed: flags.Typed,
    from_script: flags.FromScript = None,
    as_is: flags.AsIs = False,
    runs_dir: flags.RunsDir = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the script to this file, and make its run directory. Submit it with sbatch FILE.",
            rich_help_panel=help_text.OUTPUT,
        ),
    ] = None,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Write one file that also contains the functions of hpclaunch.sh.",
            rich_help_panel=help_text.START,
        ),
    ] = False,
    json: run_flags.Json = False,
) -> None:
    """Print the script that submit would submit."""
    from hpclaunch.actions.preparing import script_file
    from hpclaunch.actions.queueing.start import create_run
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, submission

    system = System(warn=console.warn, tell=console.say)
    program = typed_values.program_of(target, context.obj, from_script, as_is)
    request = typed_values.request_of(system, typed, several_types=True, **program)
    request = _taken_in(system, request, from_script)
    prepared = _checked_script(system, _prepare(system, request, runs_dir), standalone)
    if output is None:
        _show_script(prepared, json)
        return
    script_file.check_output(Path(output))
    run = create_run(system, prepared)
    script_file.write_script(Path(output), prepared.text)
    start_command = " ".join(scheduler_row(run.scheduler).start_words(prepared.spec.clusters))
    _warn_of_strays(system, prepared, start_command)
    console.say(f"rendered; to submit it: {start_command} {output}")
    submission.show_run(run, json, prepared.spec.recipe)


def _refuse_contradictions(full_alone: bool, estimate_here: bool) -> None:
    """Raise InvalidRequest for --full without --dry-run, and for --test-only with --here."""
    if full_alone:
        raise InvalidRequest(Fault(where="--full", what="works only with --dry-run", next="--dry-run --full"))
    if estimate_here:
        what = "--test-only estimates the start of a job in the queue, and --here submits none"
        raise InvalidRequest(Fault(where="--test-only", what=what, next="leave one of them out"))


def _taken_in(system: "System", request: Request, from_script: Path | None) -> Request:
    """Return the request with what a batch script asks for, if one is named. Raises Refused."""
    if from_script is None:
        return request
    from hpclaunch.actions.requesting.from_script import request_from_script

    return request_from_script(system, request, str(from_script))


def _warn_of_strays(system: "System", prepared: "Prepared", start_command: str) -> None:
    """Name the variables of this shell that would override the script if it is submitted by hand."""
    from hpclaunch.actions.preparing import script_file
    from hpclaunch.cli.show import console

    stray = script_file.strays(system, prepared)
    if stray:
        console.warn(
            f"unset these variables first, as they override the script with {start_command}: {', '.join(stray)}"
        )


def _prepare(system: "System", request: Request, runs_dir: str | None, here: bool = False) -> "Prepared":
    """Prepare the submission, or the start in this shell's allocation, and show its choices with their origins."""
    from hpclaunch.actions.preparing import preflight
    from hpclaunch.actions.preparing.node_copies import copied, copied_bytes
    from hpclaunch.actions.preparing.standing_remarks import remarks_to_show
    from hpclaunch.actions.preparing.submit import prepare
    from hpclaunch.cli.show import streams, submission

    if here:
        from hpclaunch.actions.queueing.here import prepare_here

        prepared = prepare_here(system, request, runs_dir)
    else:
        prepared = prepare(system, request, runs_dir)
    submission.show_choices(prepared.spec, prepared.case.context.site_origin)
    submission.show_code(preflight.code_of(prepared))
    submission.show_broadcast(prepared.spec, copied(prepared.spec), copied_bytes(prepared.spec))
    submission.show_advice(prepared.case.advice.why)
    submission.show_recipe(prepared.spec.recipe)
    remarks = prepared.spec.unverified if streams.is_verbose() else remarks_to_show(system, prepared)
    submission.warn_of((*remarks, *preflight.notices_of(prepared)))
    return prepared


def _checked_script(system: "System", prepared: "Prepared", standalone: bool) -> "Prepared":
    """Return the submission with the script to print; warns of what is missing on this machine. Raises Refused."""
    from hpclaunch.actions.preparing import preflight, submit
    from hpclaunch.cli.show import submission

    submission.warn_missing(preflight.missing(prepared))
    preflight.check_resolved(prepared)
    return submit.standalone(system, prepared) if standalone else prepared


def _start(system: "System", prepared: "Prepared", wait: bool, json: bool) -> None:
    """Submit and show the run; with ``wait`` follow it to its end and exit with 0 if it completed."""
    from hpclaunch.actions.preparing.standing_remarks import remember_shown
    from hpclaunch.actions.queueing.start import start
    from hpclaunch.cli.show import submission

    run = start(system, prepared)
    remember_shown(system, prepared)
    if wait:
        from hpclaunch.cli.watch import watch_submitted

        watch_submitted(run, json)
    submission.show_run(run, json, prepared.spec.recipe)
    submission.show_next(run)


def _run_here(system: "System", prepared: "Prepared", json: bool) -> None:
    """Run in this shell's allocation, show the log and the end, and exit with the script's exit code."""
    from hpclaunch.actions.queueing.here import start_here
    from hpclaunch.cli.show import console, submission

    run, code = start_here(system, prepared, console.say_log)
    submission.show_end(run, json)
    raise typer.Exit(code)


def _show_estimate(system: "System", prepared: "Prepared", json: bool) -> None:
    """Show when the scheduler would start the job."""
    from hpclaunch.actions.preparing import preflight
    from hpclaunch.actions.queueing.start import follow_present
    from hpclaunch.cli.show import submission

    prepared = follow_present(system, prepared)
    submission.show_estimate(prepared.spec, preflight.estimate(prepared), json)


def _show_script(prepared: "Prepared", json: bool) -> None:
    from hpclaunch.cli.show import console

    if json:
        console.write_json("script", {"spec": prepared.spec.to_json(), "script": prepared.text})
    else:
        console.write(prepared.text)
