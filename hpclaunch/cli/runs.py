"""``status``, ``logs``, ``wait``, ``cancel``, ``retry``, ``resume`` and ``results``: a run after it was submitted."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.cli import flags
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.units import WALLTIME_FORMS

app = typer.Typer()


@app.command("status")
def status(
    run: flags.Runs = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew until all have ended.")] = False,
    all_: flags.EveryTask = False,
    json: flags.Json = False,
) -> None:
    """Show the state of runs, newest first."""
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.actions.wait import wait as asked_again
    from hpclaunch.cli.show import console, run_tables

    system = System(warn=console.warn)
    found = states.find(system, run) if run else states.all_runs(system)
    if not watch or not found:
        run_tables.show_status(found, json, all_)
        return
    try:
        run_tables.watch_status(asked_again(found, None, 0, console.say), json, all_)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command("logs")
def logs(
    run: flags.RunName = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="What this rank alone has said.")] = None,
) -> None:
    """Print a run's log: all ranks, and all its starts in order."""
    from hpclaunch import runs
    from hpclaunch.actions import states, wait
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    (found,) = states.find(System(warn=console.warn), [run] if run else [])
    if found.tasks:
        what = f"{found.label} is an array of {found.tasks} runs, each with a log of its own"
        first = runs.task_of(found, 0).label
        raise Refused(Fault(what=what, next=f"hpclaunch logs {first}; hpclaunch status {found.label} --all"))
    rank = wait.own_log(found, rank)
    if not follow or not found.job_id:
        text = wait.Tail(found, rank).read()
        console.write_bytes(text)
        if not text and rank is None:
            console.say(f"nothing was written yet: {found.label} is {found.state}")
    else:
        try:
            for _, text in wait.follow(found, rank=rank):
                console.write_bytes(text)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    if rank is not None and not found.logs(rank):
        raise Refused(wait.unheard(found, rank))


@app.command("wait")
def wait(
    run: flags.NewestRuns = None,
    timeout: Annotated[str | None, typer.Option(help=f"Stop waiting, with 124, after {WALLTIME_FORMS}.")] = None,
    retries: Annotated[
        int, typer.Option(min=0, max=100, help="Start a run again this often, where a node or its launcher failed.")
    ] = 0,
    json: flags.Json = False,
) -> None:
    """Wait for runs to end; exit with 0 if all completed, else with the first other run's own exit code, or 1."""
    from hpclaunch.actions import states, wait
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.cli.watch import watch_all

    seconds = flags.seconds_of(timeout, "--timeout")
    found = states.awaitable(states.find(System(warn=console.warn), run or []))
    raise typer.Exit(wait.exit_code_of(watch_all(found, seconds, retries, json)))


@app.command("cancel")
def cancel(
    run: flags.NamedRuns = None,
    all_: Annotated[bool, typer.Option("--all", help="All runs that have not ended; asks first.")] = False,
    yes: flags.Yes = False,
    json: flags.Json = False,
) -> None:
    """End runs."""
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    if bool(run) == all_:
        raise InvalidRequest(Fault(what="name runs, or say --all", next="hpclaunch status lists them"))
    system = System(warn=console.warn)
    if run:
        run_tables.show_status(states.cancel(states.find(system, run)), json)
        return
    doomed = [one for one in states.all_runs(system) if not one.final and states.has_a_job(one)]
    if not doomed:
        raise Refused(Fault(what="there is nothing to cancel: no run is queued or running", next="hpclaunch status"))
    for one in doomed:
        console.say(f"  {one.label} {one.job_id} {one.state}")
    if doomed and not yes and not console.confirmed(f"cancel these {len(doomed)}? [y/N]"):
        raise Refused(Fault(what="nothing was cancelled", next="--yes cancels them without asking"))
    run_tables.show_status(states.cancel(doomed), json)


@app.command("retry")
def retry(run: flags.OneRun, json: flags.Json = False) -> None:
    """Start a run again that a node, a preemption or its launcher ended; never one that failed by itself."""
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    (found,) = states.find(System(warn=console.warn), [run])
    console.show_run(states.retry(found, console.say), json)


@app.command("resume")
def resume(
    run: flags.OneRun,
    nodes: Annotated[int | None, typer.Option(min=1, help="Go on with so many nodes.")] = None,
    walltime: Annotated[str | None, typer.Option(help=f"The longest each job may run: {WALLTIME_FORMS}.")] = None,
    json: flags.Json = False,
) -> None:
    """Let an ended run go on from what its program has saved, in the same run directory."""
    from hpclaunch.actions import resume, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    (found,) = states.find(system, [run])
    again, told = resume.resume(system, found, nodes, flags.seconds_of(walltime))
    for text in told:
        console.warn(text)
    console.show_run(again, json)


@app.command("results")
def results(run: flags.Runs = None, json: flags.Json = False) -> None:
    """Show the final metrics of runs, newest first."""
    from hpclaunch.actions import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    system = System(warn=console.warn)
    run_tables.show_results(states.find(system, run) if run else states.all_runs(system), json)
