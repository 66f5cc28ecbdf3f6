"""Priors for what no batch size moves: a step's fixed time, input, start-up, staging, evaluation, checkpoints.

Each holds within a factor of 2 (80 %), unless it says otherwise. A measured run replaces them all.
"""

from __future__ import annotations

import math

from hpclaunch.core.records import record
from hpclaunch.guidelines.intervals import Interval, added, scaled, spread
from hpclaunch.guidelines.memory import GRADIENT_BYTES
from hpclaunch.guidelines.reasoning import Number, Reason, positive

KERAS_S, OPERATION_S = 1e-3, 10e-6
"""Seconds of a step: Keras's own, and those of every operation of the training graph. With Horovod's 3 ms if ranks > 1,
they fit the published step times of notebooks 3 and 4 within 0.8 to 1.8."""
FACTOR = 1.0
"""Relative half-width of every prior here: a factor of 2."""
OPERATIONS_OF_A_LAYER, SOME_OPERATIONS = 27, 1000
"""Operations of a training graph for every layer (18 to 28 for the bundled models, cifar 961 for 35 layers); and of a
model of which not even the layers are known."""
WIDER = 3.0
"""Relative half-width of the fixed time if the operations were not counted: a factor of 4."""
DECODED_BYTES_PER_S = 60e6
"""Bytes of stored samples that one core decodes in a second. Chosen in sight of CosmoFlow on Cori GPU and Perlmutter
(MLPerf HPC), whose input took 36 to 90 MB/s of every core."""
KEPT_BYTES_PER_S = 1e9
"""The same for samples that are kept in memory (docs/measurements.md, the input pipeline alone)."""
READ_BYTES_PER_S = 2e9
"""Bytes that a node reads in a second from a parallel file system; hpclaunch's own number."""
CORES = 32
"""Cores of a node whose site file does not give them."""
START_S, START_OF_DOUBLING_S = 20.0, 2.0
"""Start-up of a run: importing TensorFlow, starting the ranks and tracing the first step; and what every doubling of
the nodes adds. The first epochs of notebooks 3 and 4 take 4 to 23 s; the rest is hpclaunch's own number."""
EVALUATED = 0.15
"""Samples evaluated after every epoch, relative to those trained on (CIFAR-10 0.2, MNIST 0.17, CosmoFlow 0.25)."""
FORWARD = 1 / 3
"""Time of an evaluated sample relative to that of a trained one."""
SAVE_S, SAVED_BYTES_PER_S = 0.1, 1e9
"""A checkpoint of one rank, after every epoch: seconds, and bytes in a second; hpclaunch's own numbers."""
SOURCE = "priors within a factor of 2; the figures that they were chosen in sight of: hpclaunch docs planning-details"


@record
class FixedTime:
    """Seconds of a micro-batch that do not depend on its samples, with their relative half-width and why."""

    seconds: float
    width: float
    reason: Reason


def fixed_time(operations: int | None, layers: int = 0) -> FixedTime:
    """Return the fixed seconds of a micro-batch: 1 ms + 10 us x operations of the training graph.

    If the operations were not counted, they are estimated from the number of ``layers`` (0: not known), and the range
    is a factor of 4. Source: hpclaunch's own fit to the published step times of notebooks 3 and 4 (``KERAS_S``).
    """
    counted = operations is not None
    if operations is not None:
        number, how = operations, "counted"
    elif layers:
        number, how = OPERATIONS_OF_A_LAYER * layers, "estimated from its layers"
    else:
        number, how = SOME_OPERATIONS, "not known"
    positive(operations=number)
    seconds = KERAS_S + OPERATION_S * number
    return FixedTime(
        seconds=seconds,
        width=FACTOR if counted else WIDER,
        reason=Reason(
            rule="fixed time of a step = 1 ms + 10 us x operations of the training graph, + 3 ms if ranks > 1",
            numbers=(
                Number(name="operations", value=number, origin="given" if counted else "default"),
                Number(name="fixed time", value=seconds, unit="s", origin="default"),
            ),
            verdict=f"{seconds * 1e3:.3g} ms, within a factor of {2 if counted else 4} (operations {how})",
            source="published step times of two notebooks (mnist and cifar on V100)",
        ),
    )


def reading_rate(cores: int | None, *, kept: bool, fits: bool, gbytes_per_s: float = math.inf) -> float:
    """Return the bytes/s of samples that a node reads and decodes.

    ``kept``: the ranks keep their samples in memory. ``fits``: the node's share of the data set fits its memory, so
    that only the first epoch reads from the file system. ``gbytes_per_s``: the node's network, which no read exceeds.
    """
    decoded = (cores or CORES) * (KEPT_BYTES_PER_S if kept else DECODED_BYTES_PER_S)
    return decoded if fits else min(decoded, READ_BYTES_PER_S, gbytes_per_s * 1e9)


@record
class Overhead:
    """Seconds of a run outside its steps: once (start-up, staging), and in every epoch (evaluation, checkpoint)."""

    once_s: Interval
    epoch_s: Interval
    reason: Reason | None = None

    def total(self, epochs: float) -> Interval:
        """Return the seconds of the whole run."""
        return added(self.once_s, scaled(self.epoch_s, epochs))


NO_OVERHEAD = Overhead(once_s=spread(0.0, 0.0), epoch_s=spread(0.0, 0.0))


def measured_overhead(seconds: float) -> Overhead:
    """Return the overhead of a job whose runs were measured: all of it counts once, within 25 %."""
    return Overhead(once_s=spread(seconds, 0.25, "profile"), epoch_s=spread(0.0, 0.0, "profile"))


@record
class Staged:
    """What a run loads and saves: bytes of the data set (None: not known), parameters, and states of the optimizer."""

    dataset_bytes: float | None
    parameters: float
    slots: int = 2


def expected_overhead(nodes: int, staged: Staged, *, kept: bool, epoch_s: float) -> Overhead:
    """Return the overhead of a run of a job that was never measured; ``epoch_s``: seconds of training in an epoch.

    Start-up takes 20 s, and 2 s more for every doubling of the nodes. Samples that the ranks keep in memory are read
    once, by all nodes together. Source: ``SOURCE``.
    """
    positive(nodes=nodes)
    start = START_S + START_OF_DOUBLING_S * math.log2(nodes)
    staging = (staged.dataset_bytes or 0.0) / (nodes * READ_BYTES_PER_S) if kept else 0.0
    evaluation = EVALUATED * FORWARD * epoch_s
    saving = SAVE_S + GRADIENT_BYTES * staged.parameters * (1 + staged.slots) / SAVED_BYTES_PER_S
    return Overhead(
        once_s=added(spread(start, FACTOR, "default"), spread(staging, FACTOR, "default")),
        epoch_s=added(spread(evaluation, FACTOR, "default"), spread(saving, FACTOR, "default")),
        reason=Reason(
            rule="overhead = start-up + staging + epochs x (evaluation + checkpoint)",
            numbers=tuple(
                Number(name=name, value=value, unit="s", origin="default")
                for name, value in (
                    ("start-up", start),
                    ("staging", staging),
                    ("evaluation of an epoch", evaluation),
                    ("checkpoint of an epoch", saving),
                )
            ),
            verdict=f"{start + staging:.3g} s once, {evaluation + saving:.3g} s in every epoch, within a factor of 2",
            source=SOURCE,
        ),
    )
