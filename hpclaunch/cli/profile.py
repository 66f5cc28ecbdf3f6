"""``profile``: measures a job in a few short runs, so that later plans of it rest on measurements."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.cli import submit

Steps = Annotated[int, typer.Option(min=1, help="Steps of an epoch, at most; the data set may have fewer.")]


app = typer.Typer()


@app.command("profile", epilog="Later plans of the job at this site use what was measured: docs/planning.md")
def profile(
    target: submit.Target,
    site: submit.Site = None,
    node_type: submit.NodeType = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes of the last run, 2 or 4; 1: one node alone. [default: 2]")
    ] = None,
    tasks_per_node: submit.TasksPerNode = None,
    cpus_per_task: submit.CpusPerTask = None,
    gpus_per_node: submit.GpusPerNode = None,
    launcher: submit.Launcher = None,
    account: submit.Account = None,
    partition: submit.Partition = None,
    qos: submit.Qos = None,
    walltime: submit.Walltime = None,
    memory: submit.Memory = None,
    set_: submit.Set = [],  # noqa: B006
    sbatch: submit.Sbatch = [],  # noqa: B006
    data_dir: submit.DataDir = None,
    synthetic: submit.Synthetic = False,
    hosts: submit.Hosts = None,
    accept_unverified: submit.AcceptUnverified = False,
    runs_dir: submit.RunsDir = None,
    steps: Steps = 100,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Submit each run when the one before has ended, not all at once.")
    ] = False,
    from_: Annotated[
        list[str], typer.Option("--from", metavar="RUN", help="Submit nothing; read these ended runs. Repeatable.")
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would submit, and its cost at most.")] = False,
    json: submit.Json = False,
) -> None:
    """Measure a job in short runs on one node and on two, for later plans."""
    from hpclaunch import runs
    from hpclaunch.actions import profile, states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, profile_tables

    system = System(warn=console.warn, tell=console.say)
    request = submit.request_of(locals(), ())
    if from_:
        found = states.refreshed(runs.find_all(system.index, from_, system.run_folders))
    else:
        design = profile.design(system, request, steps, runs_dir)
        profile_tables.show_design(design, json and dry_run)
        if dry_run:
            return
        found = profile.measure(system, design, one_by_one)
    profile_tables.show_result(profile.keep(system, request, found), target, json)
