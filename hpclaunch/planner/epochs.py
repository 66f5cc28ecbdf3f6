"""A job's critical batch size, and the epochs that its training needs by global batch size."""

from __future__ import annotations

import math

from hpclaunch.guidelines.efficiency import CriticalBatch, NoiseScale, Pareto, pareto_from
from hpclaunch.planner.workload import Workload


def critical_batch_of(work: Workload, noise: NoiseScale | None) -> CriticalBatch:
    """Return the critical batch size: the job's, else a trustworthy measured noise scale."""
    measured = noise.value if noise and noise.trustworthy else None
    return CriticalBatch(samples=work.critical_batch or measured, origin=work.epochs_origin)


def epochs_model_of(work: Workload, critical: float | None) -> tuple[Pareto, str]:
    """Return the epochs by batch size, and a remark if B_crit is not known: then epochs do not depend on the batch."""
    epochs = work.epochs or 1.0
    if work.epochs is None:
        return _constant_epochs(1.0), "the job has no parameter for epochs: times are those of one epoch"
    if "epochs" in work.typed:
        return _constant_epochs(epochs), "epochs: as typed, for every batch"
    if critical is None:
        return _constant_epochs(epochs), "B_crit: not known; epochs do not grow with the batch"
    if work.base_batch is None:
        return _constant_epochs(epochs), "base_batch: not known; epochs do not grow with the batch"
    return pareto_from(epochs, work.base_batch, critical), ""


def _constant_epochs(epochs: float) -> Pareto:
    return Pareto(fewest_epochs=epochs, critical_batch=math.inf)
