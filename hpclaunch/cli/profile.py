"""``profile``: measures a job in a few short runs, for later plans."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import flags
from hpclaunch.core.spec import Request

OneByOne = Annotated[
    bool, typer.Option("--one-by-one", help="Submit each run after the one before has ended, not all at once.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the runs that would be submitted and their highest cost.")
]
Steps = Annotated[int, typer.Option(min=1, help="The most steps in an epoch; a small data set has fewer.")]


app = typer.Typer()


@app.command("profile", epilog="Later plans of the job at this site use the measurements (hpclaunch docs planning).")
def profile(
    target: flags.Target,
    site: flags.Site = None,
    node_type: flags.NodeType = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes of the last run, such as 2 or 4; 1: measure one node only. [default: 2]"),
    ] = None,
    tasks_per_node: flags.TasksPerNode = None,
    cpus_per_task: flags.CpusPerTask = None,
    gpus_per_node: flags.GpusPerNode = None,
    gpu_view: flags.GpuView = None,
    launcher: flags.Launcher = None,
    framework: flags.Framework = None,
    account: flags.Account = None,
    partition: flags.Partition = None,
    qos: flags.Qos = None,
    walltime: flags.Walltime = None,
    memory: flags.Memory = None,
    python: flags.Python = None,
    venv: flags.Venv = None,
    conda: flags.Conda = None,
    environment: flags.Environment = None,
    module: flags.Module = [],  # noqa: B006
    env: flags.Env = [],  # noqa: B006
    set_: flags.Set = [],  # noqa: B006
    sbatch: flags.Sbatch = [],  # noqa: B006
    data_dir: flags.DataDir = None,
    synthetic: flags.Synthetic = False,
    hosts: flags.Hosts = None,
    accept_unverified: flags.AcceptUnverified = False,
    runs_dir: flags.RunsDir = None,
    steps: Steps = 100,
    one_by_one: OneByOne = False,
    from_: Annotated[
        list[str], typer.Option("--from", metavar="RUN", help="Submit nothing; use this ended run. Repeatable.")
    ] = [],  # noqa: B006
    dry_run: DryRun = False,
    json: flags.Json = False,
) -> None:
    """Measure a job in short runs, so that plans use measurements.

    There are two runs on one node and one on two nodes.
    """
    from hpclaunch import runs
    from hpclaunch.actions.following import states
    from hpclaunch.actions.measuring import profile, short_runs
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, profile_tables

    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    request = Request(
        target=target,
        site=site,
        node_type=node_type,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        cpus_per_task=cpus_per_task,
        gpus_per_node=gpus_per_node,
        gpu_view=gpu_view,
        launcher=launcher,
        framework=framework,
        account=account,
        partition=partition,
        qos=qos,
        walltime=typed_values.seconds_of(walltime),
        memory=typed_values.megabytes_of(memory),
        data_dir=data_dir,
        synthetic=synthetic,
        hosts_file=hosts,
        **typed_values.software_of(python, venv, conda, environment, module, env),
        settings=typed_values.settings_of(set_),
        sbatch=tuple(sbatch),
        accept_unverified=accept_unverified,
    )
    if from_:
        case = short_runs.keyed_case(system, request)
        found = states.refreshed(runs.find_all(system.index, from_, system.run_folders))
    else:
        design = profile.design(system, request, steps, runs_dir)
        profile_tables.show_design(design, json and dry_run)
        if dry_run:
            return
        case, found = design.case, profile.measure(system, design, one_by_one)
    profile_tables.show_result(profile.keep(case, found), target, json)
