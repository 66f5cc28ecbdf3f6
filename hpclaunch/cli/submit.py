"""``submit`` and ``render``: prefixes of one path, so they take the same flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hpclaunch.cli import complete
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import Request
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS, parse_memory, parse_walltime
from hpclaunch.launchers import LAUNCHERS

app = typer.Typer()
_NAMED = 5
"""So many runs are named to who no longer waits for them."""

Target = Annotated[
    str,
    typer.Argument(
        metavar="JOB|SCRIPT", autocompletion=complete.jobs, help="A job's name, or a path to a script of your own."
    ),
]
Site = Annotated[
    str | None, typer.Option(autocompletion=complete.sites, help="The cluster [default: detected]. See: sites list.")
]
NodeType = Annotated[str | None, typer.Option(help="The kind of node, by its name in the site file.")]
Nodes = Annotated[int | None, typer.Option(min=1, help="How many nodes.")]
TasksPerNode = Annotated[int | None, typer.Option(min=1, help="Ranks on every node [default: one per GPU].")]
CpusPerTask = Annotated[int | None, typer.Option(min=1, help="CPUs (hardware threads) of every rank.")]
GpusPerNode = Annotated[int | None, typer.Option(min=0, help="GPUs to ask for on every node.")]
Launcher = Annotated[str | None, typer.Option(help=f"What starts the ranks: {', '.join(LAUNCHERS)}.")]
Strategy = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.strategies,
        help="What averages gradients: horovod, mirrored (one task with all GPUs of its node) or multiworker (gRPC). "
        "[default: horovod]",
    ),
]
Account = Annotated[str | None, typer.Option(help="The account that pays.")]
Partition = Annotated[str | None, typer.Option(help="The partition.")]
Qos = Annotated[str | None, typer.Option(help="The quality of service.")]
Walltime = Annotated[str | None, typer.Option(help=f"The longest it may run: {WALLTIME_FORMS}.")]
Memory = Annotated[str | None, typer.Option(help=f"Memory of a node: {MEMORY_FORMS}.")]
AcceptUnverified = Annotated[
    bool,
    typer.Option(
        "--accept-unverified",
        help="Take what the site file does not know: names of partitions and QOS, Slurm's usual launcher.",
    ),
]
DataDir = Annotated[str | None, typer.Option(help="The folder that holds the job's data set.")]
Synthetic = Annotated[bool, typer.Option("--synthetic", help="Train on stand-in images of the same shape.")]
Hosts = Annotated[str | None, typer.Option("--hosts", help="Without a scheduler: a file that names the hosts.")]
Restarts = Annotated[
    int | None,
    typer.Option(min=0, help="How often to start it again when it has saved its state (docs/contract.md); 0: never."),
]
Signal = Annotated[str | None, typer.Option(help="What asks it to save, and when: USR2@120 [seconds before the end].")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter of the job. Repeatable.")]
Sweep = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=V1,V2,…",
        help="Values of a hyper-parameter, also 1..10: every combination is one run of a job array. Repeatable.",
    ),
]
AtOnce = Annotated[int | None, typer.Option(min=1, help="How many runs of a sweep may run at a time [default: any].")]
Sbatch = Annotated[list[str], typer.Option(metavar='"--any=option"', help="Any other sbatch option. Repeatable.")]
RunsDir = Annotated[str | None, typer.Option(help="Where run directories are made [default: ./runs or the site's].")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


@app.command("submit", epilog="Arguments for the program itself stand after --, as in: submit train.py -- --lr 0.1")
def submit(
    context: typer.Context,
    target: Target,
    site: Site = None,
    node_type: NodeType = None,
    nodes: Nodes = None,
    tasks_per_node: TasksPerNode = None,
    cpus_per_task: CpusPerTask = None,
    gpus_per_node: GpusPerNode = None,
    launcher: Launcher = None,
    strategy: Strategy = None,
    account: Account = None,
    partition: Partition = None,
    qos: Qos = None,
    walltime: Walltime = None,
    memory: Memory = None,
    restarts: Restarts = None,
    signal: Signal = None,
    set_: Set = [],  # noqa: B006
    sweep: Sweep = [],  # noqa: B006
    at_once: AtOnce = None,
    sbatch: Sbatch = [],  # noqa: B006
    data_dir: DataDir = None,
    synthetic: Synthetic = False,
    hosts: Hosts = None,
    accept_unverified: AcceptUnverified = False,
    runs_dir: RunsDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the script; write and submit nothing.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --dry-run: the script with the functions of hpclaunch.sh in it.")
    ] = False,
    test_only: Annotated[
        bool, typer.Option("--test-only", help="Check everything, and ask Slurm when it would start; submit nothing.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run to its end; exit 0 if it completed.")] = False,
    json: Json = False,
) -> None:
    """Submit a job, or any script, as a sized multi-node run."""
    from hpclaunch.actions import submit
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    if full and not dry_run:
        raise InvalidRequest(Fault(where="--full", what="is how --dry-run prints", next="--dry-run --full"))
    system = System(warn=console.warn)
    prepared = submit.prepare(system, request_of(locals(), context.obj), runs_dir)
    case, notices = prepared.case, [*prepared.notices, *submit.remarks(prepared)]
    console.show_choices(prepared.spec, case.context.site_origin, notices)
    console.show_advice(case.advice.why)
    if test_only:
        console.show_estimate(prepared.spec, submit.estimate(prepared), json)
        return
    if dry_run:
        submit.refuse_faulty(prepared)
        console.warn_missing(submit.missing(prepared))
        _show_script(submit.standalone(system, prepared) if full else prepared, json)
        return
    run = submit.submit(system, prepared)
    if not wait:
        console.show_run(run, json)
        console.show_next(run)
        return
    console.say(f"submitted {run.label} as job {run.job_id} at {run.site}; run directory {run.path}")
    if run.tasks:
        (ended,) = watch_all([run], None, 0, json)
        raise typer.Exit(0 if ended.state == "COMPLETED" else 1)
    watch(run, json)


@app.command("render", epilog="Arguments for the program itself stand after --.")
def render(
    context: typer.Context,
    target: Target,
    site: Site = None,
    node_type: NodeType = None,
    nodes: Nodes = None,
    tasks_per_node: TasksPerNode = None,
    cpus_per_task: CpusPerTask = None,
    gpus_per_node: GpusPerNode = None,
    launcher: Launcher = None,
    strategy: Strategy = None,
    account: Account = None,
    partition: Partition = None,
    qos: Qos = None,
    walltime: Walltime = None,
    memory: Memory = None,
    restarts: Restarts = None,
    signal: Signal = None,
    set_: Set = [],  # noqa: B006
    sweep: Sweep = [],  # noqa: B006
    at_once: AtOnce = None,
    sbatch: Sbatch = [],  # noqa: B006
    data_dir: DataDir = None,
    synthetic: Synthetic = False,
    hosts: Hosts = None,
    accept_unverified: AcceptUnverified = False,
    runs_dir: RunsDir = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write it to FILE and make its run directory, for sbatch FILE.")
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="One file: the functions of hpclaunch.sh stand in the script.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the script that submit would submit."""
    from hpclaunch.actions import submit
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    system = System(warn=console.warn)
    prepared = submit.prepare(system, request_of(locals(), context.obj), runs_dir)
    case, notices = prepared.case, [*prepared.notices, *submit.remarks(prepared)]
    console.show_choices(prepared.spec, case.context.site_origin, notices)
    console.show_advice(case.advice.why)
    submit.refuse_faulty(prepared)
    console.warn_missing(submit.missing(prepared))
    prepared = submit.standalone(system, prepared) if standalone else prepared
    if output is None:
        _show_script(prepared, json)
        return
    submit.check_output(Path(output))
    run = submit.write_run(system, prepared)
    submit.write_script(Path(output), prepared.text)
    start_command = scheduler_row(run.scheduler).start_command
    stray = submit.strays(system, prepared)
    if stray:
        console.warn(f"{start_command} would let these override the script; unset them first: {', '.join(stray)}")
    console.say(f"rendered; submit it with: {start_command} {output}")
    console.show_run(run, json)


def watch(run: Any, json: bool) -> None:
    """Follow a run to its end. Ctrl-C detaches: the run goes on."""
    from hpclaunch.actions import wait as following
    from hpclaunch.cli.show import console

    last, shown = run, ""
    try:
        for last, text in following.follow(run):
            if last.state != shown and not last.final:
                shown = last.state
                console.say(f"{last.label}: {last.state}" + (f" ({last.reason})" if last.reason else ""))
            if text:
                console.say_bytes(text)
    except KeyboardInterrupt:
        console.say(f"\n{_detached([run])}")
        raise typer.Exit(130) from None
    console.show_end(last, json)
    raise typer.Exit(0 if last.state == "COMPLETED" else 1)


def watch_all(asked: Any, seconds: float | None, retries: int, json: bool) -> Any:
    """Follow runs to their end, telling every change, and return them. Ctrl-C detaches: those that go on are told."""
    from hpclaunch.actions import states
    from hpclaunch.actions import wait as following
    from hpclaunch.cli.show import console, run_tables

    found = asked
    shown: dict[Path, tuple[str, str]] = {}
    try:
        for found in following.wait(asked, seconds, retries, console.say):
            for one in found:
                if shown.get(one.path) != (now := (one.state, one.reason if one.tasks else "")):
                    shown[one.path] = now
                    words = states.explanation(one)
                    why = f"{one.reason}: {words}" if one.tasks and words else words or one.reason
                    console.say(f"{one.label}: {one.state}" + (f" ({why})" if why else ""))
    except KeyboardInterrupt:
        console.say(f"\n{_detached([run for run in found if not run.final])}")
        raise typer.Exit(130) from None
    run_tables.show_status(found, json)
    return found


def _detached(going: Sequence[Any]) -> str:
    """Return what is said to who no longer waits, of the runs that had not ended when they were last asked for."""
    from hpclaunch.schedulers import scheduler_of

    if not going:
        return "detached; all of them have ended: hpclaunch status"
    names = " ".join(run.label for run in going[:_NAMED]) + (" ..." if going[_NAMED:] else "")
    who, end = f"{len(going)} runs go on", f"To end them: hpclaunch cancel {names}"
    if len(going) == 1:
        who, end = "the run goes on", f"To end it: {scheduler_of(going[0].scheduler).cancel_command(going[0])}"
    return f"detached; {who}. To look again: hpclaunch wait {names}. {end}"


def _show_script(prepared: Any, json: bool) -> None:
    from hpclaunch.cli.show import console

    if json:
        console.write_json({"spec": prepared.spec.to_json(), "script": prepared.text})
    else:
        console.write(prepared.text)


def request_of(typed: dict[str, Any], arguments: tuple[str, ...]) -> Request:
    """Return what was typed. Raises InvalidRequest for what cannot be read."""
    same = ["target", "site", "node_type", "nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node", "launcher"]
    same += ["account", "partition", "qos", "data_dir", "synthetic", "accept_unverified"]
    # plan and profile do not take these
    same += [name for name in ("restarts", "signal", "at_once", "strategy") if name in typed]
    return Request(
        **{name: typed[name] for name in same},
        walltime=seconds_of("--walltime", typed["walltime"]),
        memory=_amount("--memory", typed["memory"], parse_memory, MEMORY_FORMS),
        hosts_file=typed["hosts"],
        settings=tuple(_pair("--set", text) for text in typed["set_"]),
        sweep=tuple(_pair("--sweep", text, "NAME=V1,V2,… or NAME=1..10") for text in typed.get("sweep", ())),
        sbatch=tuple(typed["sbatch"]),
        arguments=arguments,
    )


def seconds_of(flag: str, text: str | None) -> int | None:
    """Return the seconds that a flag says, as a walltime; None where it was not typed. Raises InvalidRequest."""
    return _amount(flag, text, parse_walltime, WALLTIME_FORMS)


def _amount(flag: str, text: str | None, parse: Callable[[str], int], forms: str) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise InvalidRequest(Fault(where=flag, what=str(error), allowed=forms)) from None


def _pair(flag: str, text: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise InvalidRequest(Fault(where=flag, what=f"{os.fsdecode(text)!r} is not {form}"))
    return key, value
