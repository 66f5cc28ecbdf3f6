"""``plan``: recommends a node count and training settings for a job; it submits nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpclaunch.actions.requesting import typed_times, typed_values
from hpclaunch.cli import flags, run_flags
from hpclaunch.cli.offers import one_of
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.spec import Request

app = typer.Typer()


@app.command(
    "plan",
    epilog="Values that you type are not changed; a warning names those that the planner would choose otherwise.",
)
def plan(
    target: flags.Target,
    site: flags.Site = None,
    node_type: flags.NodeType = None,
    nodes: flags.Nodes = None,
    tasks_per_node: flags.TasksPerNode = None,
    cpus_per_task: flags.CpusPerTask = None,
    gpus_per_node: flags.GpusPerNode = None,
    account: flags.Account = None,
    partition: flags.Partition = None,
    qos: flags.Qos = None,
    walltime: flags.Walltime = None,
    memory: flags.Memory = None,
    restarts: flags.Restarts = None,
    set_: flags.Set = [],  # noqa: B006
    recipe: flags.Recipe = None,
    hosts: flags.Hosts = None,
    environment: flags.Environment = None,
    accept_unverified: flags.AcceptUnverified = False,
    global_batch: flags.GlobalBatch = None,
    deadline: flags.Deadline = None,
    budget: Annotated[float | None, typer.Option(help="The highest cost, in the unit of the site.")] = None,
    weight: Annotated[
        float | None, typer.Option(help="The weight of time against cost, between 0 and 1 [default: 0.5].")
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of("time", "cost"), help="What matters more, instead of --weight: time or cost."
        ),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="A file with measurements of the job (hpclaunch docs planning).")
    ] = None,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="How much a measured program of yours is to train: samples, or what its rate counts; 5M, 1.2G.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every rule with its numbers and its source.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the plan into FILE.png or FILE.svg (needs matplotlib).")
    ] = None,
    plot_kind: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of("nodes", "frontier", "gradient", "steps", "noise", "all"),
            help="What --plot draws: nodes, frontier, gradient, steps, noise, or all. [default: nodes]",
        ),
    ] = None,
    json: run_flags.Json = False,
) -> None:
    """Recommend a node count and training settings for a job.

    The plan shows batch size, learning rate, time and cost for each node count. It submits nothing.
    """
    from hpclaunch.actions.measuring import plan
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console

    seconds = typed_times.seconds_of(deadline, "--deadline")
    objective = typed_values.objective_of(seconds, budget, weight, prefer)
    amount = typed_values.amount_of_work(work)
    if plot_kind is not None and plot is None:
        raise _invalid_request("--plot-kind", "needs a file to draw into", next="add --plot FILE.svg")
    if plot is not None:
        from hpclaunch.reports.charts.plan_chart import USUAL, check_plot

        check_plot(plot, plot_kind or USUAL)
    request = Request(
        target=target,
        site=site,
        node_type=node_type,
        nodes=nodes,
        tasks_per_node=tasks_per_node,
        cpus_per_task=cpus_per_task,
        gpus_per_node=gpus_per_node,
        account=account,
        partition=partition,
        qos=qos,
        walltime=typed_times.seconds_of(walltime),
        memory=typed_values.megabytes_of(memory),
        restarts=restarts,
        environment=environment,
        hosts_file=hosts,
        settings=typed_values.settings_of(set_),
        recipe=recipe,
        accept_unverified=accept_unverified,
    )
    system = System(warn=console.warn, tell=console.say, confirm=console.confirmed)
    forecast = plan.plan_job(
        system, request, objective, global_batch=global_batch, calibration=calibration, work=amount
    )
    if plot is not None:
        from hpclaunch.reports.charts.plan_chart import USUAL, draw

        draw(forecast, plot, plot_kind or USUAL)
        console.say(f"the plan is drawn in {plot}")
    if json:
        console.write_json("plan", forecast.to_json())
    else:
        console.show_plan(forecast, explain)
    for fault in forecast.refusals:
        console.say_error(str(fault))
    if forecast.refusals:
        raise typer.Exit(1)


def _invalid_request(where: str, what: str, allowed: str = "", next: str = "") -> InvalidRequest:
    return InvalidRequest(Fault(where=where, what=what, allowed=allowed, next=next))
