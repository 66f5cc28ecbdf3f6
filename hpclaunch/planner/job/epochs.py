"""What a job's batch means for its epochs: critical batch size, bound and epochs, from job, tables and measurements.

It is imported by every ``submit``: it must not need the forecast or the throughput model.
"""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.batch import KnownBatches, bound_of
from hpclaunch.guidelines.efficiency import NOISE_SPREAD, TASK_SPREAD, CriticalBatch, NoiseScale
from hpclaunch.guidelines.epochs import EPOCHS_SPREAD, EpochsModel, fixed_epochs, presumed_critical_batch
from hpclaunch.guidelines.intervals import Interval, widened
from hpclaunch.guidelines.optimizers import OptimizerAdvice, choose_optimizer
from hpclaunch.guidelines.published import TaskFacts, published_for
from hpclaunch.planner.job.workload import Workload


def critical_batch_of(work: Workload, noise: NoiseScale | None) -> CriticalBatch:
    """Return the critical batch size: the job's own, else a trustworthy measured noise scale, else that of its task."""
    if work.critical_batch and work.critical_origin == "given":
        return CriticalBatch(samples=work.critical_batch)
    if noise is not None and noise.trustworthy:
        return CriticalBatch(samples=noise.value, origin="profile", spread=NOISE_SPREAD)
    if work.critical_batch:
        return CriticalBatch(samples=work.critical_batch, origin="default", spread=TASK_SPREAD)
    return CriticalBatch()


def known_batches(work: Workload, noise: NoiseScale | None) -> KnownBatches:
    """Return what is known of the batches of a job with its optimizer."""
    row = published_for(work.task, work.optimizer)
    return KnownBatches(
        tuned=work.base_batch or 0,
        published=row if row is not None and row.same_epochs else None,
        noise=noise,
        critical=critical_batch_of(work, noise),
    )


def facts_of(work: Workload, noise: NoiseScale | None) -> TaskFacts:
    """Return what is known of the job's task."""
    known = known_batches(work, noise)
    bound, measured = bound_of(work.samples, known).batch, noise.value if noise is not None else None
    return TaskFacts(name=work.task, bound=bound, critical=known.critical, noise=measured)


def optimizer_of(work: Workload, batch: int, facts: TaskFacts) -> OptimizerAdvice:
    """Return the optimizer at a global batch size (samples)."""
    name = "sgd" if work.optimizer == "momentum" else work.optimizer
    typed = "optimizer" in work.typed
    return choose_optimizer(name, batch, facts=facts, typed=typed, offered=work.optimizers)


def epochs_model_of(work: Workload, batch: int, facts: TaskFacts) -> EpochsModel:
    """Return the epochs with the optimizer that suits a global batch size (samples). Typed epochs are kept."""
    if work.epochs is None or work.base_batch is None or not work.typed.isdisjoint(("epochs", "steps")):
        return fixed_epochs(work.epochs or 1.0)
    row, critical = published_for(work.task, optimizer_of(work, batch, facts).name), facts.critical
    if critical.samples is None:
        critical = presumed_critical_batch(work.samples)
    elif row is not None and row.critical_batch and critical.origin == "default":
        critical = CriticalBatch(samples=row.critical_batch, origin="default", spread=TASK_SPREAD)
    flat = max(work.base_batch, row.batch if row is not None and row.same_epochs else 0)
    return EpochsModel(epochs=work.epochs, flat=flat, critical=critical, row=row)


@record
class RunEpochs:
    """The epochs that a run makes with its batch: they are printed, priced, set and recorded.

    ``made``: a whole number, or a fraction where the job counts ``steps`` (None: it does not). ``needed``: those to the
    target, as they vary from run to run; None: nothing is said of them.
    """

    made: float
    steps: int | None = None
    needed: Interval | None = None

    @property
    def interval(self) -> Interval:
        """The epochs that are made, as an interval without width."""
        return Interval(low=self.made, middle=self.made, high=self.made, origin="given")


def run_epochs(work: Workload, batch: int, facts: TaskFacts) -> RunEpochs:
    """Return the epochs of a run with a global batch size (samples).

    They are the typed ones or the job's own, unless the law of large batches says how many more the target needs, and
    the critical batch size is known well enough (``KNOWN_SPREAD``). Then they are whole, or steps where the job has a
    parameter for these.
    """
    own = work.epochs or 1.0
    if work.steps:
        return RunEpochs(made=work.steps * batch / work.samples, steps=work.steps)
    model = epochs_model_of(work, batch, facts)
    if math.isinf(model.flat):
        return RunEpochs(made=own)
    needed = widened(model.at(batch), EPOCHS_SPREAD)
    wanted = needed.middle if model.decides(batch) else own
    if "steps" in work.names and (wanted > own or "epochs" not in work.names):
        steps = math.ceil(round(wanted * work.samples / batch, 6))
        return RunEpochs(made=steps * batch / work.samples, steps=steps, needed=needed)
    return RunEpochs(made=_whole_epochs(wanted) if wanted > own else own, needed=needed)


def _whole_epochs(needed: float) -> int:
    """Return the whole epochs of a run whose target needs this many: fewer only by what differs from run to run."""
    nearest = max(1, round(needed))
    return nearest if needed <= nearest * (1 + EPOCHS_SPREAD) else math.ceil(needed)


def epochs_remark(work: Workload, batch: int, facts: TaskFacts) -> str:
    """Return one line on what is assumed of the epochs with a global batch size (samples); empty if nothing is."""
    if work.epochs is None:
        return "the job has no parameter for epochs: times are those of one epoch"
    if not work.typed.isdisjoint(("epochs", "steps")):
        return "epochs: as typed, for every batch"
    if work.base_batch is None:
        return "base_batch: not known; epochs do not grow with the batch"
    model = epochs_model_of(work, batch, facts)
    if batch <= model.flat:
        return ""
    found = run_epochs(work, batch, facts)
    assert found.needed is not None and model.critical.samples is not None
    low, high = model.critical.samples / model.critical.spread, model.critical.samples * model.critical.spread
    known = f"{low:.0f} to {high:.0f}" if low < high else f"{model.critical.samples:.0f}"
    may_need = f"{found.needed.low:.3g} to {found.needed.high:.3g}"
    if model.decides(batch):
        return f"epochs: {found.made:.3g}; with B = {batch} the target needs {may_need} (B_crit: {known} samples)"
    return (
        f"epochs: the job's own {found.made:.3g}; with B = {batch} the target may need {may_need}, because B_crit is"
        f" not known, and {known} samples for known tasks of this size"
    )
