"""The training speed of a model on one GPU, or on a rank's share of a CPU, without any measurement."""

from __future__ import annotations

from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.devices import CPU_GUESSED, GUESSED, Cpu, Gpu
from hpclaunch.guidelines.intervals import Interval, spread
from hpclaunch.guidelines.reasoning import Number, Origin, Reason, positive

Arithmetic = Literal["float32", "tf32", "mixed"]

FORWARD_AND_BACKWARD = 3.0
"""Operations of a training step relative to those of its forward pass."""
ACHIEVED = 0.97
SWEEPS = 12.3
"""How often the activations cross the GPU's memory in a step. This and the share of the peak are fitted to 20
published single-GPU throughputs (rms factor 1.24). A constant share of the peak alone is wrong by a factor of 3.4."""
CPU_ACHIEVED = 0.08
"""Share of its peak that a CPU reaches. CosmoFlow on Cori KNL and Fugaku (MLPerf HPC v0.7) reached 2 and 4 %, chips on
a POWER9 node 7 %, cifar on a core with AVX2 24 %: the range of a factor of 4 holds them."""
SOURCE = "vendors' dense peaks; fit of 20 published single-GPU throughputs"
DEFAULTS: dict[Arithmetic, str] = {
    "float32": "float32",
    "tf32": "TF32, TensorFlow's default for float32 on this GPU",
    "mixed": "16 bits, with weights in float32",
}
"""The arithmetic in words."""


@record
class Device:
    """What one rank computes on: dense peaks in TFLOP/s (0: none), memory bandwidth in GB/s.

    ``achieved``: the share of the peak that training reaches. ``derate`` corrects an estimate that is too fast,
    ``of_decoders`` that of decoders in 16 bits.
    ``spread``: relative half-width (80 %) of an estimate; ``source``: where the peaks are from, and from when.
    ``is_measured``: the peaks are those that a matrix product and a copy reached.
    """

    name: str
    float32: float
    tf32: float = 0.0
    mixed: float = 0.0
    memory_gbytes_per_s: float
    achieved: float = ACHIEVED
    derate: float = 1.0
    of_decoders: float = 1.0
    spread: float
    source: str
    is_measured: bool = False

    def peak(self, arithmetic: Arithmetic) -> float:
        """Return TFLOP/s of an arithmetic; those of float32 if the device has no unit for it."""
        return {"float32": self.float32, "tf32": self.tf32, "mixed": self.mixed}[arithmetic] or self.float32

    @property
    def is_guess(self) -> bool:
        """Whether no published throughput of it was compared with the estimate."""
        return self.spread >= GUESSED


def device_of_gpu(gpu: Gpu) -> Device:
    """Return a GPU as the device of a rank."""
    return Device(
        name=gpu.name,
        float32=gpu.float32,
        tf32=gpu.tf32,
        mixed=gpu.mixed,
        memory_gbytes_per_s=gpu.memory_gbytes_per_s,
        derate=gpu.derate,
        of_decoders=gpu.of_decoders,
        spread=gpu.spread,
        source=gpu.source,
    )


def device_of_cpu(cpu: Cpu, cores: int, sockets: int, ranks: int) -> Device:
    """Return the share that each of ``ranks`` has of a node with so many cores and sockets."""
    positive(cores=cores, sockets=sockets, ranks=ranks)
    return Device(
        name=cpu.name,
        float32=cores * cpu.gigahertz * cpu.per_cycle / 1e3 / ranks,
        memory_gbytes_per_s=sockets * cpu.socket_gbytes_per_s / ranks,
        achieved=CPU_ACHIEVED,
        spread=CPU_GUESSED,
        source=cpu.source,
    )


@record
class MeasuredDevice:
    """What ``doctor`` measured of each of so many ranks of a node. ``origin``: the probe and its date.

    TFLOP/s of a matrix product in each arithmetic (0: not measured), and the GB/s that a copy reads and writes.
    """

    ranks_per_node: int
    on_gpus: bool
    float32: float
    tf32: float = 0.0
    mixed: float = 0.0
    copy_gbytes_per_s: float
    origin: str


def device_as_measured(name: str, found: MeasuredDevice) -> Device:
    """Return a device of which no peak is known, with what was measured in the place of its peaks.

    A product reaches less than the peak, and training less than a product, so that the range is that of a guess.
    """
    return Device(
        name=name,
        float32=found.float32,
        tf32=found.tf32,
        mixed=found.mixed,
        memory_gbytes_per_s=found.copy_gbytes_per_s,
        achieved=ACHIEVED if found.on_gpus else CPU_ACHIEVED,
        spread=GUESSED if found.on_gpus else CPU_GUESSED,
        source=found.origin,
        is_measured=True,
    )


@record
class Compute:
    """Seconds of one sample on one device, forward and backward, and why."""

    sample_s: Interval
    reason: Reason


def unmeasured_compute(device: Device, arithmetic: Arithmetic, flops: float, saved_bytes: float) -> Compute:
    """Return seconds per sample: 3 x ``flops`` (forward, one sample) at the peak, plus ``saved_bytes`` through memory.

    The uncertainty is that of the device: +-50 % where published throughputs were compared (in leave-one-out tests, the
    worst of 20 models was wrong by a factor of 1.9), else a guess.
    Raises ValueError for no operations. Source: the fit named at ``SWEEPS``.
    """
    positive(flops=flops)
    operations = FORWARD_AND_BACKWARD * flops / (device.achieved * device.peak(arithmetic) * 1e12)
    traffic = SWEEPS * saved_bytes / (device.memory_gbytes_per_s * 1e9)
    seconds = (operations + traffic) / device.derate
    origin: Origin = "profile" if device.is_measured else "default"
    width = f"a guess within a factor of {1 + device.spread:g}" if device.is_guess else f"+-{device.spread:.0%}"
    return Compute(
        sample_s=spread(seconds, device.spread, "default"),
        reason=Reason(
            rule=f"3 x FLOPs / ({device.achieved:g} x peak) + {SWEEPS:g} x saved bytes / memory bandwidth",
            numbers=(
                Number(name="forward FLOPs", value=flops, unit="FLOP", origin="given"),
                Number(name="saved for backward", value=saved_bytes, unit="bytes", origin="given"),
                Number(name="peak", value=device.peak(arithmetic), unit="TFLOP/s", origin=origin),
                Number(name="memory bandwidth", value=device.memory_gbytes_per_s, unit="GB/s", origin=origin),
            ),
            verdict=f"{1 / seconds:.4g} samples/s on one {device.name} in {DEFAULTS[arithmetic]}, without its fixed"
            f" time; not measured: {width}",
            source=f"{SOURCE}; {device.source}",
        ),
    )
