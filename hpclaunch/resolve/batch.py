"""A global batch size that a job divides among its replicas: whether it can be divided."""

from __future__ import annotations

from hpclaunch.config.job import Job, Role
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec, Request
from hpclaunch.resolve.strategies import takes_several_gpus


def undivided(job: Job, request: Request, spec: JobSpec) -> list[Fault]:
    """Return a fault if a global batch size, in a sweep too, leaves a rest: the program would refuse it later."""
    if job.training is None:
        return []
    layout = spec.layout
    several = takes_several_gpus(request) and not layout.stand_in_gpus
    replicas = layout.world_size * (max(1, layout.gpus_per_node // layout.tasks_per_node) if several else 1)
    for batch in _values(job, request, spec, "global_batch_size"):
        for times in _values(job, request, spec, "accumulation") or [1]:
            if batch % (replicas * times):
                return [_fault(job, request, batch, replicas, times)]
    return []


def _fault(job: Job, request: Request, batch: int, replicas: int, times: int) -> Fault:
    parts = replicas * times
    among = f"{replicas} {'replicas' if takes_several_gpus(request) else 'ranks'}"
    several = f" in {times} parts each" if times > 1 else ""
    below, above = batch // parts * parts, -(-batch // parts) * parts
    name = job.parameter_for("global_batch_size")
    return Fault(
        where=f"--{'sweep' if name in dict(request.sweep) else 'set'} {name}",
        what=f"{batch} does not divide among {among}{several}",
        allowed=f"a multiple of {parts}",
        next=f"{f'{below} or ' if below else ''}{above}, or another number of nodes, tasks or GPUs",
    )


def _values(job: Job, request: Request, spec: JobSpec, role: Role) -> list[int]:
    """What a parameter is in the run, or in those of a sweep; whole numbers above 0, as others mean: not divided."""
    name = job.parameter_for(role)
    if name not in job.parameters:
        return []
    parameter = job.parameters[name]
    swept = dict(spec.sweep.axes).get(name) if spec.sweep else None
    typed = dict(request.settings).get(name)
    texts = swept or (() if typed is None else (typed,))
    try:
        values = [parameter.parse(text) for text in texts] or [parameter.default]
    except ValueError:  # told by plan.command
        return []
    return [value for value in values if type(value) is int and value > 0]
