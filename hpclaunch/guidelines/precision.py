"""Which number format a model's arithmetic should use on a GPU or CPU; a typed format is never overruled."""

from __future__ import annotations

import re
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Reason

NumberFormat = Literal["float32", "float16", "bfloat16"]

HALVES = ("float16", "bfloat16")
"""Formats of 16 bits. Any other one, such as TF32, rounds within a product and keeps its numbers in float32."""
GUIDE = "tensorflow.org/guide/mixed_precision"
SOURCE = (
    f"{GUIDE}; vendors' dense peaks; on a CPU without units for it bfloat16 was 9 times slower"
    " (hpclaunch docs measurements)"
)
BFLOAT16_GPUS = frozenset(
    {
        *(
            "A100",
            "A40",
            "A30",
            "A10",
            "H100",
            "H200",
            "GH200",
            "Hopper",
            "B200",
            "GB200",
            "GB300",
            "L40",
            "L40S",
            "L4",
        ),
        *("MI100", "MI210", "MI250", "MI250X", "MI300A", "MI300X", "MI325X", "1550", "Gaudi", "Gaudi2", "Gaudi3"),
    }
)
"""Words in a GPU's name: NVIDIA's from Ampere on, AMD's from CDNA on, and Intel's have matrix units for bfloat16."""
FLOAT16_GPUS = frozenset({"V100", "T4", "RTX"})
"""Volta and Turing: tensor cores for float16 only. A Quadro RTX 5000 is Turing; an RTX A6000 benefits as well."""
FLOAT32_GPUS = frozenset({"K80", "P100"})
"""GPUs without tensor cores, where 16 bits save memory but little time."""
_BFLOAT16_CPUS = (
    r"EPYC 9\d\d[45]|Genoa|Bergamo|Turin"  # Zen 4 and 5: AVX512-BF16
    r"|(Platinum|Gold|Silver|Max) \d[45]\d\d|Sapphire Rapids|Emerald Rapids|Granite Rapids|Cooper Lake"  # and AMX
)


@record
class PrecisionAdvice:
    """``name`` is the recommended number format; ``suggestion`` is one line where the job uses another one."""

    name: NumberFormat
    suggestion: str
    reason: Reason


def recommended(device: str, *, on_gpu: bool) -> tuple[NumberFormat, str]:
    """Return the number format for a device, given the site's description ("NVIDIA A100 (SXM4)"), and why.

    bfloat16 where the device has units for it, since it needs no loss scaling; float16 on older GPUs with tensor
    cores; otherwise float32, also where the device is not known. Source: ``SOURCE``.
    """
    if not on_gpu:
        if re.search(_BFLOAT16_CPUS, device):
            return "bfloat16", f"{device} has instructions for bfloat16"
        return "float32", f"{device}: not known to have instructions for 16 bits, without which they are much slower"
    words = set(re.split(r"[^A-Za-z0-9]+", device))
    if words & BFLOAT16_GPUS:
        return "bfloat16", f"{device} has matrix units for it, and it needs no loss scaling"
    if words & FLOAT16_GPUS:
        return "float16", f"{device} has tensor cores for float16 only; losses are scaled"
    if words & FLOAT32_GPUS:
        return "float32", f"{device} has no tensor cores: 16 bits would save memory, but little time"
    return "float32", f"{device}: not known to have units for 16 bits"


def choose_precision(
    device: str, current: str, *, on_gpu: bool, typed: bool = False, gain: float | None = None
) -> PrecisionAdvice:
    """Return the recommended format next to the job's ``current`` one, which stays in use.

    Only a person can check the accuracy of another format. ``gain``: how many times faster the recommended format is
    according to the GPU model; None if not known.
    """
    name, why = recommended(device, on_gpu=on_gpu)
    suggestion = ""
    if name != current and (name in HALVES or current in HALVES):
        compared = gain is not None and current not in HALVES
        faster = f", {gain:.2g} times as fast according to the GPU model" if compared else ""
        origin = "as typed" if typed else "the job's own format"
        suggestion = f"{name} is recommended on {device}{faster}; this plan uses {current}, {origin}"
    return PrecisionAdvice(
        name=name,
        suggestion=suggestion,
        reason=Reason(
            rule="16 bits where the hardware has units for them: bfloat16, else float16; otherwise float32",
            numbers=() if gain is None else (Number(name="gain over float32", value=gain, origin="default"),),
            verdict=f"{name}: {why}" + (f"; the job computes in {current}" if suggestion else ""),
            source=SOURCE,
        ),
    )
