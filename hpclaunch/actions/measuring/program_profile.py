"""``profile`` and ``scale`` of a program without a job file: short runs, whose speed is in what they print or write."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from statistics import median
from typing import Any

from hpclaunch.actions.following.cancel import cancel
from hpclaunch.actions.measuring.profile import NODES, Design, ProfileRun, place_of_case, possible_trials
from hpclaunch.actions.measuring.short_runs import STEPS, WALLTIME, keyed_case
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load, with_run_dir
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.submit import prepare_case
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, HpclaunchError, InvalidRequest, Refused
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.core.units import count
from hpclaunch.guidelines.program_steps import divides_a_batch
from hpclaunch.planner.measured.calibration_file import Calibration, Point, store
from hpclaunch.planner.measured.log_formats import LogFormat, Unit, formats_for
from hpclaunch.planner.measured.log_rates import LogRate
from hpclaunch.planner.measured.program_rates import METRICS, measured_rate
from hpclaunch.resolve.case import Case
from hpclaunch.runs import Run

_ENOUGH_READINGS = 8
"""A run may be ended before its program is, if so many readings count and they stand for enough steps."""
_LEAST_LOOP_S = 60
"""A run is not ended before a loop that may be another than its training took so many seconds."""
_MEASURED = ("COMPLETED", "CANCELLED", "TIMEOUT")
"""The final states of runs whose speed counts: hpclaunch or the walltime ended the program, or it ended well."""


@record
class ProgramWish:
    """How a program is measured: ``steps`` of each run, and where it prints its speed (None: every known format).

    ``batch_argument``: the name of the argument with the batch of a rank; empty: the program has its own.
    ``repeats``: the runs of every layout, in rounds, so that a disturbance does not meet all of one layout.
    """

    steps: int = STEPS
    rate_from: str | None = None
    batch_argument: str = ""
    repeats: int = 1

    @property
    def formats(self) -> tuple[LogFormat, ...]:
        """Return the formats to look for. Raises InvalidRequest."""
        return formats_for(self.rate_from)


def is_program(system: System, request: Request, wish: ProgramWish) -> bool:
    """Whether the target is measured by what it prints: it is a script or a program on PATH, and no job.

    Raises Refused if it is a job, and a flag or an argument for such a program was typed.
    """
    job = load(system, request, job=program_job(system, request)).job
    if job.source_only:
        return True
    typed = [("--rate-from", wish.rate_from), ("--batch-argument", wish.batch_argument), ("--", request.arguments)]
    for flag, value in typed:
        if value:
            what = f"{job.name} is a job, which is measured by its 'training' section"
            raise Refused(Fault(where=flag, what=what, next="leave it out; --set NAME=VALUE sets a parameter"))
    return False


def design(
    system: System, request: Request, wish: ProgramWish, runs_dir: str | None = None, counts: Sequence[int] = ()
) -> Design:
    """Return the runs: on the fewest nodes, there with half of the batch if its argument is known, then on more.

    ``counts``: the node counts of ``scale``; empty: one node and ``request.nodes``. Raises Refused if no run is
    possible, InvalidRequest for a pattern or an argument that cannot be used.
    """
    _ = wish.formats  # a pattern that cannot be used is refused before anything is submitted
    case = keyed_case(system, request, runs_dir)
    batch = batch_in(request.arguments, wish.batch_argument) if wish.batch_argument else None
    fewest, *more = sorted({*(counts or (1, request.nodes or NODES))})
    wanted: list[tuple[int, int | None]] = [(fewest, batch)]
    wanted += [(fewest, batch // 2)] if batch is not None and batch > 1 else []
    wanted += [(nodes, batch) for nodes in more]
    trials = []
    for nodes, per_rank in wanted * wish.repeats:
        arguments = request.arguments
        if per_rank is not None:
            arguments = with_batch(arguments, wish.batch_argument, per_rank)
        short = replace(request, nodes=nodes, arguments=arguments, walltime=request.walltime or WALLTIME, restarts=0)
        prepared = prepare_case(system, advised(with_run_dir(system, replace(case, request=short), runs_dir)))
        trials.append(ProfileRun(nodes=nodes, per_rank=per_rank, prepared=prepared))
    trials, remarks = possible_trials(trials, is_typed=bool(counts) or request.nodes is not None)
    if wish.batch_argument:
        remarks.append(
            "a step must cover the typed batch of each rank once; a program that adds up gradients over several, or "
            "divides a batch over all ranks, prints samples/s: --rate-from with samples_per_s"
        )
    remarks.append(f"a run is ended when {wish.steps} steps are measured, or after its walltime")
    return Design(case=case, trials=tuple(trials), remarks=tuple(remarks), flags=_flags_of(request, wish))


def _flags_of(request: Request, wish: ProgramWish) -> tuple[str, ...]:
    """Return what must be typed again to read the runs."""
    words = ["--rate-from", wish.rate_from] if wish.rate_from is not None else []
    words += ["--batch-argument", wish.batch_argument] if wish.batch_argument else []
    words += ["--", *request.arguments] if request.arguments else []
    return tuple(words)


def batch_in(arguments: Sequence[str], name: str) -> int:
    """Return the whole number that an argument has, typed as ``NAME N`` or ``NAME=N``. Raises InvalidRequest."""
    values = [word[len(name) + 1 :] for word in arguments if word.startswith(f"{name}=")]
    values += [arguments[place + 1] for place, word in enumerate(arguments[:-1]) if word == name]
    digits = values[0] if len(values) == 1 and name.isprintable() else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) > 0):
        what = f"{name} must be among the program's arguments once, with the samples of a rank and step"
        words = shlex.join(["--batch-argument", name, "--", name, "64"])
        hint = f"let the command end with the program's arguments, such as {words}"
        raise InvalidRequest(Fault(where="--batch-argument", what=what, allowed=f"{name} N or {name}=N", next=hint))
    return int(digits)


def with_batch(arguments: Sequence[str], name: str, batch: int) -> tuple[str, ...]:
    """Return the arguments with another value of the batch."""
    words = list(arguments)
    for place, word in enumerate(words):
        if word.startswith(f"{name}="):
            words[place] = f"{name}={batch}"
        elif word == name:
            words[place + 1] = str(batch)
    return tuple(words)


class Watcher:
    """Looks at what running programs print, and ends a run when enough steps are measured."""

    def __init__(self, system: System, wish: ProgramWish) -> None:
        self._system = system
        self._wish = wish
        self._ended: set[str] = set()

    def __call__(self, run: Run) -> str:
        """Return how many steps are measured; the run is cancelled if they are enough."""
        if run.final or run.state != "RUNNING":
            return ""
        rate = measured_rate(run, self._wish.formats, typed=self._wish.rate_from is not None)
        if not isinstance(rate, LogRate):
            return ""
        readings_left_out = max(1, rate.left_out)
        is_enough = rate.steps >= self._wish.steps and 3 * readings_left_out >= _ENOUGH_READINGS
        is_enough = is_enough and (not rate.may_be_another or rate.loop_s >= _LEAST_LOOP_S)
        if is_enough and run.id not in self._ended:
            self._ended.add(run.id)
            try:
                cancel([run])
            except HpclaunchError as error:
                self._system.warn(f"{run.label} is measured, but cannot be ended: {error}")
        return f", {count(rate.steps, 'step')} measured"


@record
class MeasuredProgram:
    """The rate of one run, and the point that it gives."""

    run: Run
    rate: LogRate
    point: Point


@record
class ProgramResult:
    """The measured runs of a program, the calibration from them, and its file."""

    runs: tuple[MeasuredProgram, ...]
    calibration: Calibration
    place: Any

    def speed_up(self, one: MeasuredProgram) -> float | None:
        """Return the rate of a run relative to that of the fewest nodes with the same batch of a rank.

        Of several runs there, their median counts. None if all runs have equally many nodes.
        """
        alike = [other.point for other in self.runs if other.point.per_rank == one.point.per_rank]
        fewest = min(point.nodes for point in alike)
        if all(point.nodes == fewest for point in alike):
            return None
        return one.point.samples_per_s / median(point.samples_per_s for point in alike if point.nodes == fewest)


def keep(case: Case, runs: Sequence[Run], wish: ProgramWish) -> ProgramResult:
    """Compute the calibration from the runs, and store it for later plans of the program.

    Raises Refused with every run that gave no speed, InvalidRequest without the batch; nothing is stored then.
    """
    if wish.batch_argument:
        batch_in(case.request.arguments, wish.batch_argument)  # the plan types them again
    faults: list[Fault] = []
    found: list[MeasuredProgram] = []
    for run in runs:
        one = _measure(case, run, wish)
        if isinstance(one, Fault):
            faults.append(one)
        else:
            found.append(one)
    kinds = {one.rate.kind for one in found}
    if len(kinds) > 1:
        what = f"the runs printed different figures: {', '.join(sorted(kinds))}"
        faults.append(Fault(what=what, next="--rate-from FORMAT takes one of them"))
    faults += _shorter_steps(found)
    if faults:
        raise Refused(faults)
    calibration = _calibration_of(case, found, wish)
    place = place_of_case(case)
    store(place, calibration)
    return ProgramResult(runs=tuple(found), calibration=calibration, place=place)


def _shorter_steps(found: Sequence[MeasuredProgram]) -> list[Fault]:
    """Return that steps of the same batch of a rank get shorter with more nodes: then it is not that of a rank."""
    for few in found:
        for more in found:
            is_same = few.point.per_rank == more.point.per_rank and few.rate.kind == more.rate.kind == "step_s"
            if not is_same or few.point.nodes >= more.point.nodes:
                continue
            if divides_a_batch((few.rate.low, few.rate.high), (more.rate.low, more.rate.high)):
                times = f"{few.rate.middle:.3g} s on {count(few.point.nodes, 'node')}"
                times += f" and {more.rate.middle:.3g} s on {more.point.nodes}"
                hint = "let it print samples/s of all ranks: --rate-from 'speed=(?P<samples_per_s>[0-9.]+)'"
                what = f"a step takes {times}: its steps seem to divide one batch over all ranks"
                return [Fault(where=more.run.label, what=what, next=hint)]
    return []


def _measure(case: Case, run: Run, wish: ProgramWish) -> MeasuredProgram | Fault:
    spec = run.spec()
    layout, command = spec.get("layout"), spec.get("command")
    if run.name != case.job.name or not isinstance(layout, dict) or not isinstance(command, list):
        what = f"is not a run of {case.job.name}"
        return Fault(where=run.label, what=what, next="choose another run: hpclaunch runs list")
    if run.state not in _MEASURED:
        what = f"is {run.state}, so its speed does not count"
        return Fault(where=run.label, what=what, next=f"hpclaunch logs {run.label}")
    rate = measured_rate(run, wish.formats, typed=wish.rate_from is not None)
    if not isinstance(rate, LogRate):
        return _silence(run, rate.why, wish)
    nodes, ranks_per_node = int(layout["nodes"]), int(layout["tasks_per_node"])
    batch = batch_in([str(word) for word in command], wish.batch_argument) if wish.batch_argument else None
    of_a_step = nodes * ranks_per_node * (batch or 1)
    middle, low, high = rate.middle, rate.low, rate.high
    if rate.kind == "step_s":
        middle, low, high = of_a_step / middle, of_a_step / high, of_a_step / low
    try:
        point = Point(
            nodes=nodes,
            ranks_per_node=ranks_per_node,
            per_rank=batch or 1,
            samples_per_s=middle,
            low=low,
            high=high,
            steps=rate.steps,
            runs=(run.id,),
        )
    except ValueError as error:
        return _silence(run, str(error), wish)
    return MeasuredProgram(run=run, rate=rate, point=point)


def _silence(run: Run, why: str, wish: ProgramWish) -> Fault:
    """Return why a run gave no speed, and what to type."""
    hints = [f"hpclaunch logs {run.label} shows its lines"]
    if why.startswith(METRICS.name):
        hint = "train longer: throughput writes a line for about 1 s of steps, and four lines are needed"
        return Fault(where=run.label, what=f"gave no speed: {why}", next=hint)
    if wish.rate_from is None:
        hints.append("--rate-from 'speed=(?P<samples_per_s>[0-9.]+)' reads one of them")
    hints.append("or call hpclaunch.training.throughput (hpclaunch docs any-program)")
    return Fault(where=run.label, what=f"gave no speed: {why}", next="; ".join(hints))


def _calibration_of(case: Case, found: Sequence[MeasuredProgram], wish: ProgramWish) -> Calibration:
    arguments = case.request.arguments
    kind = found[0].rate.kind
    unit: Unit = "tokens" if kind == "tokens_per_s" else "samples"
    if kind == "step_s" and not wish.batch_argument:
        unit = "steps"
    nodes = sorted({one.point.nodes for one in found})
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    noun = "node" if nodes == [1] else "nodes"
    return Calibration(
        points=tuple(one.point for one in found),
        unit=unit,
        own_batch=not wish.batch_argument,
        batch_argument=wish.batch_argument,
        arguments=tuple(word for word in arguments if word and word.isprintable()),
        origin=f"{count(len(found), 'run')} on {' and '.join(map(str, nodes))} {noun}, {when}",
    )
