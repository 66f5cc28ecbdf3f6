"""What a job's batch means for its epochs: critical batch size, bound and epochs, from job, tables and measurements.

It is imported by every ``submit``: it must not need the forecast or the throughput model.
"""

from __future__ import annotations

import math

from hpclaunch.guidelines.batch import bound_of
from hpclaunch.guidelines.efficiency import NOISE_SPREAD, TASK_SPREAD, CriticalBatch, NoiseScale
from hpclaunch.guidelines.epochs import EPOCHS_SPREAD, EpochsModel, fixed_epochs, presumed_critical_batch
from hpclaunch.guidelines.intervals import Interval, widened
from hpclaunch.guidelines.optimizers import OptimizerAdvice, choose_optimizer
from hpclaunch.guidelines.published import TaskFacts, published_for
from hpclaunch.planner.workload import Workload


def critical_batch_of(work: Workload, noise: NoiseScale | None) -> CriticalBatch:
    """Return the critical batch size: the job's own, else a trustworthy measured noise scale, else that of its task."""
    if work.critical_batch and work.critical_origin == "given":
        return CriticalBatch(samples=work.critical_batch)
    if noise is not None and noise.trustworthy:
        return CriticalBatch(samples=noise.value, origin="profile", spread=NOISE_SPREAD)
    if work.critical_batch:
        return CriticalBatch(samples=work.critical_batch, origin="default", spread=TASK_SPREAD)
    return CriticalBatch()


def facts_of(work: Workload, critical: CriticalBatch, noise: NoiseScale | None) -> TaskFacts:
    """Return what is known of the job's task."""
    measured = noise.value if noise is not None else None
    return TaskFacts(name=work.task, bound=bound_of(work.samples, noise), critical=critical, noise=measured)


def optimizer_of(work: Workload, batch: int, facts: TaskFacts) -> OptimizerAdvice:
    """Return the optimizer at a global batch size (samples)."""
    name = "sgd" if work.optimizer == "momentum" else work.optimizer
    typed = "optimizer" in work.typed
    return choose_optimizer(name, batch, facts=facts, typed=typed, offered=work.optimizers)


def epochs_model_of(work: Workload, batch: int, facts: TaskFacts) -> EpochsModel:
    """Return the epochs with the optimizer that suits a global batch size (samples). Typed epochs are kept."""
    if work.epochs is None or work.base_batch is None or "epochs" in work.typed:
        return fixed_epochs(work.epochs or 1.0)
    row, critical = published_for(work.task, optimizer_of(work, batch, facts).name), facts.critical
    if critical.samples is None:
        critical = presumed_critical_batch(work.samples)
    elif row is not None and row.critical_batch and critical.origin == "default":
        critical = CriticalBatch(samples=row.critical_batch, origin="default", spread=TASK_SPREAD)
    flat = max(work.base_batch, row.batch if row is not None and row.same_epochs else 0)
    return EpochsModel(epochs=work.epochs, flat=flat, critical=critical, row=row)


def epochs_to_target(work: Workload, batch: int, facts: TaskFacts) -> Interval:
    """Return the epochs that a global batch size (samples) needs to the target, as they vary from run to run.

    A run makes exactly the epochs that are typed.
    """
    found = epochs_model_of(work, batch, facts).at(batch)
    return found if "epochs" in work.typed else widened(found, EPOCHS_SPREAD)


def epochs_of_run(epochs: float) -> int:
    """Return the epochs that a run makes whose target needs this many."""
    return max(1, math.ceil(round(epochs, 6)))


def epochs_remark(work: Workload, critical: CriticalBatch) -> str:
    """Return one line on what is assumed of the epochs; empty if nothing is."""
    if work.epochs is None:
        return "the job has no parameter for epochs: times are those of one epoch"
    if "epochs" in work.typed:
        return "epochs: as typed, for every batch"
    if work.base_batch is None:
        return "base_batch: not known; epochs do not grow with the batch"
    if critical.samples is None:
        presumed = presumed_critical_batch(work.samples)
        assert presumed.samples is not None
        low, high = presumed.samples / presumed.spread, presumed.samples * presumed.spread
        return f"B_crit: not known; taken as {low:.0f} to {high:.0f} samples, as for known tasks of this size"
    return ""
