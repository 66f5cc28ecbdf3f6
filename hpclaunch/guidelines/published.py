"""The largest batches that were published for an optimizer and a task, or measured by this project; it fits nothing."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.guidelines.efficiency import NOT_KNOWN, CriticalBatch

MLPERF_HPC = "run logs of MLPerf HPC"


@record
class Published:
    """The largest global batch size (samples) at which an optimizer trained a task to its target.

    ``same_epochs``: up to this batch, the epochs are those of a small batch; otherwise they follow the law
    E_min (1 + B / B_crit). ``critical_batch``: B_crit with this optimizer, if it differs from that of the task.
    """

    task: str
    optimizer: str
    batch: int
    same_epochs: bool
    source: str
    critical_batch: float | None = None


PUBLISHED = (
    Published(
        task="imagenet",
        optimizer="sgd",
        batch=8192,
        same_epochs=True,
        source="Goyal et al. 2017, arXiv 1706.02677: ResNet-50 in 90 epochs at every batch size from 256 to 8192",
    ),
    Published(
        task="imagenet",
        optimizer="lars",
        batch=65_536,
        same_epochs=True,
        critical_batch=43_500,
        source="run logs of MLPerf Training v0.7 to v1.0: ResNet-50 at 1,632 to 65,536 samples on 19 systems, in"
        " 34.4 (1 + B / 43,500) epochs: 60 at 32,768 and 86 at 65,536",
    ),
    Published(
        task="cifar-10",
        optimizer="adam",
        batch=4096,
        same_epochs=True,
        source="this project (hpclaunch docs measurements, row recommended): 82.8 % in the 12 epochs of one rank",
    ),
    Published(
        task="cifar-10",
        optimizer="lamb",
        batch=4096,
        same_epochs=True,
        source="Distributed Deep Learning bootcamp, notebook 4: 81 % in the 12 epochs of one rank; 80.3 % measured by"
        " this project",
    ),
    Published(
        task="cosmoflow",
        optimizer="sgd",
        batch=1024,
        same_epochs=False,
        source=f"{MLPERF_HPC} v0.7: 64 to 1024 samples in 43.0 (1 + B / 384) epochs; a linear rate up to 0.016, and at"
        " every batch size the same warm-up and decay",
    ),
    Published(
        task="deepcam",
        optimizer="lamb",
        batch=2048,
        same_epochs=False,
        source=f"{MLPERF_HPC} v0.7 to v2.0: 128 to 2048 samples in 7.7 (1 + B / 1098) epochs",
    ),
    Published(
        task="oc20",
        optimizer="adamw",
        batch=2048,
        same_epochs=False,
        source=f"{MLPERF_HPC} v1.0 to v2.0: 256 to 2048 samples in 16.7 (1 + B / 2060) epochs",
    ),
)


@record
class TaskFacts:
    """What is known of a task: its ``name`` (None: not in the tables), ``bound`` and ``critical`` batch.

    ``bound``: the largest global batch size of an automatic choice, in samples: sqrt(N) or a measured noise scale.
    ``noise``: any measured noise scale in samples, also one that is not certain enough for a bound.
    """

    name: str | None = None
    bound: int = 0
    critical: CriticalBatch = NOT_KNOWN
    noise: float | None = None


def published_for(task: str | None, optimizer: str) -> Published | None:
    """Return the row of a task and an optimizer ("momentum" is SGD's), or None."""
    name = "sgd" if optimizer.lower() == "momentum" else optimizer.lower()
    return next((row for row in PUBLISHED if (row.task, row.optimizer) == (task, name)), None)
