"""Peaks and memory bandwidths of the GPUs and CPUs of the site files, with source and date; it queries no device.

Every figure is the vendor's dense peak. The range of an estimate is +-50 % for GPUs on which published throughputs were
held against the model (``hardware.SOURCE``), and a factor of 2 (GPUs) or 4 (CPUs) for all others: ``guess`` says so.
The figures of CPUs, of the GH200 and of the A100 PCIe were entered without looking them up again: check them before
they are used for more than a guess.
"""

from __future__ import annotations

import re

from hpclaunch.core.records import record

NVIDIA, AMD, INTEL = "NVIDIA, data sheet of the {}, {}", "AMD, data sheet of the {}, {}", "Intel ARK, {}, {}"
COMPARED, GUESSED = 0.5, 1.0
"""Relative half-width (80 %) of an estimate for a GPU: compared with published throughputs, or not."""
CPU_GUESSED = 3.0
"""The same for a CPU: a factor of 4 either way."""


@record
class Gpu:
    """Dense peaks in TFLOP/s (0: none), memory bandwidth in GB/s; ``derate`` corrects a fit that is too fast.

    ``of_decoders`` corrects that of decoders in 16 bits (guidelines/layouts.py). ``spread``: relative half-width of an
    estimate. ``source``: where the figures are from, and from when. ``is_measured``: no peak is known, and a measured
    matrix product takes its place.
    """

    name: str
    float32: float
    tf32: float
    mixed: float
    memory_gbytes_per_s: float
    derate: float = 1.0
    of_decoders: float = 1.0
    spread: float = GUESSED
    source: str
    is_measured: bool = False

    @property
    def decoder_spread(self) -> float:
        """The relative half-width of an estimate for decoders."""
        if self.name in COMPARED_DECODERS:
            return COMPARED_WITH_DECODERS
        return ALIKE if self.name.startswith(("A100", "H100", "GH200")) else GUESSED


@record
class Cpu:
    """A processor: base clock in GHz, float32 operations per core and cycle, memory bandwidth of a socket in GB/s."""

    name: str
    gigahertz: float
    per_cycle: int
    socket_gbytes_per_s: float
    source: str


def _nvidia(name: str, figures: tuple[float, float, float, float], year: int, spread: float = GUESSED) -> Gpu:
    """Return a GPU with its peaks (float32, TF32, 16 bits; TFLOP/s) and its memory bandwidth (GB/s)."""
    float32, tf32, mixed, memory = figures
    return Gpu(
        name=name,
        float32=float32,
        tf32=tf32,
        mixed=mixed,
        memory_gbytes_per_s=memory,
        derate=HOPPER if name.startswith(("H", "GH")) else 1.0,
        of_decoders=HOPPER_DECODERS if name.startswith(("H", "GH")) else 1.0,
        spread=spread,
        source=NVIDIA.format(name, year),
    )


def _amd(name: str, figures: tuple[float, float, float, float], year: int, note: str = "") -> Gpu:
    """Return a GPU as ``_nvidia`` does."""
    float32, tf32, mixed, memory = figures
    return Gpu(
        name=name,
        float32=float32,
        tf32=tf32,
        mixed=mixed,
        memory_gbytes_per_s=memory,
        of_decoders=CDNA_DECODERS,
        source=AMD.format(name, year) + note,
    )


HOPPER = 0.7
"""Hopper GPUs reach this share of the fit's throughput (MPT-1B on an H100: 40 % too fast without it)."""
HOPPER_DECODERS, CDNA_DECODERS = 0.85, 0.65
"""The same of decoders: MPT on an H100 and GPT on an H200; GPT of 22 to 1,000 billion parameters on an MI250X."""
COMPARED_WITH_DECODERS, ALIKE = 0.35, 0.5
"""Relative half-width (80 %) of an estimate for decoders on a GPU with which published trainings were compared, and on
another of the same architecture."""
COMPARED_DECODERS = frozenset({"A100", "A100 80", "H100", "H200", "MI250X"})
A100_PEAKS = (19.5, 156.0, 312.0)
GPUS = (
    _nvidia("K80", (2.8, 0, 0, 240), 2014),
    _nvidia("P100", (10.6, 0, 21.2, 732), 2016, COMPARED),
    _nvidia("V100", (15.7, 0, 125, 900), 2017, COMPARED),
    _nvidia("RTX 5000", (11.2, 0, 89.2, 448), 2018),
    _nvidia("A100", (*A100_PEAKS, 1555), 2020, COMPARED),
    _nvidia("A100 PCIe", (*A100_PEAKS, 1555), 2020),
    _nvidia("A100 80", (*A100_PEAKS, 2039), 2021, COMPARED),
    Gpu(
        name="A100 custom",
        float32=22.4,
        tf32=179,
        mixed=358,
        memory_gbytes_per_s=1640,
        source="guess: an A100 with 124 of 108 multiprocessors and HBM2e (Turisini et al. 2023, LEONARDO)",
    ),
    _nvidia("A30", (10.3, 82, 165, 933), 2021),
    _nvidia("A40", (37.4, 74.8, 149.7, 696), 2020),
    _nvidia("T4", (8.1, 0, 65, 320), 2018),
    _nvidia("L4", (30.3, 60, 121, 300), 2023),
    _nvidia("L40S", (91.6, 183, 362, 864), 2023),
    _nvidia("H100", (67, 495, 989, 3350), 2022),
    _nvidia("H100 PCIe", (51, 378, 756, 2000), 2022),
    Gpu(
        name="H100 HBM2",
        float32=67,
        tf32=495,
        mixed=989,
        memory_gbytes_per_s=2000,
        derate=HOPPER,
        of_decoders=HOPPER_DECODERS,
        source="guess: the peaks of an H100 SXM5 (2022), the HBM2 of 64 GB at about 2 TB/s",
    ),
    Gpu(
        name="H100 94",
        float32=67,
        tf32=495,
        mixed=989,
        memory_gbytes_per_s=2400,
        derate=HOPPER,
        of_decoders=HOPPER_DECODERS,
        source="guess: the peaks of an H100 SXM5 (2022), the HBM2e of 94 GB at about 2.4 TB/s",
    ),
    _nvidia("GH200", (67, 495, 990, 4000), 2023),
    _nvidia("H200", (67, 495, 989, 4800), 2023),
    Gpu(
        name="B200",
        float32=80,
        tf32=1100,
        mixed=2250,
        memory_gbytes_per_s=8000,
        derate=HOPPER,
        of_decoders=HOPPER_DECODERS,
        source="guess: NVIDIA's figures of the HGX B200 of 2024 (glennklockwood.com/garden/processors/B200)",
    ),
    Gpu(
        name="GB200",
        float32=80,
        tf32=1250,
        mixed=2500,
        memory_gbytes_per_s=8000,
        derate=HOPPER,
        of_decoders=HOPPER_DECODERS,
        source="guess: TACC's guide to Horizon (2026-08-12) and the same page's figures of the GB200",
    ),
    Gpu(
        name="GB300",
        float32=80,
        tf32=1250,
        mixed=2500,
        memory_gbytes_per_s=8000,
        derate=HOPPER,
        of_decoders=HOPPER_DECODERS,
        source="guess: verda.com/blog/gb300-nvl72-architecture, figures without sparsity, read in 2026",
    ),
    _amd("MI100", (23.1, 0, 92.3, 1229), 2020),
    _amd("MI210", (22.6, 0, 181, 1638), 2022),
    _amd("MI250X", (23.9, 0, 191.5, 1600), 2021, ", half of it: one die"),
    _amd("MI300A", (122.6, 490.3, 980.6, 5300), 2023),
    _amd("MI300X", (163.4, 653.7, 1307.4, 5300), 2023),
    _amd("MI325X", (163.4, 653.7, 1307.4, 6000), 2024),
    Gpu(
        name="Max 1550",
        float32=52.4,
        tf32=419,
        mixed=839,
        memory_gbytes_per_s=3277,
        of_decoders=CDNA_DECODERS,
        source="guess: Intel's technical overview of the Data Center GPU Max series (2024), 128 cores at 1.6 GHz;"
        " matrix units of 2,048 and 4,096 operations a cycle",
    ),
    Gpu(
        name="Gaudi 2",
        float32=5.5,
        tf32=0,
        mixed=432,
        memory_gbytes_per_s=2450,
        of_decoders=CDNA_DECODERS,
        source="guess: Intel's launch of the Gaudi 3 (2024) compares it; float32 is half of its vector units' 16 bits",
    ),
    Gpu(
        name="Gaudi 3",
        float32=14.3,
        tf32=0,
        mixed=1835,
        memory_gbytes_per_s=3700,
        of_decoders=CDNA_DECODERS,
        source="guess: Intel, launch of the Gaudi 3, 2024; float32 is half of its vector units' 28.7 in 16 bits",
    ),
)
"""SXM versions unless the name says otherwise; an MI250X entry is one of its two dies, a Max 1550 both of its stacks.

From the MI300 on, matrix units of the AMD Instinct compute TF32 at half of the speed of 16 bits."""

_VARIANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "A100": (("PCIe", "A100 PCIe"), ("custom", "A100 custom")),
    "H100": (("GH200", "GH200"), ("PCIe", "H100 PCIe"), ("HBM2", "H100 HBM2")),
    "Hopper": (("GH200", "GH200"),),
}
"""Words that mark variants of a GPU with another clock or memory."""
_BY_MEMORY = {"A100": (80, "A100 80"), "H100": (94, "H100 94")}
"""Variants with at least so much memory in GB."""
_TWO_WORDS = re.compile(r"RTX 5000|Max 1550|Gaudi 2|Gaudi 3")
_OTHER_GPUS = {"Ponte Vecchio": "Max 1550", "PVC": "Max 1550", "HL-225": "Gaudi 2", "HL-325": "Gaudi 3"}
"""Other words for a GPU: its code name, or that of its card."""


def gpu_named(model: str | None, memory_gb: float | None = None) -> Gpu | None:
    """Return the GPU whose name is part of the site's or the driver's description ("NVIDIA A100 (SXM4)"), or None.

    ``memory_gb`` identifies the A100 with 80 GB and the H100 with 94 GB. A MIG device is a part of a GPU, with a part
    of its speed, which is not known.
    """
    text = model or ""
    words = [word.strip(",").replace("PCIE", "PCIe") for word in re.split(r"[-() ]+", text)]
    if "MIG" in words:
        return None
    table = {gpu.name: gpu for gpu in GPUS}
    base = next((word for word in words if word in _VARIANTS or word in table), None)
    if base is None:
        return _gpu_of_several_words(text, table)
    for mark, name in _VARIANTS.get(base, ()):
        if mark in words:
            return table[name]
    if base in _BY_MEMORY and (memory_gb or 0) >= _BY_MEMORY[base][0]:
        return table[_BY_MEMORY[base][1]]
    return table.get(base)


def _gpu_of_several_words(text: str, table: dict[str, Gpu]) -> Gpu | None:
    found = _TWO_WORDS.search(text.replace("Gaudi2", "Gaudi 2").replace("Gaudi3", "Gaudi 3"))
    other = next((name for words, name in _OTHER_GPUS.items() if words in text), "")
    return table.get(found.group() if found else other)


def _cpu(name: str, figures: tuple[float, int, float], source: str) -> Cpu:
    """Return a CPU with its base clock (GHz), operations per core and cycle, and memory bandwidth of a socket."""
    gigahertz, per_cycle, memory = figures
    return Cpu(name=name, gigahertz=gigahertz, per_cycle=per_cycle, socket_gbytes_per_s=memory, source=source)


def _epyc(name: str, gigahertz: float, memory: float, year: int) -> Cpu:
    return _cpu(name, (gigahertz, 32, memory), AMD.format(name, year))


def _xeon(name: str, figures: tuple[float, int, float], year: int) -> Cpu:
    return _cpu(name, figures, INTEL.format(name, year))


DDR4_8, DDR5_12, DDR5_8, TURIN = 204.8, 460.8, 307.2, 576.0
"""GB/s of a socket: eight channels of DDR4-3200, twelve and eight of DDR5-4800, twelve of DDR5-6000."""
CPUS = (
    _epyc("EPYC 7402", 2.8, DDR4_8, 2019),
    _epyc("EPYC 7452", 2.35, DDR4_8, 2019),
    _epyc("EPYC 7742", 2.25, DDR4_8, 2019),
    _epyc("EPYC 7H12", 2.6, DDR4_8, 2019),
    _epyc("EPYC 7532", 2.4, DDR4_8, 2020),
    _epyc("EPYC 7413", 2.65, DDR4_8, 2021),
    _epyc("EPYC 7763", 2.45, DDR4_8, 2021),
    _epyc("EPYC 7543P", 2.8, DDR4_8, 2021),
    _epyc("EPYC 7A53", 2.0, DDR4_8, 2021),
    _epyc("EPYC 9334", 2.7, DDR5_12, 2022),
    _epyc("EPYC 9454", 2.75, DDR5_12, 2022),
    _epyc("EPYC 9654", 2.4, DDR5_12, 2022),
    _cpu("EPYC 9655", (2.6, 64, TURIN), AMD.format("EPYC 9655", 2024)),
    _cpu("EPYC 9745", (2.4, 64, TURIN), AMD.format("EPYC 9745", 2024)),
    _cpu("EPYC 9965", (2.25, 64, TURIN), AMD.format("EPYC 9965", 2024)),
    _xeon("E5-2620 v4", (2.1, 32, 68.3), 2016),
    _xeon("E5-2698 v3", (2.3, 32, 68.3), 2014),
    _xeon("Phi 7250", (1.4, 64, 450), 2016),
    _xeon("Gold 6148", (2.4, 64, 128), 2017),
    _xeon("Gold 6248", (2.5, 64, 140.8), 2019),
    _xeon("Platinum 8160", (2.1, 64, 128), 2017),
    _xeon("Platinum 8280", (2.7, 64, 140.8), 2019),
    _xeon("Platinum 8358", (2.6, 64, DDR4_8), 2021),
    _xeon("Platinum 8360Y", (2.4, 64, DDR4_8), 2021),
    _xeon("Platinum 8380", (2.3, 64, DDR4_8), 2021),
    _xeon("MAX 9480", (1.9, 64, 1638), 2023),
    _xeon("Platinum 8460Y", (2.0, 64, DDR5_8), 2023),
    _xeon("Platinum 8468", (2.1, 64, DDR5_8), 2023),
    _xeon("Platinum 8480", (2.0, 64, DDR5_8), 2023),
    _xeon("Platinum 8558", (2.1, 64, 358.4), 2023),
    _cpu("Grace", (3.1, 32, 500), NVIDIA.format("Grace CPU", 2023)),
    _cpu("A64FX", (2.0, 64, 1024), "Fujitsu at Hot Chips, 2018: 512 bits, 2.7 TFLOP/s in float64"),
    _cpu("POWER9", (3.1, 16, 170), "IBM, POWER9 AC922 technical overview, 2018"),
)
"""Peaks are those of the vector units at the base clock; the bandwidth of a Xeon Phi is that of its MCDRAM,
that of a Xeon MAX that of its HBM2e."""
_OTHER_WORDS = {"3rd Gen EPYC": "EPYC 7A53", "EPYC (Turin, Zen 5c, 128 cores)": "EPYC 9745"}
"""Frontier's guide describes its processor (a 7A53) in these words; the 9745 is the only Zen 5c of 128 cores."""


def cpu_named(model: str | None) -> Cpu | None:
    """Return the CPU whose name is part of the site's description ("AMD EPYC 7763 (Milan)"), or None."""
    text = model or ""
    table = {cpu.name: cpu for cpu in CPUS}
    named = max((name for name in table if name in text), key=len, default=None)
    other = next((name for words, name in _OTHER_WORDS.items() if words in text), None)
    return table.get(named or other or "")
