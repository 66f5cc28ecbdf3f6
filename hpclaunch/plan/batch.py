"""A global batch size that a job divides among its replicas: whether its program would take it."""

from __future__ import annotations

from hpclaunch.job import Job, Role, Value
from hpclaunch.plan.ledger import Ledger
from hpclaunch.plan.strategies import takes_several_gpus
from hpclaunch.spec import Layout, Request


def check_divided_batch(job: Job, request: Request, layout: Layout, ledger: Ledger) -> None:
    """Note what is wrong with a global batch size: it leaves a rest, or the rate is scaled with what does not grow."""
    batch = _value(job, request, "global_batch_size")
    if type(batch) is not int or batch < 1:
        return
    where = f"--set {_name(job, 'global_batch_size')}"
    accumulated = _value(job, request, "accumulation")
    times = accumulated if type(accumulated) is int else 1
    gpus = layout.nodes * layout.gpus_per_node if takes_several_gpus(request) else 0
    parts = (gpus or layout.world_size) * times
    if batch % parts:
        below, above = batch // parts * parts, -(-batch // parts) * parts
        ledger.fault(
            f"{batch} does not divide among {parts} {'ranks' if times == 1 else '(ranks x accumulation)'}",
            where=where,
            allowed=f"a multiple of {parts}",
            next=f"{f'{below} or ' if below else ''}{above}, or another number of nodes or tasks",
        )
    if _value(job, request, "scale_learning_rate") not in (None, "none"):
        ledger.fault(
            f"the batch of all ranks stays {batch}, so there is nothing to scale the learning rate with",
            where=where,
            next=f"--set {_name(job, 'scale_learning_rate')}=none",
        )


def _name(job: Job, role: Role) -> str:
    return job.training.names.get(role, role) if job.training else role


def _value(job: Job, request: Request, role: Role) -> Value | None:
    """The value of the parameter for a role; None if it is not there, is swept, or cannot be read, told elsewhere."""
    name = _name(job, role)
    if job.training is None or name not in job.parameters or name in dict(request.sweep):
        return None
    typed, parameter = dict(request.settings), job.parameters[name]
    try:
        return parameter.parse(typed[name]) if name in typed else parameter.default
    except ValueError:
        return None
