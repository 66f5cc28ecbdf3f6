"""Checks that a job's global batch size divides evenly among its replicas."""

from __future__ import annotations

from hpclaunch.config.job import Role
from hpclaunch.core.spec import Layout, Sweep
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.strategies import ranks_per_replica, replicas_of, takes_several_gpus


def check_batch(case: Case, layout: Layout, sweep: Sweep | None, decisions: Decisions) -> None:
    """Note a fault if a global batch size, swept ones included, does not divide: the program would refuse it later."""
    if case.job.training is None:
        return
    replicas = replicas_of(case, layout)
    if not replicas:
        return  # resolve.program.split refuses it
    for batch in _values(case, sweep, "global_batch_size"):
        for times in _values(case, sweep, "accumulation") or [1]:
            if batch % (replicas * times):
                _refuse(case, batch, replicas, times, decisions)
                return


def _refuse(case: Case, batch: int, replicas: int, times: int, decisions: Decisions) -> None:
    parts = replicas * times
    divided = takes_several_gpus(case.request) or ranks_per_replica(case.job, case.request.settings) > 1
    among = f"{replicas} {'replicas' if divided else 'ranks'}"
    several = f" with {times} accumulation steps" if times > 1 else ""
    below, above = batch // parts * parts, -(-batch // parts) * parts
    name = case.job.parameter_for("global_batch_size")
    decisions.fault(
        f"{batch} does not divide among {among}{several}",
        where=f"--{'sweep' if name in dict(case.request.sweep) else 'set'} {name}",
        allowed=f"a multiple of {parts}",
        next=f"choose {f'{below} or ' if below else ''}{above}, or another number of nodes, tasks or GPUs",
    )


def _values(case: Case, sweep: Sweep | None, role: Role) -> list[int]:
    """Return the parameter's values in the run, or in the runs of a sweep.

    Only positive whole numbers count: any other value means that the job does not divide the batch.
    """
    name = case.job.parameter_for(role)
    if name not in case.job.parameters:
        return []
    parameter = case.job.parameters[name]
    swept = dict(sweep.axes).get(name) if sweep else None
    typed = dict(case.request.settings).get(name)
    texts = swept or (() if typed is None else (typed,))
    try:
        values = [parameter.parse(text) for text in texts] or [parameter.default]
    except ValueError:  # resolve.program.command notes the fault
        return []
    return [value for value in values if type(value) is int and value > 0]
