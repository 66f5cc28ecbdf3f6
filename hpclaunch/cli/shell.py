"""``shell``: an interactive allocation with the environment of a job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hpclaunch.actions.requesting import typed_values
from hpclaunch.cli import complete, flags
from hpclaunch.core.errors import Fault, InvalidRequest, Refused
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.actions.queueing.shell import InteractiveShell

app = typer.Typer()


@app.command("shell")
def shell(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB|SCRIPT",
            autocompletion=complete.jobs,
            help="The job or script whose environment the shell gets [default: that of a command of your own].",
        ),
    ] = None,
    site: flags.Site = None,
    node_type: flags.NodeType = None,
    nodes: flags.Nodes = None,
    tasks_per_node: flags.TasksPerNode = None,
    cpus_per_task: flags.CpusPerTask = None,
    gpus_per_node: flags.GpusPerNode = None,
    launcher: flags.Launcher = None,
    framework: flags.Framework = None,
    account: flags.Account = None,
    partition: flags.Partition = None,
    qos: flags.Qos = None,
    walltime: flags.Walltime = None,
    memory: flags.Memory = None,
    name: flags.Name = None,
    python: flags.Python = None,
    venv: flags.Venv = None,
    conda: flags.Conda = None,
    environment: flags.Environment = None,
    module: flags.Module = [],  # noqa: B006
    env: flags.Env = [],  # noqa: B006
    sbatch: flags.Sbatch = [],  # noqa: B006
    accept_unverified: flags.AcceptUnverified = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and the file that the shell reads; start nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --dry-run: write JSON to stdout.")] = False,
) -> None:
    """Open a shell in an allocation, with the environment of a job.

    It waits for the nodes, and opens bash on the first. When that ends, so does the allocation.
    """
    from hpclaunch.actions.preparing.preflight import check_resolved
    from hpclaunch.actions.queueing.shell import open_shell, prepare_shell
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, streams, submission

    if json and not dry_run:
        raise InvalidRequest(Fault(where="--json", what="works only with --dry-run", next="--dry-run --json"))
    request = Request(
        target=target or "",
        site=site,
        node_type=node_type,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        cpus_per_task=cpus_per_task,
        gpus_per_node=gpus_per_node,
        launcher=launcher,
        framework=framework,
        account=account,
        partition=partition,
        qos=qos,
        walltime=typed_values.seconds_of(walltime),
        memory=typed_values.megabytes_of(memory),
        **typed_values.software_of(python, venv, conda, environment, module, env),
        **typed_values.name_of(name, sbatch),
        accept_unverified=accept_unverified,
    )
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    opened = prepare_shell(system, request)
    prepared = opened.prepared
    submission.show_choices(prepared.spec, prepared.case.context.site_origin, prepared.notices)
    if dry_run:
        check_resolved(prepared)
        if json:
            console.write_json("shell", {"command": list(opened.command), "text": opened.text})
        else:
            console.write(_as_text(opened))
        return
    if not (streams.has_keyboard() and streams.is_terminal()):
        what = "a shell needs a terminal, and stdin or stdout is none here"
        raise Refused(Fault(what=what, next="type it at a prompt; hpclaunch submit runs a job without one"))
    open_shell(system, opened)


def _as_text(opened: InteractiveShell) -> str:
    """Return the file that the shell reads, with the command that opens it as its first line."""
    return f"# {shlex.join(opened.command)}\n{opened.text}"
