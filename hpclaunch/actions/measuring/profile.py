"""``profile``: measures a job in short runs through the scheduler, and stores the result for later plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.actions.measuring.short_runs import (
    EPOCHS,
    STEPS,
    keyed_case,
    layout_of_one_node,
    leave_out_export,
    shorten,
    shortenable,
    wait_for_ends,
)
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import with_run_dir
from hpclaunch.actions.preparing.preflight import check
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.system import System
from hpclaunch.config.job import AS_WRITTEN
from hpclaunch.core.errors import Fault, HpclaunchError, Interrupted, Refused
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import Request
from hpclaunch.core.units import count
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.choice.proposal import profile_command
from hpclaunch.planner.measured.calibration_file import Calibration, store
from hpclaunch.planner.measured.calibrations import place_of
from hpclaunch.planner.measured.measurement import MeasuredRun, calibration_of, measured
from hpclaunch.resolve.case import Case
from hpclaunch.runs import Run

NODES = 2


@record
class ProfileRun:
    """One short run: its nodes, its batch size per rank (None: its program's own), and the prepared submission."""

    nodes: int
    per_rank: int | None
    prepared: Prepared

    @property
    def words(self) -> str:
        """A description of the run."""
        nodes = count(self.nodes, "node")
        return nodes if self.per_rank is None else f"{nodes}, {count(self.per_rank, 'sample')} per rank"


@record
class Design:
    """The runs that measure a case, and remarks about what cannot be measured.

    ``flags``: the words that must be typed again to read the runs later.
    """

    case: Case
    trials: tuple[ProfileRun, ...]
    remarks: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def cost(self) -> tuple[float, str] | None:
        """Return the upper limit of the cost of all runs and its unit; None if unknown."""
        costs = [trial.prepared.spec.cost for trial in self.trials]
        known = [cost for cost in costs if cost is not None]
        return (sum(cost.amount for cost in known), known[0].unit) if known and len(known) == len(costs) else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        rows = [
            {"nodes": trial.nodes, "per_rank": trial.per_rank, "spec": trial.prepared.spec.to_json()}
            for trial in self.trials
        ]
        cost = self.cost()
        most = {"amount": cost[0], "unit": cost[1]} if cost else None
        place = str(place_of_case(self.case))
        return {"runs": rows, "cost_at_most": most, "place": place, "remarks": list(self.remarks)}


def design(system: System, request: Request, steps: int = STEPS, runs_dir: str | None = None) -> Design:
    """Return the runs: on one node with the job's batch size and with half of it, then on ``request.nodes`` (2).

    ``steps``: the most steps in an epoch. Raises Refused if hpclaunch does not know how to shorten the job, or if no
    run is possible.
    """
    request = replace(request, recipe=AS_WRITTEN)  # only the speed is measured, at the batches that are named here
    case = keyed_case(system, request, runs_dir)
    work = shortenable(case.job, request)
    assert work.per_rank is not None
    more = request.nodes or NODES
    wanted = [(1, per_rank) for per_rank in dict.fromkeys([work.per_rank, max(1, work.per_rank // 2)])]
    wanted += [(more, work.per_rank)] if more > 1 else []
    ranks = layout_of_one_node(case).tasks_per_node
    trials = []
    for nodes, per_rank in wanted:
        shape = Shape(nodes=nodes, ranks_per_node=ranks, per_rank=per_rank, accumulation=work.accumulation)
        short = replace(case, request=leave_out_export(case.job, shorten(request, work, shape, steps)))
        prepared = prepare_case(system, advised(with_run_dir(system, short, runs_dir)))
        trials.append(ProfileRun(nodes=nodes, per_rank=per_rank, prepared=prepared))
    trials, remarks = possible_trials(trials, is_typed=request.nodes is not None)
    return Design(case=case, trials=tuple(trials), remarks=tuple(remarks))


def possible_trials(trials: list[ProfileRun], *, is_typed: bool) -> tuple[list[ProfileRun], list[str]]:
    """Return the runs without the last one if only that is impossible and nobody typed its nodes; and remarks.

    ``is_typed``: a person typed its nodes. Raises Refused if another run is impossible.
    """
    remarks = []
    last = trials[-1]
    if not is_typed and last.prepared.faults and not trials[0].prepared.faults:
        remarks.append(f"{last.nodes} nodes cannot be measured: {last.prepared.faults[0].what}")
        trials = trials[:-1]
    faults = dict.fromkeys(fault for trial in trials for fault in trial.prepared.faults)
    if faults:
        raise Refused(list(faults))
    return trials, remarks


def place_of_case(case: Case) -> Path:
    """Return the file in which later plans of a case find what was measured."""
    return place_of(case.context.environment, case.calibration_key)


def measure(system: System, found: Design, one_by_one: bool, words_of: Callable[[Run], str] | None = None) -> list[Run]:
    """Submit all runs and wait until they have ended; with ``one_by_one`` submit each after the one before.

    ``words_of`` looks at a run whenever its state was asked, and says what it has done (None: its epochs).
    Without a queue the runs always run one by one. Raises HpclaunchError; Interrupted if a person interrupts the wait,
    while the submitted runs continue.
    """
    for trial in found.trials:
        check(trial.prepared)
    separately = one_by_one or not all(scheduler_row(trial.prepared.spec.scheduler).has_queue for trial in found.trials)
    groups = [[trial] for trial in found.trials] if separately else [list(found.trials)]
    runs: list[Run] = []
    try:
        for group in groups:
            submitted = []
            for trial in group:
                run = start(system, trial.prepared)
                runs.append(run)
                submitted.append(run)
                system.tell(f"submitted {run.label} as job {run.job_id}: {trial.words}")
            ended = wait_for_ends(system, submitted, words_of or _epochs_of)
            runs = [next((now for now in ended if now.path == run.path), run) for run in runs]
    except KeyboardInterrupt:
        raise _interruption(found, runs) from None
    except HpclaunchError as error:
        if runs:
            system.warn(f"these runs continue: {_names(runs)}")
        raise error
    return runs


def _epochs_of(run: Run) -> str:
    epochs = sum(event.get("event") == "epoch" for event in run.metrics())
    return f", epoch {epochs} of {EPOCHS}" if epochs else ""


def _names(runs: Sequence[Run]) -> str:
    return " ".join(run.label for run in runs)


def _interruption(found: Design, runs: Sequence[Run]) -> Interrupted:
    case = found.case
    what = f"interrupted; {count(len(runs), 'submitted run')} of {case.job.name} will continue"
    words = [word for run in runs for word in ("--from", run.label)]
    command = profile_command(case.request, *words, *found.flags)
    next_step = f"when they have ended: {command}; or hpclaunch cancel {_names(runs)}"
    return Interrupted(Fault(what=what, next=next_step if runs else "hpclaunch status"))


@record
class Result:
    """The measured runs, the calibration from them, and its file."""

    runs: tuple[MeasuredRun, ...]
    calibration: Calibration
    place: Path


def keep(case: Case, runs: Sequence[Run]) -> Result:
    """Compute the calibration from the runs and store it for later plans of the case.

    Raises Refused, naming every run that measured nothing. Nothing is stored then: a plan from half of the runs would
    look as certain as one from all.
    """
    found = [measured(run, case.job) for run in runs]
    calibration, place = calibration_of(found), place_of_case(case)
    store(place, calibration)
    return Result(runs=tuple(found), calibration=calibration, place=place)
