"""``rerun``: makes the same run again from its record, as a new run, and names what cannot be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.cli import flags, run_flags
from hpclaunch.core.errors import Fault, InvalidRequest

if TYPE_CHECKING:
    from hpclaunch.actions.continuing.rerun import Rerun
    from hpclaunch.runs import Run

app = typer.Typer()


@app.command("rerun")
def rerun(
    run: run_flags.OneRun,
    runs_dir: Annotated[
        str | None, typer.Option(help="The folder for the new run directory [default: that of the run].")
    ] = None,
    dry_run: flags.DryRun = False,
    test_only: flags.TestOnly = False,
    wait: run_flags.Wait = False,
    json: run_flags.Json = False,
) -> None:
    """Make the same run again, from its record.

    The new run has the code, the parameters, the seed, the layout and the site of the recorded one, and a directory of
    its own. What cannot be the same is listed first.
    """
    from hpclaunch.actions.continuing.rerun import prepare_rerun, submit_rerun
    from hpclaunch.actions.following import states
    from hpclaunch.actions.preparing import preflight
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, submission

    if dry_run and test_only:
        raise InvalidRequest(Fault(where="--test-only", what="excludes --dry-run", next="leave one of them out"))
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    (found,) = states.find(system, [run])
    again = prepare_rerun(system, found, runs_dir)
    _show_rerun(again)
    spec = again.prepared.spec
    if test_only:
        submission.show_estimate(spec, preflight.estimate(again.prepared), json)
    elif dry_run:
        submission.warn_missing(preflight.missing(again.prepared))
        preflight.check_resolved(again.prepared)
        _show_script(again, json)
    else:
        _follow(again, submit_rerun(again), wait, json)


def _show_rerun(again: Rerun) -> None:
    """Show the choices of the new run as a submission shows them, then what is not the same."""
    from hpclaunch.actions.continuing.rerun import rerun_notices
    from hpclaunch.actions.preparing.preflight import code_of
    from hpclaunch.cli.show import console, submission

    prepared = again.prepared
    submission.show_choices(prepared.spec, f"as {again.of.label}")
    submission.show_code(code_of(prepared))
    submission.warn_of((*prepared.spec.unverified, *rerun_notices(again)))
    if not again.differences:
        console.say(f"  everything that is recorded of {again.of.label} is the same")
        return
    console.say(f"  not the same as {again.of.label}:")
    for difference in again.differences:
        console.say(f"    {difference}")


def _show_script(again: Rerun, json: bool) -> None:
    from hpclaunch.cli.show import console

    prepared = again.prepared
    if json:
        values = {"spec": prepared.spec.to_json(), "script": prepared.text, **again.to_json()}
        console.write_json("script", values)
    else:
        console.write(prepared.text)


def _follow(again: Rerun, run: Run, wait: bool, json: bool) -> None:
    from hpclaunch.cli.show import submission

    if wait:
        from hpclaunch.cli.watch import watch_submitted

        watch_submitted(run, json)
    submission.show_run(run, json, again.prepared.spec.recipe, again.to_json())
    submission.show_next(run)
    if not json:
        from hpclaunch.cli.show import console

        console.say(f"  hpclaunch runs compare {again.of.label} {run.label}")
