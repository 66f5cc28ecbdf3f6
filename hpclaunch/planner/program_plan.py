"""The plan of a program without a job file, from measured points alone: step = fixed + per sample + communication."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.records import record
from hpclaunch.core.units import count
from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.candidates import TrainingLength, candidate
from hpclaunch.guidelines.choice import NodeChoice, choose
from hpclaunch.guidelines.intervals import Interval, spread
from hpclaunch.guidelines.overhead import NO_OVERHEAD, Overhead, measured_overhead
from hpclaunch.guidelines.program_steps import SOURCE, ProgramSteps, StepPoint, divides_a_batch, fitted
from hpclaunch.guidelines.reasoning import Number, Reason
from hpclaunch.guidelines.throughput import StepTime, Throughput
from hpclaunch.planner.amounts import shorten
from hpclaunch.planner.choice.decision import add_marginals
from hpclaunch.planner.choice.proposal import Length, command_of, length_of, profile_command, what_it_takes
from hpclaunch.planner.explaining.headlines import headlines_of
from hpclaunch.planner.forecasting import gpus_of, refuse_impossible
from hpclaunch.planner.job.question import Question, Trial, trials_of
from hpclaunch.planner.values import Forecast, Headline, PlanRow, PlanSection, ProgramMeasured, Trust

FURTHEST = 8
"""No speed is predicted beyond so many times the largest measured node count (hpclaunch's own)."""
HOUR = 3600


@record
class ProgramPoint:
    """A measured layout: the samples of a rank and step, and the ends of the range of all ranks' rate."""

    nodes: int
    ranks_per_node: int
    per_rank: int
    low: float
    high: float


@record
class ProgramFacts:
    """What was measured of a program: its points, what its rates count, and how its batch of a rank is typed.

    ``own_batch``: the batch is not known, and the same in all points. ``arguments``: the words that the program got.
    ``amount``: how much is to be trained in the unit; None: not typed.
    """

    points: tuple[ProgramPoint, ...]
    unit: str = "samples"
    own_batch: bool = False
    batch_argument: str = ""
    arguments: tuple[str, ...] = ()
    overhead_s: float | None = None
    amount: float | None = None
    origin: str = ""


def plan_of_program(question: Question, facts: ProgramFacts) -> Forecast:
    """Return the plan of a program from its measured points.

    Raises Refused for a request that the site accepts with no node count, for points that contradict each other, and
    where an asked batch, deadline or budget needs what is not known.
    """
    trials = trials_of(question)
    refuse_impossible(question, trials)
    first = next(trial for trial in trials if not trial.faults)
    _refuse_unanswerable(question, facts)
    steps, usable = _steps_of(question, facts, first.ranks_per_node)
    largest = max(point.nodes for point in usable)
    per_rank = max(int(point.per_rank) for point in usable)
    amount = facts.amount if facts.amount is not None else _work_of_an_hour(steps, first, per_rank)
    ways = [_row(question, facts, steps, trial, (per_rank, largest, amount)) for trial in _trials_to_show(trials)]
    candidates = [row.candidate for row in ways if row.candidate is not None]
    choice = choose(candidates, question.objective) if candidates else None
    return _forecast(question, facts, (steps, amount), trials, ways, choice)


def _refuse_unanswerable(question: Question, facts: ProgramFacts) -> None:
    objective = question.objective
    if facts.amount is None and (objective.deadline_s is not None or objective.budget is not None):
        flag = "--deadline" if objective.deadline_s is not None else "--budget"
        what = f"how much {question.case.job.name} is to train is not known"
        raise Refused(Fault(where=flag, what=what, next=f"add --work N, in {facts.unit}: --work 5M"))
    if question.global_batch is not None and not facts.batch_argument:
        what = f"how the batch of {question.case.job.name} is typed is not known"
        hint = profile_command(question.case.request, "--batch-argument", "NAME", "--", "NAME", "64")
        raise Refused(Fault(where="--global-batch", what=what, next=hint))


def _steps_of(question: Question, facts: ProgramFacts, ranks_per_node: int) -> tuple[ProgramSteps, list[StepPoint]]:
    """Return the divisions that fit, and the points with so many ranks a node."""
    usable = []
    for point in facts.points:
        if point.ranks_per_node == ranks_per_node:
            work = point.nodes * point.ranks_per_node * point.per_rank
            low, high = work / point.high, work / point.low
            usable.append(StepPoint(nodes=point.nodes, per_rank=point.per_rank, low=low, high=high))
    if not usable:
        measured = ", ".join(sorted({str(point.ranks_per_node) for point in facts.points}))
        what = f"no measured point has {count(ranks_per_node, 'rank')} a node; they have {measured}"
        again = profile_command(question.case.request, *_arguments_again(facts))
        hint = f"--tasks-per-node with a measured number, or measure again: {again}"
        raise Refused(Fault(where="--calibration", what=what, next=hint))
    for few in usable:
        for more in usable:
            is_same = few.per_rank == more.per_rank and few.nodes < more.nodes
            if is_same and divides_a_batch((few.low, few.high), (more.low, more.high)):
                sizes = f"{more.nodes} nodes than on {few.nodes}"
                what = f"a step takes less time on {sizes}: its steps seem to divide one batch over all ranks"
                hint = "measure samples/s of all ranks: profile --rate-from 'speed=(?P<samples_per_s>[0-9.]+)'"
                raise Refused(Fault(where="--calibration", what=what, next=hint))
    try:
        return fitted(usable), usable
    except ValueError as error:
        further = ["--sbatch=--exclusive"] if _has_more_nodes(question) else []
        again = profile_command(question.case.request, *further, *_arguments_again(facts))
        hint = f"measure again, on nodes that no other job uses: {again}"
        raise Refused(Fault(where="--calibration", what=str(error), next=hint)) from None


def _arguments_again(facts: ProgramFacts) -> list[str]:
    """Return the words that measure the program again as it was measured, as far as they are known."""
    name = [f"--batch-argument={facts.batch_argument}"] if facts.batch_argument else []
    return [*name, "--", *facts.arguments] if facts.arguments else name


def _has_more_nodes(question: Question) -> bool:
    """Whether the site has a scheduler, which can give more than one node."""
    return question.case.site.scheduler_row.has_queue


def _trials_to_show(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that the site takes, and the first one that it refuses."""
    refused = [trial for trial in trials if trial.faults]
    return [trial for trial in trials if trial not in refused[1:]]


def _work_of_an_hour(steps: ProgramSteps, trial: Trial, per_rank: int) -> float:
    """Return what the fewest measured nodes train in an hour."""
    step = steps.step(steps.fewest, per_rank)
    assert step is not None
    return HOUR * steps.fewest * trial.ranks_per_node * per_rank / step.middle


def _row(
    question: Question, facts: ProgramFacts, steps: ProgramSteps, trial: Trial, sizes: tuple[int, int, float]
) -> PlanRow:
    usual, largest, amount = sizes
    ranks = trial.nodes * trial.ranks_per_node
    bare = PlanRow(nodes=trial.nodes, ranks=ranks, obstacles=trial.refused)
    if trial.faults:
        return bare
    per_rank, uneven = _batch_of(question, usual, ranks)
    if uneven:
        return replace(bare, obstacles=(uneven,))
    step = steps.step(trial.nodes, per_rank) if trial.nodes <= FURTHEST * largest else None
    batch = Batch(per_rank=per_rank, replicas=ranks)
    if step is None:
        measured = f"{steps.fewest}" if steps.fewest == largest else f"{steps.fewest} to {largest}"
        again = profile_command(question.case.request, "--nodes", f"{trial.nodes}", *_arguments_again(facts))
        more = f" ({again})" if trial.nodes == 1 or _has_more_nodes(question) else ""
        why = f"not known: measured on {measured} node{'s' * (largest > 1)}{more}"
        return replace(bare, batch=batch, obstacles=(why,))
    rate = Interval(
        low=batch.total / step.high, middle=batch.total / step.middle, high=batch.total / step.low, origin="profile"
    )
    length = TrainingLength(epochs=spread(1.0, 0.0, "given"), samples=max(1, round(amount)), overhead=_overhead(facts))
    wait_s = question.queue.wait_s(trial.nodes)
    # Without --work, an hour of it is shown, which says nothing of how long the program runs.
    bill = trial.bill if facts.amount is None else replace(trial.bill, most_jobs=trial.bill.most_jobs or 1)
    found = candidate(trial.nodes, batch, rate, length, bill, wait_s=wait_s)
    return PlanRow(
        nodes=trial.nodes,
        ranks=ranks,
        whole_nodes=trial.sizing.layout.whole_nodes,
        batch=batch,
        throughput=_throughput(facts, steps, trial, (per_rank, rate, step)),
        candidate=replace(found, ranks_per_node=trial.ranks_per_node),
    )


def _batch_of(question: Question, usual: int, ranks: int) -> tuple[int, str]:
    """Return the samples of a rank, and why the ranks cannot share a typed global batch."""
    typed = question.global_batch
    if typed is None:
        return usual, ""
    if typed % ranks:
        return usual, f"{ranks} ranks cannot share {typed} samples equally"
    return typed // ranks, ""


def _overhead(facts: ProgramFacts) -> Overhead:
    return NO_OVERHEAD if facts.overhead_s is None else measured_overhead(facts.overhead_s)


def _throughput(
    facts: ProgramFacts, steps: ProgramSteps, trial: Trial, found: tuple[int, Interval, Interval]
) -> Throughput:
    per_rank, rate, step = found
    low, high = steps.communication(trial.nodes) if trial.nodes > steps.fewest else (0.0, 0.0)
    alone = steps.step(steps.fewest, per_rank)
    assert alone is not None
    middle = max(0.0, step.middle - alone.middle)
    (fixed_low, fixed_high), (each_low, each_high) = steps.part("fixed"), steps.part("per_sample")
    of = "" if facts.unit == "samples" and not facts.own_batch else f", of one of the {facts.unit}"
    reason = Reason(
        rule=f"step = fixed + per sample x batch of a rank + communication{of}",
        numbers=(
            Number(name="fixed, at least", value=fixed_low, unit="s", origin="profile"),
            Number(name="at most", value=fixed_high, unit="s", origin="profile"),
            Number(name="a sample, at least", value=each_low, unit="s", origin="profile"),
            Number(name="at most", value=each_high, unit="s", origin="profile"),
            Number(name="communication, at least", value=low, unit="s", origin="profile"),
            Number(name="at most", value=high, unit="s", origin="profile"),
            Number(name="half-width of a point", value=steps.noise, origin="fitted"),
        ),
        verdict=f"{count(trial.nodes, 'node')}: {shorten(rate.low)} to {shorten(rate.high)} {facts.unit}/s",
        source=SOURCE,
    )
    parts = StepTime(
        compute_s=alone.middle, communication_s=middle, straggler_s=0.0, slowdown_s=0.0, input_s=0.0, fixed_s=fixed_low
    )
    return Throughput(samples_per_s=rate, efficiency=min(1.0, alone.middle / step.middle), step=parts, reason=reason)


def _forecast(
    question: Question,
    facts: ProgramFacts,
    known: tuple[ProgramSteps, float],
    trials: Sequence[Trial],
    rows: Sequence[PlanRow],
    choice: NodeChoice | None,
) -> Forecast:
    steps, amount = known
    nodes, summary = _choose_nodes(question, choice)
    row = next((row for row in rows if row.nodes == nodes), rows[0])
    trial = next(trial for trial in trials if trial.nodes == row.nodes)
    length = length_of(question, trial, row.candidate) if facts.amount is not None else Length()
    refusals = _refusals(question, choice, row)
    command = command_of(question, row.nodes, (), length.walltime)
    plan = Forecast(
        job=question.case.job.name,
        site=question.case.site.name,
        node_type=trial.sizing.node_type,
        nodes=row.nodes,
        typed=question.typed_nodes is not None,
        gpus_per_node=gpus_of(trial),
        known=True,
        summary=summary,
        rows=tuple(add_marginals(rows, choice)),
        unit=trial.bill.unit,
        command="" if refusals else " ".join([command, *_words_of_the_program(facts, row)]),
        jobs=length.jobs,
        measured=facts.origin,
        assumed=_assumptions(question, facts, steps, amount),
        warnings=_warnings(choice, length, steps),
        refusals=refusals,
        trust=_trust(facts),
        sections=_sections(row, choice),
        measured_program=ProgramMeasured(
            unit=facts.unit, own_batch=facts.own_batch, amount=amount, amount_typed=facts.amount is not None
        ),
    )
    return replace(plan, headlines=tuple(_mark_line(line, facts, row, rows) for line in headlines_of(plan)))


def _mark_line(line: Headline, facts: ProgramFacts, row: PlanRow, rows: Sequence[PlanRow]) -> Headline:
    """Return a line with what the measured points say of it; a batch beyond theirs makes it a guess."""
    measured = {point.per_rank for point in facts.points}
    batch = row.batch.per_rank if row.batch is not None and not facts.own_batch else None
    is_beyond = batch is not None and not min(measured) <= batch <= max(measured)
    known = [row for row in rows if row.candidate is not None]
    if line.name == "nodes" and len(known) == 1 and line.low is not None:
        line = replace(line, range="no other is known")
    if line.name == "batch" and batch is not None and batch not in measured:
        line = replace(line, range="beyond what was measured" if is_beyond else "between those that were measured")
    return replace(line, trust="guess") if is_beyond else line


def _choose_nodes(question: Question, choice: NodeChoice | None) -> tuple[int, str]:
    """Return the node count and why: the typed one, the best, or the nearest."""
    typed = question.typed_nodes
    if typed is not None:
        return typed, f"{count(typed, 'node')}, as typed"
    if choice is None:
        return 1, "1 node: no speed is known for any node count"
    words = f"{count(choice.nearest.nodes, 'node')}: the best of {count(len(choice.appraised), 'node count')}"
    weight = question.objective.weight
    return choice.nearest.nodes, f"{words} whose speed is known (least time^{weight:g} x cost^{1 - weight:g})"


def _refusals(question: Question, choice: NodeChoice | None, row: PlanRow) -> tuple[Fault, ...]:
    if row.candidate is None:
        why = "; ".join(row.obstacles) or "its speed is not known"
        return (Fault(where=f"{count(row.nodes, 'node')}", what=why),)
    return what_it_takes(choice, question.objective, ()) if choice is not None else ()


def _words_of_the_program(facts: ProgramFacts, row: PlanRow) -> list[str]:
    """Return the arguments after ``--``, with the batch of the row."""
    if not facts.arguments:
        return []
    words = list(facts.arguments)
    name, batch = facts.batch_argument, row.batch
    for place, word in enumerate(words):
        if batch is None or not name:
            break
        if word.startswith(f"{name}="):
            words[place] = f"{name}={batch.per_rank}"
        elif word == name and place + 1 < len(words):
            words[place + 1] = str(batch.per_rank)
    return ["--", shlex.join(words)]


def _assumptions(question: Question, facts: ProgramFacts, steps: ProgramSteps, amount: float) -> tuple[str, ...]:
    lines = []
    if facts.amount is None:
        one = count(steps.fewest, "node")
        lines.append(
            f"work: not typed; time and cost are those of {shorten(amount)} {facts.unit}, an hour of {one} (--work N)"
        )
    if facts.unit == "steps" and facts.own_batch:
        lines.append("batch: the program's own on every rank; a step of each rank counts, so N ranks count N a step")
    if not steps.has_communication:
        again = profile_command(question.case.request, "--nodes", f"{2 * steps.fewest}", *_arguments_again(facts))
        more = f" ({again})" if _has_more_nodes(question) else ""
        lines.append(f"communication: not measured, so that no other node count is known{more}")
    else:
        lines.append(
            "communication: does not fall with more nodes, and grows at most as their number; between these, anything"
        )
    fixed, each = steps.part("fixed"), steps.part("per_sample")
    if fixed[1] > 2 * max(fixed[0], each[0]) and not facts.own_batch and fixed[0] == 0.0:
        batches = {point.per_rank for point in facts.points if point.nodes == steps.fewest}
        why = "one batch does not tell it" if len(batches) == 1 else "the batches are too near to tell it"
        lines.append(f"fixed part of a step: {why} from the samples'; other batches are uncertain")
    if facts.overhead_s is None:
        lines.append("start-up, evaluation, checkpoints and the wait in the queue: not measured, and not counted")
    return tuple(lines)


def _warnings(choice: NodeChoice | None, length: Length, steps: ProgramSteps) -> tuple[str, ...]:
    found = [*(choice.warnings if choice else ()), length.warning]
    if steps.noise > 0.2:
        found.append(
            f"the points fit only with {steps.noise:.0%} of noise: a run was disturbed, or a step has further parts"
        )
    return tuple(text for text in found if text)


def _trust(facts: ProgramFacts) -> Trust:
    return "measured at scale" if any(point.nodes > 1 for point in facts.points) else "one node measured"


def _sections(row: PlanRow, choice: NodeChoice | None) -> tuple[PlanSection, ...]:
    reasons = []
    if row.throughput is not None and row.candidate is not None:
        reasons += [row.throughput.reason, row.candidate.reason]
    if choice is not None:
        reasons.append(choice.reason)
    return (PlanSection(title="a program of yours", reasons=tuple(reasons)),)
