"""Which number format a model's arithmetic should have on a GPU or CPU; it overrules nobody who types one."""

from __future__ import annotations

import re
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.guidelines.reasoning import Number, Reason

NumberFormat = Literal["float32", "float16", "bfloat16"]

GUIDE = "tensorflow.org/guide/mixed_precision"
SOURCE = (
    f"{GUIDE}; vendors' dense peaks; on a CPU without units for it bfloat16 was 9 times slower (docs/measurements.md)"
)
BFLOAT16_GPUS = frozenset(
    {
        *("A100", "A40", "A30", "A10", "H100", "H200", "GH200", "Hopper", "L40", "L40S", "L4"),
        *("MI100", "MI210", "MI250", "MI250X", "MI300A", "MI300X"),
    }
)
"""Words in a GPU's name: NVIDIA's from Ampere on, AMD's from CDNA on, have matrix units for bfloat16."""
FLOAT16_GPUS = frozenset({"V100", "T4", "RTX"})
"""Volta and Turing: tensor cores for float16 alone (a Quadro RTX 5000 is Turing; RTX A6000, say, gains as well)."""
FLOAT32_GPUS = frozenset({"K80", "P100"})
"""No tensor cores: 16 bits save memory, and little time."""
_BFLOAT16_CPUS = re.compile(
    r"EPYC 9\d\d[45]|Genoa|Bergamo|Turin"  # Zen 4 and 5: AVX512-BF16
    r"|(Platinum|Gold|Silver|Max) \d[45]\d\d|Sapphire Rapids|Emerald Rapids|Granite Rapids|Cooper Lake"  # and AMX
)


@record
class PrecisionAdvice:
    """``name`` is the number format that is recommended; ``suggestion``: one line where the job's is another."""

    name: NumberFormat
    suggestion: str
    reason: Reason


def recommended(device: str, *, on_gpu: bool) -> tuple[NumberFormat, str]:
    """Return the number format for a device, by a site's word for it ("NVIDIA A100 (SXM4)"), and why.

    bfloat16 where there are units for it: it needs no loss scaling. float16 on older GPUs with tensor cores. Else
    float32, also where the device is not known. Source: ``SOURCE``.
    """
    if not on_gpu:
        if _BFLOAT16_CPUS.search(device):
            return "bfloat16", f"{device} has instructions for bfloat16"
        return "float32", f"{device}: no instructions for 16 bits are known, without which they are much slower"
    words = set(re.split(r"[^A-Za-z0-9]+", device))
    if words & BFLOAT16_GPUS:
        return "bfloat16", f"{device} has matrix units for it, and it needs no loss scaling"
    if words & FLOAT16_GPUS:
        return "float16", f"{device} has tensor cores for float16 alone; losses are scaled"
    if words & FLOAT32_GPUS:
        return "float32", f"{device} has no tensor cores: 16 bits would save memory, and little time"
    return "float32", f"{device}: its units for 16 bits are not known"


def choose_precision(
    device: str, current: str, *, on_gpu: bool, typed: bool = False, gain: float | None = None
) -> PrecisionAdvice:
    """Return the recommendation beside the job's ``current`` format, which stays: accuracy is for a person to check.

    ``gain``: how many times faster the recommended one is by the model of the GPU; None where that is not known.
    """
    name, why = recommended(device, on_gpu=on_gpu)
    suggestion = ""
    if name != current:
        compared = gain is not None and current == "float32"
        faster = f", {gain:.2g} times as fast by the model of the GPU" if compared else ""
        kept = "kept as typed" if typed else "the job's own"
        suggestion = f"{name} is recommended on {device}{faster}; this plan is for {current}, {kept}"
    return PrecisionAdvice(
        name=name,
        suggestion=suggestion,
        reason=Reason(
            rule="16 bits where the hardware has units for them: bfloat16, else float16; float32 elsewhere",
            numbers=() if gain is None else (Number(name="gain over float32", value=gain, origin="default"),),
            verdict=f"{name}: {why}" + (f"; the job computes in {current}" if suggestion else ""),
            source=SOURCE,
        ),
    )
