"""Peaks of GPUs, and the training speed of a model on one GPU without any measurement; it queries no GPU."""

from __future__ import annotations

from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Interval, Number, Reason, positive, spread

Arithmetic = Literal["float32", "tf32", "mixed"]

FORWARD_AND_BACKWARD = 3.0
"""Operations of a training step relative to those of its forward pass."""
ACHIEVED = 0.97
SWEEPS = 12.3
"""How often the activations cross the GPU's memory in a step. This and the share of the peak are fitted to 20
published single-GPU throughputs (rms factor 1.24). A constant share of the peak alone is wrong by a factor of 3.4."""
UNMEASURED = 0.5
"""Relative half-width of a prediction from defaults alone."""
SOURCE = "vendors' dense peaks; fit of 20 published single-GPU throughputs"


@record
class Gpu:
    """Dense peaks in TFLOP/s (0: none), memory bandwidth in GB/s; ``derate`` corrects a fit that is too fast."""

    name: str
    float32: float
    tf32: float
    mixed: float
    memory_gbytes_per_s: float
    derate: float = 1.0

    def peak(self, arithmetic: Arithmetic) -> float:
        """Return TFLOP/s of an arithmetic; those of float32 if the GPU has no unit for it."""
        return {"float32": self.float32, "tf32": self.tf32, "mixed": self.mixed}[arithmetic] or self.float32


GPUS = (
    Gpu(name="K80", float32=2.8, tf32=0, mixed=0, memory_gbytes_per_s=240),
    Gpu(name="P100", float32=10.6, tf32=0, mixed=21.2, memory_gbytes_per_s=732),
    Gpu(name="V100", float32=15.7, tf32=0, mixed=125, memory_gbytes_per_s=900),
    Gpu(name="A100", float32=19.5, tf32=156, mixed=312, memory_gbytes_per_s=1555),
    Gpu(name="A100 80", float32=19.5, tf32=156, mixed=312, memory_gbytes_per_s=2039),
    Gpu(name="H100", float32=67, tf32=495, mixed=989, memory_gbytes_per_s=3350, derate=0.7),
    Gpu(name="H200", float32=67, tf32=495, mixed=989, memory_gbytes_per_s=4800, derate=0.7),
    Gpu(name="MI250X", float32=23.9, tf32=0, mixed=191.5, memory_gbytes_per_s=1600),
)
"""SXM versions; an MI250X entry is one of its two dies. The derate of H100 and H200 is from MPT-1B (40 % too fast)."""
LARGE_A100_GB = 80
_OTHER_H100 = {"PCIe", "GH200", "HBM2"}
"""Words that mark variants of a GPU with another clock or memory, whose peaks are not in the table."""


def gpu_named(model: str | None, memory_gb: float | None = None) -> Gpu | None:
    """Return the GPU whose name is part of the site's description ("NVIDIA A100 (SXM4)"), or None.

    ``memory_gb`` identifies the A100 with 80 GB. A GH200 does not count as an H100, since it has not been measured.
    """
    words = (model or "").replace("-", " ").replace("(", " ").replace(")", " ").split()
    named = next((gpu for gpu in GPUS if gpu.name in words), None)
    if named is not None and named.name == "H100" and _OTHER_H100 & set(words):
        return None
    if named is not None and named.name == "A100" and (memory_gb or 0) >= LARGE_A100_GB:
        return next(gpu for gpu in GPUS if gpu.name == "A100 80")
    return named


@record
class Compute:
    """Seconds of one sample on one GPU, forward and backward, and why."""

    sample_s: Interval
    reason: Reason


def unmeasured_compute(gpu: Gpu, arithmetic: Arithmetic, flops: float, saved_bytes: float) -> Compute:
    """Return seconds per sample: 3 x ``flops`` (forward, one sample) at the peak, plus ``saved_bytes`` through memory.

    The uncertainty is +-50 %: in leave-one-out tests, the worst of 20 models was wrong by a factor of 1.9.
    Raises ValueError for no operations. Source: the fit named at ``SWEEPS``.
    """
    positive(flops=flops)
    operations = FORWARD_AND_BACKWARD * flops / (ACHIEVED * gpu.peak(arithmetic) * 1e12)
    traffic = SWEEPS * saved_bytes / (gpu.memory_gbytes_per_s * 1e9)
    seconds = (operations + traffic) / gpu.derate
    return Compute(
        sample_s=spread(seconds, UNMEASURED, "default"),
        reason=Reason(
            rule="3 x FLOPs / (0.97 x peak) + 12.3 x saved bytes / memory bandwidth",
            numbers=(
                Number(name="forward FLOPs", value=flops, unit="FLOP", origin="given"),
                Number(name="saved for backward", value=saved_bytes, unit="bytes", origin="given"),
                Number(name="peak", value=gpu.peak(arithmetic), unit="TFLOP/s", origin="default"),
                Number(name="memory bandwidth", value=gpu.memory_gbytes_per_s, unit="GB/s", origin="default"),
            ),
            verdict=f"{1 / seconds:.4g} samples/s on one {gpu.name}, not measured: +-{UNMEASURED:.0%}",
            source=SOURCE,
        ),
    )
