"""How ranks share the model of a run that continues on other nodes: as before if they can, else as the ladder says."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import Layout, Pairs
from hpclaunch.core.units import count
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import memory
from hpclaunch.guidelines.parallelism import Room
from hpclaunch.planner.fitting.fit import strategy_of
from hpclaunch.planner.fitting.room import room_of
from hpclaunch.planner.job.workload import Workload, stored_figures, workload_of
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.nodes.sizing import Sizing
from hpclaunch.resolve.strategies import STAGES, TENSOR


@record
class _HeldModel:
    """A run's model, whose figures are known, in the memory of a rank."""

    work: Workload
    room: Room
    figures: ModelFigures

    def is_whole(self, layout: Layout) -> bool:
        """Whether the ranks are whole replicas."""
        return layout.world_size % self.work.gpus_per_replica == 0

    def fits(self, layout: Layout) -> bool:
        """Whether these ranks hold the model: fewer of them may share less of the optimizer's state."""
        found = strategy_of(self.work, self.room, self.figures, layout.world_size)
        return found.largest >= (self.work.per_rank or 1)


def shared_again(case: Case, before: Layout, sizing: Sizing) -> Pairs:
    """Return the parameters with which the ranks of a resumed run share its model; none: those that it has.

    ``case``: its job has the run's parameters as defaults. What a person typed stays, and so does everything that
    changes the training's numbers. Ranks that are no whole replicas, and have no other way, are refused by
    ``resolve.program.division``. Raises Refused if the model fitted the ranks ``before``, and fits these in no way.
    """
    held, layout = _held_model(case, sizing), sizing.layout
    if held is None or (held.is_whole(layout) and held.fits(layout)):
        return ()
    found = _ladder_settings(case, held, sizing)
    if found is None and held.is_whole(layout) and held.fits(before):
        raise Refused(_size_fault(held, before, layout))
    return found or ()


def _held_model(case: Case, sizing: Sizing) -> _HeldModel | None:
    job, figures = case.job, stored_figures(case.job)
    room = room_of(case.node(sizing.node_type), sizing.layout)
    if job.training is None or figures is None or room is None:
        return None
    return _HeldModel(work=workload_of(job, job.training, case.request.settings), room=room, figures=figures)


def _ladder_settings(case: Case, held: _HeldModel, sizing: Sizing) -> Pairs | None:
    """Return how ranks can share the model if nothing else changes; None: in no way."""
    from hpclaunch.planner.choice.ladder import ladder_of  # only a run whose layout is impossible needs it
    from hpclaunch.planner.job.question import Question

    job, typed = case.job, dict(case.request.settings)
    names = (job.parameter_for(role) for role in (TENSOR, STAGES))
    free = {name: "1" for name in names if name in job.parameters and name not in typed}
    if not free:
        return None
    # Layers that are computed again give the same numbers, so the ladder may add that, too.
    open_names = {*free, *([] if held.work.recompute else [job.parameter_for("recompute")])} - {*typed}
    names_of_roles = [name for name in held.work.names.values() if name not in open_names]
    rows = {name: row for name in names_of_roles if (row := job.parameters.get(name))}
    kept = tuple((name, typed.get(name, spell(row.default))) for name, row in rows.items())
    request = replace(case.request, settings=kept, node_type=sizing.node_type)
    asked = replace(case, job=job.with_defaults(tuple(free.items())), request=request)
    ladder = ladder_of(Question(case=asked, figures=held.figures), held.figures)
    if ladder.rung is None:
        return None
    return tuple({**free, **dict(ladder.settings)}.items())


def _size_fault(held: _HeldModel, before: Layout, layout: Layout) -> Fault:
    from hpclaunch.planner.amounts import memory_of

    found = strategy_of(held.work, held.room, held.figures, layout.world_size)
    needed = memory(found.model, held.work.optimizer, held.work.per_rank or 1, held.room, found.arrangement)
    return Fault(
        where=f"--nodes {layout.nodes}",
        what=f"a rank on {count(layout.nodes, 'node')} would not hold the run's model: {memory_of(needed)}",
        next=f"--nodes {before.nodes}, as before",
    )
