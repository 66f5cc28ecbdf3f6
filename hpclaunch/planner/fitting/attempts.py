"""The ways of a rung to hold a job's model: on which node type, with which parameters, on how many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hpclaunch.config.job import Job, Role
from hpclaunch.config.parameters import misfits
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs
from hpclaunch.guidelines.batch import MOST_NODES
from hpclaunch.guidelines.figures import ModelFigures
from hpclaunch.guidelines.memory import SLOTS
from hpclaunch.guidelines.parallelism import tensor_sizes
from hpclaunch.guidelines.precision import recommended
from hpclaunch.guidelines.rungs import RungName
from hpclaunch.planner.fitting.fit import Strategy, enough_samples, strategy_of
from hpclaunch.planner.fitting.machine import NodeModel, node_for
from hpclaunch.planner.job.question import Evidence, Question, Trial, trial_of
from hpclaunch.planner.job.workload import Workload, workload_of
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.placement import named_places
from hpclaunch.resolve.nodes.size import node_type_of

Values = dict[Role, str]
"""The values of parameters by role, as a command line spells them."""


@record
class NodePlace:
    """A node type of the site, as the job would use it; ``first``: the one that was typed, or the site's usual."""

    name: str
    question: Question
    figures: ModelFigures
    trial: Trial
    node: NodeModel
    first: bool

    @property
    def ranks(self) -> int:
        """The ranks of each node."""
        return self.trial.ranks_per_node


@record
class Attempt:
    """A way to hold the model: a place with the parameters that are set, on so many nodes.

    ``needed``: the samples of a micro-batch that must fit.
    """

    place: NodePlace
    settings: Pairs
    work: Workload
    strategy: Strategy
    nodes: int
    needed: int

    @property
    def fits(self) -> bool:
        """Whether the micro-batches that are needed fit the memory."""
        return self.strategy.largest >= self.needed


def places_of(question: Question, figures: ModelFigures) -> list[NodePlace]:
    """Return the node type that is typed or usual, and then the others of the same kind, those of small GPUs first."""
    case, decisions = question.case, Decisions()
    usual = node_type_of(case, named_places(case, decisions), decisions)
    is_free = decisions.origin_of("node type") == f"site {case.site.name}" and not case.request.further_nodes
    first = _place(question, usual, first=True)
    if first is None:
        return []
    others = [_place(question, name, first=False) for name in case.site.node_types if name != usual] if is_free else []
    alike = [one for one in others if one and one.node.room and one.node.on_gpus == first.node.on_gpus]
    return [first, *sorted(alike, key=lambda one: one.node.room.gpu_bytes if one.node.room else 0.0)]


def _place(question: Question, name: str, *, first: bool) -> NodePlace | None:
    """Return a node type, or None if the site does not accept the request on it. Measurements are for the first."""
    if not first:
        request = replace(question.case.request, node_type=name)
        question = replace(question, case=replace(question.case, request=request), evidence=Evidence())
    trial = trial_of(question, question.typed_nodes or 1)
    if trial.faults and not first:
        return None
    node = node_for(question, name, trial.sizing.layout)
    assert question.figures is not None
    return NodePlace(name=name, question=question, figures=question.figures, trial=trial, node=node, first=first)


def attempts_of(name: RungName, places: list[NodePlace]) -> Iterator[Attempt]:
    """Yield the ways of a rung, in the order in which they are tried."""
    if name == "beyond":
        return
    here = places[:1] if name == "data parallel" else places
    if name == "larger node type":
        assert places[0].node.room is not None
        least = places[0].node.room.gpu_bytes
        here = [one for one in places[1:] if one.node.room and one.node.room.gpu_bytes > least]
    for place in here:
        for values in _values_of(name, place):
            for nodes in _node_counts(name, place, values):
                yield _attempt(name, place, values, nodes)


def _values_of(name: RungName, place: NodePlace) -> Iterator[Values]:
    """Yield the values of a rung's parameters that the job takes, the fewest ranks first.

    Each comes without recomputation or 16-bit arithmetic first, and then with one of them, where the job has it.
    """
    job = place.question.case.job
    for values, further in _combinations(name, place):
        for extra in ({}, further) if further else ({},):
            both = {**values, **extra}
            if _takes(job, both, place.question.case.request.settings):
                yield both


def _combinations(name: RungName, place: NodePlace) -> Iterator[tuple[Values, Values]]:
    """Yield the values of a rung's own parameters, and those of an earlier rung that may be added."""
    work = work_with(place, {})
    half = _half_precision(place) if "precision" in work.names and work.precision == "float32" else {}
    recompute: Values = {"recompute": "true"} if "recompute" in work.names and not work.recompute else {}
    if name in ("data parallel", "larger node type"):
        yield {}, {}
    elif name == "16-bit arithmetic" and work.precision == "float32":
        yield _half_precision(place), {}
    elif name == "smaller micro-batch" and "batch_size_per_rank" not in work.typed:
        yield {}, half
    elif name == "recomputation":
        yield {"recompute": "true"}, half
    elif name == "state sharding" and SLOTS[work.optimizer]:
        yield {"shard_optimizer": "true"}, recompute
    elif name == "tensor parallel":
        for shared in tensor_sizes(place.ranks):
            yield {"tensor_parallel": str(shared)}, recompute
    elif name in ("model parallel", "model-data parallel"):
        for values in _values_across_nodes(name, place):
            yield values, recompute


def _takes(job: Job, values: Values, typed: Pairs) -> bool:
    """Whether the job's parameters take these values; one that the job lacks is reported with the rung."""
    rows = job.parameters
    texts = {**dict(typed), **{job.parameter_for(role): text for role, text in values.items()}}
    read: dict[str, object] = {name: row.default for name, row in rows.items()}
    for name, text in texts.items():
        try:
            read[name] = rows[name].parse(text) if name in rows else text
        except ValueError:
            return False
    return not any(misfits(rows, read))


def _values_across_nodes(name: RungName, place: NodePlace) -> Iterator[Values]:
    """Yield replicas of two and more nodes: tensor parallel in a node, and the stages of a pipeline across nodes.

    Where a job has no stages, layers are shared across nodes. Model parallel is one replica: on typed nodes it fills
    them, unless the job's parameters take no such number. Source: Narayanan et al. 2021, section 3.
    """
    names, typed = work_with(place, {}).names, place.question.typed_nodes or 1
    whole = [nodes for nodes in range(2, typed + 1) if typed % nodes == 0]
    # More nodes than typed only show how many it takes.
    spans = [*(whole[::-1] if name == "model parallel" else whole), *range(typed + 1, MOST_NODES + 1)]
    has_tensor = "tensor_parallel" in names or "pipeline_stages" not in names
    shared = [place.ranks, *tensor_sizes(place.ranks)[-2::-1], 1] if has_tensor else [1]
    for nodes in spans:
        if "pipeline_stages" not in names and "tensor_parallel" in names:
            yield {"tensor_parallel": str(nodes * place.ranks)}
            continue
        for tensor in dict.fromkeys(shared):
            parts: Values = {"tensor_parallel": str(tensor)} if tensor > 1 else {}
            yield {**parts, "pipeline_stages": str(nodes * place.ranks // tensor)}


def _half_precision(place: NodePlace) -> Values:
    """Return the 16-bit format that suits the hardware."""
    name, _ = recommended(place.node.device, on_gpu=place.node.on_gpus)
    if work_with(place, {}).needs_whole_models:  # it cannot be combined with float16's loss scale
        name = "bfloat16"
    return {"precision": name if name != "float32" else "bfloat16"}


def _node_counts(name: RungName, place: NodePlace, values: Values) -> Iterator[int]:
    """Yield the node counts to try: more nodes hold more only if they share the optimizer's state."""
    typed = place.question.typed_nodes
    work = work_with(place, values)
    least = math.ceil(work.gpus_per_replica / place.ranks)
    if typed is not None:
        yield max(typed, least)
    elif work.shard_optimizer:
        powers = [1 << bit for bit in range(MOST_NODES.bit_length())]
        yield from (nodes for nodes in powers if nodes >= least)
    else:
        yield least


def work_with(place: NodePlace, values: Values) -> Workload:
    """Return the workload of the job with these values of roles, whether or not its parameters take them."""
    case = place.question.case
    assert case.job.training is not None
    work = workload_of(case.job, case.job.training, case.request.settings)
    free = {role: text for role, text in values.items() if role not in work.typed}
    return replace(
        work,
        precision="mixed" if "precision" in free else work.precision,
        number_format=free.get("precision", work.number_format),
        recompute=work.recompute or "recompute" in free,
        shard_optimizer=work.shard_optimizer or "shard_optimizer" in free,
        tensor_parallel=int(free.get("tensor_parallel", work.tensor_parallel)),
        pipeline_stages=int(free.get("pipeline_stages", work.pipeline_stages)),
    )


def _attempt(name: RungName, place: NodePlace, values: Values, nodes: int) -> Attempt:
    work = work_with(place, values)
    strategy = strategy_of(work, place.node.room, place.figures, nodes * place.ranks)
    as_it_is = name in ("data parallel", "larger node type", "16-bit arithmetic")
    return Attempt(
        place=place,
        settings=tuple((work.names.get(role, role), text) for role, text in values.items() if role not in work.typed),
        work=work,
        strategy=strategy,
        nodes=nodes,
        needed=enough_samples(work) if as_it_is or "batch_size_per_rank" in work.typed else 1,
    )
