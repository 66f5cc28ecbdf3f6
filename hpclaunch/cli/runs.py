"""``status``, ``logs``, ``wait``, ``cancel``, ``retry``, ``resume``, ``results``: runs after their submission."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_times
from hpclaunch.cli import run_flags
from hpclaunch.cli.offers import offer
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.units import WALLTIME_FORMS, count

if TYPE_CHECKING:
    from hpclaunch.runs import Run

app = typer.Typer()


@app.command("status")
def status(
    run: run_flags.Runs = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update the list until all runs have ended.")] = False,
    state: Annotated[
        list[str],
        typer.Option(
            "--state",
            metavar="STATE",
            autocompletion=offer("states"),
            help="Only runs in this state: RUNNING, FAILED, … Repeatable.",
        ),
    ] = [],  # noqa: B006
    since: run_flags.Since = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAMES",
            autocompletion=offer("columns"),
            help="The columns: run,state,epoch, … A wrong name lists all.",
        ),
    ] = None,
    tabs: Annotated[bool, typer.Option("--tabs", help="Write tab-separated values, as in a pipe.")] = False,
    all_: run_flags.EveryTask = False,
    json: run_flags.Json = False,
) -> None:
    """Show the state of runs, newest first: nodes, elapsed time, time left, epoch."""
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    form = run_tables.ListForm(names=_columns_of(format_, json), tabs=tabs)
    system = System(warn=console.warn)
    begin = typed_times.since_of(since, system.now())
    most = None if json or state or since or all_ else states.MOST_ENDED
    known = None if run else states.list_runs(system, begin, most)
    found = states.find(system, run or []) if known is None else known.runs
    found = states.in_states([one for one in found if one.created >= begin], state, every=all_ or json)
    if not found and (state or since) and not json:
        console.say("no run has this state and time; hpclaunch status lists all")
        return
    if known is not None and known.left_out:
        older = "that ended before these; hpclaunch runs list shows all, --since DAY those of a time"
        console.say(f"not shown: {count(known.left_out, 'run')} {older}")
    if not watch or not found:
        run_tables.show_status(found, json, all_, form, progress=known.progress if known else None)
        return
    from hpclaunch.actions.queueing.wait import wait as poll_until_ended  # with all that starts a run again

    try:
        run_tables.watch_status(poll_until_ended(found, None, 0, console.say), json, all_, form)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _columns_of(text: str | None, json: bool) -> list[str]:
    """Return the columns that ``--format`` names; none if it was not typed. Raises InvalidRequest."""
    if text is None:
        return []
    if json:
        raise InvalidRequest(
            Fault(where="--format, --json", what="cannot be used together", next="leave one of them out")
        )
    from hpclaunch.cli.show.run_columns import named_columns

    return named_columns(text)


@app.command("logs")
def logs(
    run: run_flags.RunName = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing until the run has ended.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="Print the log of this rank only.")] = None,
    lines: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="Begin with this number of lines before the end.")
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Print a run's log, with all its ranks and starts; of a long one that is followed, the last 1,000 lines."""
    from hpclaunch.actions.following import states
    from hpclaunch.actions.queueing import wait
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.runs.unread import refuse_strange_names

    refuse_strange_names([run] if run else [])
    (found,) = states.find(System(warn=console.warn), [run] if run else [])
    wait.refuse_array(found)
    wait.refuse_foreign_log(found)
    rank = wait.own_log(found, rank)
    is_followed, last, parts = follow and bool(found.job_id), found, list[bytes]()
    tail = wait.Tail(found, rank)
    if lines is not None:
        tail.skip_to_last(lines)
    elif is_followed and not json and (before := tail.begin_near_end()):
        console.say(f"{before:,} bytes before this are left out; hpclaunch logs {found.label} prints all")
    try:
        for now, part in wait.follow(found, tail=tail) if is_followed else wait.read_log(found, tail):
            last = now
            parts.append(part if json else part[:1])
            if not json:
                console.write_log(part)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if rank is not None and not found.logs(rank):
        raise Refused(wait.missing_log_fault(found, rank))
    if rank is None and not is_followed and lines != 0 and not any(parts):
        console.say(f"the log is still empty: {found.label} is {found.state}")
    if json:
        text = b"".join(parts).decode("utf-8", errors="backslashreplace")
        console.write_json("log", {"run": last.id, "state": last.state, "rank": rank, "text": text})


@app.command("wait")
def wait(
    run: run_flags.NewestRuns = None,
    timeout: Annotated[
        str | None, typer.Option(help=f"Stop waiting after this time, with exit code 124: {WALLTIME_FORMS}.")
    ] = None,
    retries: Annotated[
        int,
        typer.Option(min=0, max=100, help="How many times to start a run again after a node or its launcher failed."),
    ] = 0,
    json: run_flags.Json = False,
) -> None:
    """Wait until runs have ended.

    The exit code is 0 if all runs completed, else that of the first run that did not complete, or 1.
    """
    from hpclaunch.actions.following import states
    from hpclaunch.actions.queueing import wait
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console
    from hpclaunch.cli.watch import watch_all

    seconds = typed_times.seconds_of(timeout, "--timeout")
    found = states.awaitable(states.find(System(warn=console.warn), run or []))
    raise typer.Exit(wait.exit_code_of(watch_all(found, seconds, retries, json)))


@app.command("cancel")
def cancel(
    run: run_flags.NamedRuns = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Cancel all runs that have not ended; asks for confirmation first.")
    ] = False,
    yes: run_flags.Yes = False,
    json: run_flags.Json = False,
) -> None:
    """Cancel runs that wait or run."""
    from hpclaunch.actions.following import cancel, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables

    if bool(run) == all_:
        what = "name the runs to cancel, or add --all"
        raise InvalidRequest(Fault(what=what, next="hpclaunch status lists the runs"))
    system = System(warn=console.warn)
    if run:
        run_tables.show_status(cancel.cancel(states.find(system, run)), json)
        return
    active = cancel.all_cancellable(states.all_runs(system))
    if not active:
        raise Refused(Fault(what="there is nothing to cancel: no run is queued or running", next="hpclaunch status"))
    for job in active:
        console.say(f"  {job.label} {job.job_id} {job.state}", is_asked=not yes)
    if active and not yes and not console.confirmed(f"cancel {count(len(active), 'run')}? [y/N]"):
        raise Refused(Fault(what="nothing was cancelled", next="to cancel without confirmation, add --yes"))
    run_tables.show_status(cancel.cancel(active), json)


@app.command("retry")
def retry(run: run_flags.OneRun, wait: run_flags.Wait = False, json: run_flags.Json = False) -> None:
    """Start a run again after a fault of the machine.

    Such faults are a failed node, a preemption and a failed launch. A run whose program failed is refused: correct it
    and submit it again, or use `hpclaunch resume`.
    """
    from hpclaunch.actions.following import states
    from hpclaunch.actions.queueing import retry
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    (found,) = states.find(System(warn=console.warn), [run])
    _show_start(found, lambda: retry.retry(found, console.say), wait, json)


@app.command("resume")
def resume(
    run: run_flags.OneRun,
    nodes: Annotated[int | None, typer.Option(min=1, help="Continue with this number of nodes.")] = None,
    walltime: Annotated[str | None, typer.Option(help=f"The time limit of each job: {WALLTIME_FORMS}.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            autocompletion=offer("recipes"),
            help="Take a new recipe: plan, job, or one of the job [default: the run's own].",
        ),
    ] = None,
    wait: run_flags.Wait = False,
    json: run_flags.Json = False,
) -> None:
    """Continue an ended run from its last checkpoint.

    The run keeps its run directory, and with another number of nodes its global batch, optimizer, schedule and rate.
    """
    from hpclaunch.actions.continuing import resume
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    (found,) = states.find(system, [run])
    changes = resume.Changes(nodes=nodes, walltime=typed_times.seconds_of(walltime), recipe=recipe)

    def start() -> Run:
        resumed, warnings = resume.resume(system, found, changes)
        for text in warnings:
            console.warn(text)
        return resumed

    _show_start(found, start, wait, json)


def _show_start(found: Run, start: Callable[[], Run], wait: bool, json: bool) -> None:
    """Start a run again and show it; with ``wait`` follow it to its end, without the logs of its earlier starts."""
    from hpclaunch.actions.queueing.wait import Tail
    from hpclaunch.cli.show import submission
    from hpclaunch.cli.watch import watch_submitted

    tail = Tail(found)
    tail.skip_to_last(0)
    run = start()
    if not wait:
        submission.show_run(run, json)
        return
    watch_submitted(run, json, tail)


@app.command("results")
def results(run: run_flags.Runs = None, json: run_flags.Json = False) -> None:
    """Show the final metrics of runs, newest first."""
    from hpclaunch.actions.following import inspect, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, run_tables
    from hpclaunch.runs.unread import refuse_strange_names, strange_place

    system = System(warn=console.warn)
    found = states.find(system, run) if run else states.all_runs(system)
    refuse_strange_names(run or [])
    strange = [fault for one in found for fault in strange_place(one.home)]
    if run and strange:
        raise Refused(strange)
    found = [one for one in found if not strange_place(one.home)] if strange else found
    for fault in (*strange, *inspect.foreign_results(found)):
        console.warn(str(fault))
    run_tables.show_results(found, json)
