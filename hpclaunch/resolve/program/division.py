"""Refuses settings by which the ranks of a run cannot share its model, its updates or its global batch evenly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from hpclaunch.config.job import Job, Role
from hpclaunch.core.spec import Layout, Sweep
from hpclaunch.core.units import count
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.strategies import (
    STAGES,
    TENSOR,
    is_tensorflows,
    ranks_by_role,
    ranks_per_replica,
    replicas_of,
    takes_several_gpus,
)

_GROUPS: Role = "update_groups"


def check_split(case: Case, layout: Layout, launcher: str, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note the first fault, if the ranks of a run, swept ones included, cannot share the model."""
    divided = [split for split in _splits(case, sweep) if split != (1, 1)]
    if divided and not any(_check_layout(case, layout, split, decisions) for split in divided):
        _check_order(case, layout, launcher, decisions)


def _splits(case: Case, sweep: Sweep | None) -> Iterator[tuple[int, int]]:
    """Yield tensor_parallel and pipeline_stages of every run."""
    typed, names = dict(case.request.settings), {case.job.parameter_for(role) for role in (TENSOR, STAGES)}
    axes = [(name, values) for name, values in (sweep.axes if sweep else ()) if name in names]
    for values in product(*(values for _, values in axes)):
        swept = {name: value for (name, _), value in zip(axes, values, strict=True)}
        tensor, stages = ranks_by_role(case.job, {**typed, **swept})
        yield tensor, stages


def _check_layout(case: Case, layout: Layout, split: tuple[int, int], decisions: Decisions) -> bool:
    """Note why the ranks cannot hold replicas of T x P ranks (``split``), and tell whether there was a reason."""
    tensor, stages = split
    words = _words(case.job, split)
    if is_tensorflows(case.request):
        what = f"the strategy {case.request.strategy} cannot divide a model ({words})"
        decisions.fault(what, where="--strategy", next="leave --strategy out: Horovod divides it")
        return True
    ranks, node = tensor * stages, layout.tasks_per_node
    if layout.world_size % ranks:
        whole = -(-layout.world_size // ranks) * ranks
        near = f"--nodes {whole // node}, or " if whole % node == 0 else ""
        decisions.fault(
            f"{count(layout.world_size, 'rank')} cannot be whole replicas of {ranks} ranks ({words})",
            allowed=f"a multiple of {ranks} ranks",
            next=f"{near}another {case.job.parameter_for(TENSOR if stages == 1 else STAGES)}",
        )
        return True
    sizes = [node, *(further.tasks_per_node for further in layout.further)]
    node = next((size for size in sizes if max(size, tensor) % min(size, tensor)), 0)
    if not node:
        return False
    divisors = ", ".join(str(one) for one in range(1, node + 1) if node % one == 0)
    decisions.fault(
        f"{tensor} ranks would share layers across the borders of nodes, which have {node} ranks each",
        where=f"--set {case.job.parameter_for(TENSOR)}",
        allowed=f"{divisors}, or a multiple of {node}",
        next=f"choose one of these, or --tasks-per-node {tensor}",
    )
    return True


def _words(job: Job, split: tuple[int, int]) -> str:
    named = zip((TENSOR, STAGES), split, strict=True)
    return " ".join(f"{job.parameter_for(role)}={number}" for role, number in named if number > 1)


def _check_order(case: Case, layout: Layout, launcher: str, decisions: Decisions) -> None:
    """Note a fault if an option lets the launcher number ranks from node to node: those of a replica are neighbours."""
    row, known = LAUNCHERS[launcher], case.site.launchers
    if not row.cyclic or layout.nodes == 1:
        return
    options = known.options.get(row.started_by.get(case.site.scheduler, launcher)) if known else None
    typed = (*case.site.sbatch, *case.settings.all("sbatch", case.site.name), *case.job.sbatch, *case.request.sbatch)
    found = re.search(row.cyclic, " ".join((*typed, *(options.extra if options else ()))))
    if found is None:
        return
    decisions.fault(
        f"{found[0]} numbers the ranks from node to node, but those that share a model must be neighbours",
        where=f"options of {launcher}",
        next="leave this option out, or do not divide the model",
    )


def check_update_groups(case: Case, layout: Layout, decisions: Decisions, sweep: Sweep | None = None) -> None:
    """Note the first fault, if the ranks of a run, swept ones included, cannot be so many equal groups."""
    name, ranks = case.job.parameter_for(_GROUPS), layout.world_size
    for groups in _values_of(case, sweep, _GROUPS):
        if ranks % groups:
            near = ", ".join(str(one) for one in range(1, ranks + 1) if ranks % one == 0)
            decisions.fault(
                f"{count(ranks, 'rank')} cannot be {groups} equal groups",
                where=f"--set {name}",
                allowed=near,
                next=f"choose one of these, or a multiple of {groups} ranks",
            )
            return


def check_batch(case: Case, layout: Layout, sweep: Sweep | None, decisions: Decisions) -> None:
    """Note a fault if a global batch size, swept ones included, does not divide: the program would refuse it later."""
    if case.job.training is None:
        return
    replicas = replicas_of(case, layout)
    if not replicas:
        return  # check_split refuses it
    for batch in _values_of(case, sweep, "global_batch_size"):
        for times in _values_of(case, sweep, "accumulation") or [1]:
            if batch % (replicas * times):
                _refuse_batch(case, batch, replicas, times, decisions)
                return


def _refuse_batch(case: Case, batch: int, replicas: int, times: int, decisions: Decisions) -> None:
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


def _values_of(case: Case, sweep: Sweep | None, role: Role) -> list[int]:
    """Return the parameter's values in the run, or in the runs of a sweep.

    Only positive whole numbers count: any other value means that the job does not divide so.
    """
    name = case.job.parameter_for(role)
    if name not in case.job.parameters:
        return []
    parameter = case.job.parameters[name]
    swept = dict(sweep.axes).get(name) if sweep else None
    typed = dict(case.request.settings).get(name)
    texts = swept or (() if typed is None else (typed,))
    values = [] if texts else [parameter.default]
    for text in texts:
        try:
            values.append(parameter.parse(text))
        except ValueError:
            continue  # resolve.program.command refuses it
    return [value for value in values if type(value) is int and value > 0]
