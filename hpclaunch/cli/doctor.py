"""``doctor``: runs a probe job that shows whether a site provides what its scripts promise."""

from __future__ import annotations

from typing import Annotated

import typer

from hpclaunch.actions.requesting import typed_times
from hpclaunch.cli import flags, help_text, run_flags
from hpclaunch.cli.offers import offer, one_of
from hpclaunch.config.catalog import THIS_MACHINE
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.spec import Request

app = typer.Typer()


@app.command("doctor")
def doctor(
    site: flags.Site = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Check this machine only, like --site local.", rich_help_panel=help_text.SITE),
    ] = False,
    node_type: flags.NodeType = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes of the probe job [default: 2].", rich_help_panel=help_text.SITE)
    ] = None,
    tasks_per_node: flags.TasksPerNode = None,
    gpus_per_node: flags.GpusPerNode = None,
    launcher: flags.Launcher = None,
    framework: Annotated[
        str | None,
        typer.Option(
            "--framework",
            metavar="NAME",
            autocompletion=one_of("tensorflow", "pytorch", "jax"),
            help="The libraries to check: tensorflow (with Horovod), pytorch, jax [default: the environment's].",
            rich_help_panel=help_text.RANKS,
        ),
    ] = None,
    environment: flags.Environment = None,
    account: flags.Account = None,
    partition: flags.Partition = None,
    qos: flags.Qos = None,
    walltime: flags.Walltime = None,
    sbatch: flags.Sbatch = [],  # noqa: B006
    accept_unverified: flags.AcceptUnverified = False,
    runs_dir: flags.RunsDir = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN",
            autocompletion=offer("runs"),
            help="Submit nothing; read the results of an ended probe job.",
            rich_help_panel=help_text.TRAINING,
        ),
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Check a site with a short probe job.

    The job shows whether ranks, GPUs, CPUs, MPI and folders are as the site file promises, shows the topology of the
    nodes, and measures all-reduces for later plans. The exit code is 0 if no check failed.
    """
    from hpclaunch import runs
    from hpclaunch.actions.clusters import doctor as doctor_actions
    from hpclaunch.actions.following import states
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, doctor_report

    if local and site not in (None, THIS_MACHINE):
        raise InvalidRequest(
            Fault(where="--local and --site", what="cannot be used together", next="leave one of them out")
        )
    if framework not in (None, *doctor_actions.FRAMEWORKS):
        allowed = ", ".join(doctor_actions.FRAMEWORKS)
        what, hint = f"doctor has no probe for {framework!r}", "leave it out, or name one of these"
        raise InvalidRequest(Fault(where="--framework", what=what, allowed=allowed, next=hint))
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    if environment is not None and framework is None:
        from hpclaunch.actions.environments import kept

        framework = kept.find(system, environment).value("framework") or None
    request = Request(
        target=doctor_actions.PROBE,
        site=THIS_MACHINE if local else site,
        node_type=node_type,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        gpus_per_node=gpus_per_node,
        launcher=launcher,
        framework=framework,
        environment=environment,
        account=account,
        partition=partition,
        qos=qos,
        walltime=typed_times.seconds_of(walltime),
        sbatch=tuple(sbatch),
        accept_unverified=accept_unverified,
    )
    if from_ is not None:
        if runs_dir or request != Request(target=doctor_actions.PROBE):
            what = "submits nothing, so no other option applies"
            raise InvalidRequest(Fault(where="--from", what=what, next="leave out --from or the other options"))
        (run,) = states.refreshed([runs.find(system.index, from_, system.run_folders)])
        report = doctor_actions.report_of(system, run)
    else:
        report = doctor_actions.examine(system, request, runs_dir)
    if environment is not None:
        from hpclaunch.actions.clusters import environment_job
        from hpclaunch.actions.environments import kept

        environment_job.keep_report(system, kept.find(system, environment), report)
    doctor_report.show_report(report, json)
    raise typer.Exit(0 if report.passed else 1)
