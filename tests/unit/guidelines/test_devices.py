"""Every GPU and CPU that a site file names has peaks with a source."""

from __future__ import annotations

import re

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import NodeType
from hpclaunch.guidelines.devices import CPUS, GPUS, Cpu, Gpu, cpu_named, gpu_named
from tests.builders import BUNDLED, bundled_site

NODE_TYPES = [
    pytest.param(node, id=f"{name}-{kind}")
    for name in (found.name for found in BUNDLED.names(SITE))
    for kind, node in bundled_site(name).node_types.items()
]


@pytest.mark.parametrize("node", NODE_TYPES)
def test_every_gpu_and_cpu_of_a_site_file_has_figures(node: NodeType) -> None:
    if node.gpu_model and not node.stand_in_gpus:
        assert gpu_named(node.gpu_model, node.gpu_memory_gb) is not None, node.gpu_model
    if node.cpu:
        assert cpu_named(node.cpu) is not None, node.cpu


@pytest.mark.parametrize("one", [*GPUS, *CPUS], ids=lambda one: one.name)
def test_every_figure_has_a_source_and_a_year_and_a_guess_says_so(one: Gpu | Cpu) -> None:
    assert re.search(r"\b20\d\d\b", one.source), one.source


@pytest.mark.parametrize(
    ("word", "memory", "name"),
    [
        ("NVIDIA A100 (SXM4)", 40, "A100"),
        ("NVIDIA H200", 150, "H200"),  # from here on as drivers name them
        ("NVIDIA H100 80GB HBM3", 85, "H100"),
        ("NVIDIA H100 NVL", 100, "H100 94"),
        ("NVIDIA GH200 480GB", 102, "GH200"),
        ("NVIDIA A100-SXM4-80GB", 85, "A100 80"),
        ("NVIDIA A100-PCIE-40GB", 42, "A100 PCIe"),
        ("Tesla V100-SXM2-16GB", 17, "V100"),
        ("NVIDIA L40S", 48, "L40S"),
        ("AMD Instinct MI250X", 68, "MI250X"),
        ("NVIDIA H200 MIG 1g.18gb", 20, None),
        ("NVIDIA GeForce RTX 4090", 25, None),
        ("NVIDIA A100 (SXM4)", 80, "A100 80"),
        ("NVIDIA A100 (PCIe)", 40, "A100 PCIe"),
        ("NVIDIA A100 (custom, SXM, HBM2e)", 64, "A100 custom"),
        ("Tesla V100-SXM2-32GB", 32, "V100"),
        ("AMD Instinct MI250X (GCD)", 64, "MI250X"),
        ("NVIDIA Quadro RTX 5000", 16, "RTX 5000"),
        ("NVIDIA GH200", 96, "GH200"),
        ("NVIDIA H100 (GH200)", 96, "GH200"),
        ("NVIDIA Hopper (GH200)", 96, "GH200"),
        ("NVIDIA H100", 80, "H100"),
        ("NVIDIA H100 (SXM5)", 94, "H100 94"),
        ("NVIDIA H100 (HBM2)", 64, "H100 HBM2"),
        ("NVIDIA B200", 192, "B200"),
        ("NVIDIA Blackwell (GB200)", 185, "GB200"),
        ("NVIDIA B300", 288, None),
        ("NVIDIA GB300", 279, "GB300"),
        ("NVIDIA A30", 24, "A30"),
        ("NVIDIA L4", 24, "L4"),
        ("Tesla T4", 16, "T4"),
        ("AMD Instinct MI300A", 128, "MI300A"),
        ("AMD Instinct MI300X", 192, "MI300X"),
        ("AMD Instinct MI325X", 256, "MI325X"),
        ("Intel(R) Data Center GPU Max 1550", 128, "Max 1550"),
        ("Intel Ponte Vecchio", 128, "Max 1550"),
        ("Intel Gaudi 2 (HL-225)", 96, "Gaudi 2"),
        ("Intel Gaudi3", 128, "Gaudi 3"),
        (None, None, None),
    ],
)
def test_gpus_are_known_by_the_sites_words(word: str | None, memory: float | None, name: str | None) -> None:
    found = gpu_named(word, memory)
    assert (found and found.name) == name


def test_cpus_are_known_by_the_sites_words() -> None:
    names = {text: (found := cpu_named(text)) and found.name for text in ("AMD EPYC 7763 (Milan)", "Cray Vulcan")}
    assert names == {"AMD EPYC 7763 (Milan)": "EPYC 7763", "Cray Vulcan": None}
