"""The plan of a decoder for a program of a person's own: FSDP or Megatron-LM, bfloat16, flash attention."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hpclaunch.config.site import NodeType
from hpclaunch.core.errors import Fault
from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime
from hpclaunch.guidelines.batch import MOST_NODES, Batch
from hpclaunch.guidelines.candidates import Candidate, TrainingLength, candidate
from hpclaunch.guidelines.choice import NodeChoice, choose, is_late
from hpclaunch.guidelines.communication import PCIE_GBYTES_PER_S
from hpclaunch.guidelines.decoders import Decoder, utilization
from hpclaunch.guidelines.devices import GUESSED, Gpu, gpu_named
from hpclaunch.guidelines.intervals import scaled, spread
from hpclaunch.guidelines.layouts import SOURCE, Engine, Planned, fastest_layout, fastest_layouts, rung_of
from hpclaunch.guidelines.optimizers import rules_of
from hpclaunch.guidelines.precision import recommended
from hpclaunch.guidelines.published_decoders import NEWER_RULES, doubt_of, tokens_words, usual_of
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.guidelines.throughput import StepTime, Throughput
from hpclaunch.launchers import TORCHRUN
from hpclaunch.planner.amounts import Mfu, shorten, time_of, walltime_for
from hpclaunch.planner.choice.decision import add_marginals
from hpclaunch.planner.choice.proposal import what_it_takes
from hpclaunch.planner.fitting.machine import NodeModel, node_of
from hpclaunch.planner.job.epochs import facts_of, run_epochs
from hpclaunch.planner.job.question import MOST_TRIED, Question, Trial, trial_of
from hpclaunch.planner.job.workload import Workload
from hpclaunch.planner.speed.prior import overhead_of
from hpclaunch.planner.values import Forecast, LayoutRung, OwnProgram, PlanRow, PlanSection, RungVerdict

FASTER = 1.5
"""A program of one's own is planned if it is faster by this factor, or if the job cannot train the model."""
AS_ITSELF = frozenset({"data parallel", "larger node type", "16-bit arithmetic", "smaller micro-batch"})
"""Rungs on which the job trains as it usually does."""
STATE_BYTES = 16
"""Bytes of a parameter with its gradient and AdamW's state, as in Rajbhandari et al. 2020 (ZeRO)."""
COMMON_GPU_BYTES = 80 * 2**30
"""Bytes: the memory of an A100 or H100. A model above it fits few GPUs whole (hpclaunch's own)."""
MOST_JOBS = 365
"""The jobs of a chain from which on it is no recommendation: one a day for a year (hpclaunch's own)."""
WORTH_S = 3600
"""Seconds that it must save there: for a training of minutes nobody writes another program."""


@record
class _Way:
    """The fastest layout on the nodes of a trial."""

    trial: Trial
    planned: Planned
    candidate: Candidate
    throughput: Throughput


def with_own_program(plan: Forecast, question: Question, work: Workload, trials: Sequence[Trial]) -> Forecast:
    """Return the plan of a decoder for a program of one's own, if the job cannot train it or is much slower.

    ``plan``: that of the job itself. A job that is no decoder, or on GPUs that are not known, keeps its plan.
    """
    figures, first = question.figures, next((trial for trial in trials if not trial.faults), None)
    if figures is None or figures.decoder is None or first is None:
        return plan
    kind = question.case.site.node_types[first.sizing.node_type]
    node = node_of(kind, first.sizing.layout, question.evidence.links, calls_nccl=True)
    gpu = gpu_named(kind.gpu_model, kind.gpu_memory_gb) or _measured_gpu(question, kind)
    if not node.on_gpus or question.evidence.points:
        return plan
    if node.room is None:
        return _refuse_unknown_memory(plan, figures.decoder, first.sizing.node_type)
    too_large = (question.global_batch or 0) > work.samples  # the job's own plan refuses it
    if gpu is None or too_large or _keeps_its_own(work):
        return plan
    if not gpu.is_measured and recommended(kind.gpu_model or "", on_gpu=True)[0] != "bfloat16":
        return plan
    engine = _engine(kind, node, gpu)
    search = _Search(question=question, work=work, decoder=figures.decoder, engine=engine, gpu=gpu)
    return _plan_search(plan, search, trials)


def _plan_search(plan: Forecast, search: _Search, trials: Sequence[Trial]) -> Forecast:
    """Return the plan for a program of one's own on the best of the trials; ``plan`` if that is not much faster."""
    question = search.question
    ways = [way for way in map(search.way_on, trials) if way is not None]
    choice = choose([way.candidate for way in ways], question.objective) if ways else None
    if choice is None or (choice.best is None and question.typed_nodes is None):
        # The guidelines recommend up to 64 nodes. More of them are tried only where no fewer will do.
        further = _first_enough(search, _trials_beyond(question))
        ways = [*ways, *further] if question.typed_nodes is None else ways
        if not ways:
            return _name_enough_nodes(plan, search)
        choice = choose([way.candidate for way in ways], question.objective)
    way = next(one for one in ways if one.candidate is choice.nearest)
    why = _why_not_itself(plan, way)
    return _plan_of(plan, search, ways, choice, why) if why else plan


def _measured_gpu(question: Question, kind: NodeType) -> Gpu | None:
    """Return a GPU of which no peak is known as doctor measured it; None without a measured product in bfloat16."""
    measured = [one for one in question.evidence.devices if one.on_gpus and one.mixed]
    if not measured:
        return None
    one = measured[-1]
    return Gpu(
        name=kind.gpu_model or "the GPU",
        float32=one.float32,
        tf32=one.tf32,
        mixed=one.mixed,
        memory_gbytes_per_s=one.copy_gbytes_per_s,
        source=one.origin,
        is_measured=True,
    )


def _keeps_its_own(work: Workload) -> bool:
    """Whether an optimizer or a number format was typed that a program of one's own, as it is planned here, has not."""
    other_optimizer = "optimizer" in work.typed and work.optimizer not in ("adam", "adamw")
    other_format = "precision" in work.typed and work.number_format != "bfloat16"
    return other_optimizer or other_format


def _refuse_unknown_memory(plan: Forecast, decoder: Decoder, node_type: str) -> Forecast:
    """Return the plan; one of a model that most GPUs cannot hold is refused where the memory of a GPU is not known."""
    needed = decoder.parameters * STATE_BYTES
    if needed <= COMMON_GPU_BYTES:
        return plan
    fault = Fault(
        what=f"the model takes {needed / 2**30:.0f} GB beside its activations, and the memory of a GPU is not known",
        next=f"write gpu_memory_gb of the node type {node_type} into the site file, or name another site",
    )
    return replace(plan, command="", measuring="", refusals=(*plan.refusals, fault))


def _first_enough(search: _Search, trials: Iterable[Trial]) -> list[_Way]:
    """Return the ways of these trials, up to the first that is a recommendation, or is no faster than the last."""
    found: list[_Way] = []
    for trial in trials:
        way = search.way_on(trial)
        if way is None:
            continue
        run, objective = way.candidate, search.question.objective
        if found and run.done_s >= found[-1].candidate.done_s:
            break
        found.append(way)
        if not is_late(run, objective):
            break
    return found


def _trials_beyond(question: Question) -> Iterator[Trial]:
    """Yield the trials of 128, 256, … nodes, up to what the site accepts."""
    for nodes in _doubled_from(MOST_NODES):
        trial = trial_of(question, nodes)
        if trial.faults:
            return
        yield trial


def _doubled_from(nodes: int) -> Iterator[int]:
    while 2 * nodes <= MOST_TRIED:
        nodes *= 2
        yield nodes


def _name_enough_nodes(plan: Forecast, search: _Search) -> Forecast:
    """Return the plan of a model that the typed nodes hold in no way, with the fewest nodes that hold it in a year."""
    typed = search.question.typed_nodes
    if typed is None or not plan.refusals:
        return plan
    for nodes in (nodes for nodes in range(typed + 1, MOST_TRIED + 1) if _is_round(nodes)):
        trial = trial_of(search.question, nodes)
        way = None if trial.faults else search.way_on(trial, as_typed=True)
        if way is None or way.candidate.beyond:
            continue
        words = f"--nodes {nodes} can hold it, for a program of yours: {way.planned.layout.words}"
        return replace(plan, refusals=(replace(plan.refusals[0], next=words), *plan.refusals[1:]))
    return plan


def _is_round(nodes: int) -> bool:
    """Whether a node count has at most three binary digits, as 1 to 8, 10, 12, 14, 16 and 20 have."""
    return nodes % (1 << max(0, nodes.bit_length() - 3)) == 0


def _engine(kind: NodeType, node: NodeModel, gpu: Gpu) -> Engine:
    assert node.room is not None
    return Engine(
        peak=gpu.mixed or gpu.float32,
        memory_gbytes_per_s=gpu.memory_gbytes_per_s,
        memory_bytes=node.room.gpu_bytes,
        inside=_link_speed(kind) or PCIE_GBYTES_PER_S,
        node=node.links.node_gbytes_per_s,
        ranks=node.ranks,
        derate=gpu.of_decoders,
    )


def _link_speed(kind: NodeType) -> float | None:
    links = kind.gpu_links
    return (links.gpu_gbytes_per_s or links.slowest_pair_gbytes_per_s or links.pair_gbytes_per_s) if links else None


@record
class _Search:
    """What the layouts of every trial have in common."""

    question: Question
    work: Workload
    decoder: Decoder
    engine: Engine
    gpu: Gpu

    def way_on(self, trial: Trial, *, as_typed: bool = False) -> _Way | None:
        """Return the fastest layout on a trial; None if none holds the model there, or others are typed.

        ``as_typed``: the trial's nodes count as the typed ones.
        """
        is_typed = as_typed or self.question.typed_nodes in (None, trial.nodes)
        if trial.faults or not is_typed or trial.ranks_per_node != self.engine.ranks:
            return None
        ranks = trial.nodes * trial.ranks_per_node
        planned = fastest_layout(self.decoder, self.engine, ranks, self.samples_on(ranks)[0])
        machine = (self.engine, self.gpu)
        return None if planned is None else _way(self.question, self.work, self.decoder, machine, trial, planned)

    def samples_on(self, ranks: int) -> tuple[int, str]:
        """Return the samples of a step, and what they are.

        They are the typed batch, that of a recipe's rate, the job's on typed ranks, else the published one: its number
        of tokens becomes the next power of two of samples. A step has at most all samples.
        """
        work, found = self.work, (self._published_samples, "as published for this size")
        if self.question.global_batch:
            found = (self.question.global_batch, "as typed")
        elif work.base_batch and "learning_rate" in work.typed and not work.rate_is_typed:
            found = (work.base_batch, "that of the rate")
        elif "batch_size_per_rank" in work.typed:
            found = (work.total_of(ranks) or found[0], "as typed for each rank")
        return (work.samples, "all samples there are") if found[0] > work.samples else found

    @property
    def _published_samples(self) -> int:
        tokens = usual_of(self.decoder.parameters).tokens
        return 1 << max(0, round(math.log2(tokens / self.decoder.context)))


def _way(
    question: Question, work: Workload, decoder: Decoder, machine: tuple[Engine, Gpu], trial: Trial, planned: Planned
) -> _Way:
    layout, time = planned.layout, planned.time
    rate = time.tokens_per_s / decoder.context
    batch = Batch(per_rank=layout.micro_batch, replicas=layout.data, accumulation=layout.micro_batches)
    facts = facts_of(work, None)
    length = TrainingLength(
        epochs=run_epochs(replace(work, base_batch=batch.total), batch.total, facts).interval,
        samples=work.samples,
        overhead=overhead_of(question, work, trial.nodes, work.samples / rate),
    )
    speed = spread(rate, machine[1].decoder_spread, "default")
    step = StepTime(
        compute_s=time.compute_s,
        communication_s=time.tensor_s + time.data_s + time.further_s + time.bubble_s,
        straggler_s=time.straggler_s,
        slowdown_s=0.0,
        input_s=0.0,
    )
    typed = question.case.request.restarts
    bill = replace(trial.bill, most_jobs=MOST_JOBS if typed is None else typed + 1)
    found = candidate(trial.nodes, batch, speed, length, bill, wait_s=question.queue.wait_s(trial.nodes))
    return _Way(
        trial=trial,
        planned=planned,
        candidate=replace(found, ranks_per_node=trial.ranks_per_node),
        throughput=Throughput(
            samples_per_s=speed,
            efficiency=time.compute_s / time.total_s,
            step=step,
            reason=_reason(decoder, machine, planned),
        ),
    )


def _reason(decoder: Decoder, machine: tuple[Engine, Gpu], planned: Planned) -> Reason:
    time, layout, (engine, gpu) = planned.time, planned.layout, machine
    parts = {"compute": time.compute_s, "tensor": time.tensor_s, "bubble": time.bubble_s, "data": time.data_s}
    parts |= {"further": time.further_s, "stragglers": time.straggler_s}
    share = utilization(decoder, time.tokens_per_s, layout.ranks, engine.peak)
    peak = "measured product" if gpu.is_measured else "peak"
    return Reason(
        rule="step = compute + what is not hidden of tensor, data and further exchange + bubble + stragglers",
        numbers=(
            *(Number(name=name, value=value, unit="s", origin="default") for name, value in parts.items()),
            Number(name="tokens of a step", value=time.tokens),
            Number(name=peak, value=engine.peak, unit="TFLOP/s", origin="profile" if gpu.is_measured else "default"),
        ),
        verdict=f"{shorten(time.tokens_per_s)} tokens/s, {share:.0%} of the {peak}: {layout.words}",
        source=f"{SOURCE}; {gpu.source}",
    )


def _why_not_itself(plan: Forecast, way: _Way) -> str:
    """Return why the job itself is not planned; empty if it is."""
    row = plan.chosen
    if plan.ladder and plan.rung is None:
        return f"{plan.job} cannot hold the model"
    if row is None or row.candidate is None or plan.rung is None:
        return ""
    assert row.throughput is not None
    faster = way.throughput.samples_per_s.middle / row.throughput.samples_per_s.middle * row.nodes / way.trial.nodes
    saved = row.candidate.time_s.middle - way.candidate.time_s.middle
    if faster < FASTER or (plan.rung.name in AS_ITSELF and saved < WORTH_S):
        return ""
    return f"a node trains {faster:.2g} times as fast as with {plan.job} itself"


def _plan_of(
    plan: Forecast,
    search: _Search,
    ways: list[_Way],
    choice: NodeChoice,
    why: str,
) -> Forecast:
    question, work, decoder = search.question, search.work, search.decoder
    way = next(one for one in ways if one.candidate is choice.nearest)
    rows = [_row(one) for one in ways if one.trial.nodes <= MOST_NODES or one is way]
    program = _program(search, way, why)
    refusals = what_it_takes(choice, question.objective, _others(search, choice))
    summary = f"{count(way.trial.nodes, 'node')}, for a program of yours: {why}"
    return replace(
        plan,
        nodes=way.trial.nodes,
        node_type=way.trial.sizing.node_type,
        ranks_per_node=None,
        summary=summary,
        known=True,
        parallelism=None,
        split=None,
        rows=tuple(add_marginals(rows, choice)),
        unit=way.trial.bill.unit,
        settings=(),
        rung_settings=(),
        recipe=None,
        command=program.command if not refusals else "",
        measuring="",
        jobs=_jobs_of(question, way),
        precision="bfloat16",
        precision_words="",
        batch_alone=None,
        checkpoints=None,
        efficiency=None,
        assumed=_assumption_lines(search.gpu, work, way, decoder),
        notes=_notes(question, ways, way),
        warnings=(doubt,) if (doubt := doubt_of(decoder.parameters, program.rate)) else (),
        refusals=refusals,
        program=program,
        mfu=None
        if search.gpu.is_measured
        else Mfu(
            share=program.utilization,
            peak=program.peak,
            arithmetic="16 bits",
            device=program.device,
            flops=decoder.model_flops * decoder.context,
        ),
        sections=(
            PlanSection(
                title="a program of yours",
                reasons=(way.throughput.reason, way.candidate.reason, choice.reason),
                remarks=(program.rate_source, tokens_words(decoder.active_parameters, program.tokens_in_all))
                + tuple(f"{name}: {text}" for name, text in NEWER_RULES.items()),
            ),
            *(section for section in plan.sections if section.title == "ladder"),
        ),
    )


def _others(search: _Search, choice: NodeChoice) -> list[Candidate]:
    """Return the runs on more nodes than the typed ones, up to the first that is a recommendation."""
    typed = search.question.typed_nodes
    if typed is None or choice.best is not None:
        return []
    free = [trial_of(search.question, nodes) for nodes in _doubled_from(typed)]
    ways = (search.way_on(trial, as_typed=True) for trial in free if not trial.faults)
    found: list[Candidate] = []
    for way in ways:
        if way is None:
            continue
        found.append(way.candidate)
        if not is_late(way.candidate, search.question.objective):
            break
    return found


def _notes(question: Question, ways: Sequence[_Way], way: _Way) -> tuple[str, ...]:
    """Return why more nodes are planned than the guidelines recommend; nothing if they are not."""
    if way.trial.nodes <= MOST_NODES or question.typed_nodes is not None:
        return ()
    fewer = max((one for one in ways if one.trial.nodes <= MOST_NODES), key=lambda one: one.trial.nodes, default=None)
    if fewer is None:
        return (f"more than the {MOST_NODES} nodes that the guidelines recommend: no fewer hold the model",)
    run = fewer.candidate
    late = run.beyond or f"it would take {time_of(run.time_s.middle)}, after the deadline"
    return (f"more than the {MOST_NODES} nodes that the guidelines recommend: with {run.nodes}, {late}",)


def _row(way: _Way) -> PlanRow:
    ranks = way.trial.nodes * way.trial.ranks_per_node
    return PlanRow(
        nodes=way.trial.nodes,
        ranks=ranks,
        whole_nodes=way.trial.sizing.layout.whole_nodes,
        batch=way.candidate.batch,
        throughput=way.throughput,
        candidate=way.candidate,
    )


def _program(search: _Search, way: _Way, why: str) -> OwnProgram:
    question, work, decoder, engine, gpu = search.question, search.work, search.decoder, search.engine, search.gpu
    layout, memory = way.planned.layout, way.planned.memory
    ranks = layout.ranks
    tokens = scaled(way.candidate.samples_per_s, decoder.context)
    rate, source = _rate(work, decoder, way.candidate.batch.total)
    share = 1 / (ranks * engine.peak * 1e12) * decoder.model_flops
    request = question.case.request
    words = [f"hpclaunch submit train.py {_starter_words(question)} --nodes {way.trial.nodes}"]
    flags = {"--site": request.site, "--node-type": request.node_type, "--account": request.account}
    flags |= {"--partition": request.partition, "--qos": request.qos, "--environment": request.environment}
    words += [f"{flag} {shlex.quote(value)}" for flag, value in flags.items() if value]
    words += _time_words(question, way)
    return OwnProgram(
        why=why,
        layout=layout.words,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        context=layout.context,
        data=layout.data,
        experts=layout.experts,
        sharded=layout.sharded,
        recompute=layout.recompute,
        micro_batch=layout.micro_batch,
        micro_batches=layout.micro_batches,
        bubble=layout.bubble,
        memory=memory.total,
        usable=engine.usable_bytes,
        tokens_per_s=tokens,
        tokens_per_step=way.candidate.batch.total * decoder.context,
        batch_source=search.samples_on(ranks)[1],
        tokens_in_all=work.samples * decoder.context * way.candidate.epochs.middle,
        utilization=scaled(tokens, share),
        peak=engine.peak,
        device=gpu.name,
        rate=rate,
        rate_source=source,
        command=" ".join(words),
        rungs=_rungs_of(decoder, engine, way),
    )


def _starter_words(question: Question) -> str:
    """Return the flags for what starts the ranks: torchrun, or the site's own launcher where it advises against it."""
    launchers = question.case.site.launchers
    option = launchers.options.get(TORCHRUN) if launchers else None
    if launchers and option is not None and (option.warn or option.missing_in):
        return f"--framework pytorch --launcher {launchers.default}"
    return f"--launcher {TORCHRUN}"


def _jobs_of(question: Question, way: _Way) -> int:
    """Return the jobs of a chain that are enough in nine of ten cases, as far as they are allowed."""
    typed, limit = question.case.request.restarts, way.trial.bill.walltime_s
    if not limit:
        return way.candidate.jobs
    enough = math.ceil(walltime_for(way.candidate.time_s) / limit)
    return min(enough, MOST_JOBS if typed is None else typed + 1)


def _time_words(question: Question, way: _Way) -> list[str]:
    """Return the walltime of one job, and the restarts of a chain; nothing if the site's limit is not known."""
    limit, jobs = way.trial.bill.walltime_s, _jobs_of(question, way)
    if not limit:
        return []
    restarts = [f"--restarts {jobs - 1}"] if jobs > 1 else []
    return [f"--walltime {format_walltime(min(int(limit), walltime_for(way.candidate.time_s)))}", *restarts]


def _rungs_of(decoder: Decoder, engine: Engine, way: _Way) -> tuple[LayoutRung, ...]:
    """Return the ways to hold the model on the ranks of the chosen layout."""
    layout, rungs = way.planned.layout, []
    for name, found in fastest_layouts(decoder, engine, layout.ranks, layout.samples)[1].items():
        fits = found.memory.total <= engine.usable_bytes
        verdict: RungVerdict = "slower" if fits else "too large"
        if name == rung_of(layout):
            verdict = "taken"
        rungs.append(
            LayoutRung(
                name=name,
                layout=found.layout.words,
                micro_batch=found.layout.micro_batch,
                memory=found.memory.total,
                tokens_per_s=found.time.tokens_per_s,
                verdict=verdict,
            )
        )
    return tuple(rungs)


def _rate(work: Workload, decoder: Decoder, batch: int) -> tuple[float, str]:
    """Return the rate: the typed one as it is, or the recipe's, by the square root of the batch; else the published."""
    usual, tokens = usual_of(decoder.parameters), batch * decoder.context
    if work.rate_is_typed and work.learning_rate is not None:
        return work.learning_rate, "rate: as typed, for this batch"
    if "learning_rate" in work.typed and work.learning_rate is not None:
        base = work.base_batch
        if base is None:
            return work.learning_rate, "rate: as given; the batch that it is for is not known"
        if base == batch or not rules_of(work.optimizer).by_root:
            return work.learning_rate, "rate: as given, for this batch"
        grown = math.sqrt(min(batch, max(base, usual.tokens / decoder.context)) / base)
        return work.learning_rate * grown, f"rate: {work.learning_rate:g} x sqrt({batch} / {base}), as Adam's"
    grown = math.sqrt(min(1.0, tokens / usual.tokens))
    words = f"rate: {usual.rate:g} was used with {shorten(usual.tokens)} tokens a step ({usual.name}; {usual.source})"
    if grown < 0.9:
        words += f", here x sqrt({shorten(tokens)} / {shorten(usual.tokens)})"
        return usual.rate * grown, words
    return usual.rate, words


def _assumption_lines(gpu: Gpu, work: Workload, way: _Way, decoder: Decoder) -> tuple[str, ...]:
    program = "the program: PyTorch's FSDP or Megatron-LM in bfloat16 with flash attention, AdamW with 16 bytes of a"
    found = [
        f"{program} parameter, and a pipeline with one forward and one backward pass in turn",
        f"reading, evaluation and checkpoints: {time_of(way.candidate.between_s.middle)} in all, within a factor of 2",
    ]
    if gpu.decoder_spread >= GUESSED:
        factor = f"a guess within a factor of {1 + gpu.decoder_spread:g}"
        basis = f" from the measured matrix product and copy rate ({gpu.source})" if gpu.is_measured else ""
        found.append(f"speed of {gpu.name}: {factor}{basis}; it was compared with no published training")
    samples = samples_short(work, decoder)
    return (*found, *([samples] if samples else []))


def samples_short(work: Workload, decoder: Decoder) -> str:
    """Return a line on a corpus that is short for the batch; empty if it is not."""
    usual = usual_of(decoder.parameters).tokens / decoder.context
    if work.samples >= usual:
        return ""
    tokens = shorten(float(work.samples) * decoder.context)
    return f"the text has {tokens} tokens, less than one step of a published training of this size"
