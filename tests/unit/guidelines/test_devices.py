"""Peaks of every GPU and CPU that a site file names, and what they give without a measurement."""

from __future__ import annotations

import re

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.config.site import NodeType
from hpclaunch.guidelines.devices import CPUS, GPUS, Cpu, Gpu, cpu_named, gpu_named
from hpclaunch.guidelines.hardware import device_of_cpu, device_of_gpu, unmeasured_compute
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
        ("NVIDIA B200", 192, None),
        (None, None, None),
    ],
)
def test_gpus_are_known_by_the_sites_words(word: str | None, memory: float | None, name: str | None) -> None:
    found = gpu_named(word, memory)
    assert (found and found.name) == name


def test_cpus_are_known_by_the_sites_words() -> None:
    names = {text: (found := cpu_named(text)) and found.name for text in ("AMD EPYC 7763 (Milan)", "Cray Vulcan")}
    assert names == {"AMD EPYC 7763 (Milan)": "EPYC 7763", "Cray Vulcan": None}


def test_resnet_50_on_an_a100_by_hand() -> None:
    # 3 x 7.73 GFLOP / (0.97 x 312 TFLOP/s) = 76.6 us; 12.3 x 40 MiB / 1555 GB/s = 331.8 us
    gpu = gpu_named("NVIDIA A100", 40)
    assert gpu is not None
    found = unmeasured_compute(device_of_gpu(gpu), "mixed", 7.73e9, 40 * 2**20)
    assert found.sample_s.middle == pytest.approx(408.4e-6, rel=1e-3)
    assert found.sample_s.high == pytest.approx(1.5 * found.sample_s.middle)


def test_the_arithmetic_is_said() -> None:
    gpu = gpu_named("NVIDIA A100", 40)
    assert gpu is not None
    assert "TF32, TensorFlow's default" in unmeasured_compute(device_of_gpu(gpu), "tf32", 1e9, 1e6).reason.verdict


def test_a_gpu_without_the_unit_computes_in_float32() -> None:
    gpu = gpu_named("Tesla P100")
    assert gpu is not None and device_of_gpu(gpu).peak("tf32") == 10.6


def test_a_gpu_that_nobody_compared_is_a_guess_within_a_factor_of_2() -> None:
    gpu = gpu_named("AMD Instinct MI210")
    assert gpu is not None and device_of_gpu(gpu).is_guess
    found = unmeasured_compute(device_of_gpu(gpu), "float32", 1e9, 1e6)
    assert found.sample_s.high == pytest.approx(2 * found.sample_s.middle)
    assert "guess" in found.reason.verdict


def test_a_share_of_a_cpu_by_hand() -> None:
    # 64 cores x 2.45 GHz x 32 operations in a cycle = 5.02 TFLOP/s, shared by 4 ranks
    cpu = cpu_named("AMD EPYC 7763 (Milan)")
    assert cpu is not None
    device = device_of_cpu(cpu, 64, 1, 4)
    assert device.float32 == pytest.approx(1.2544)
    assert device.memory_gbytes_per_s == pytest.approx(51.2)
    found = unmeasured_compute(device, "float32", 1e9, 1e6)
    assert found.sample_s.middle == pytest.approx(3e9 / (0.08 * 1.2544e12) + 12.3e6 / 51.2e9)
    assert found.sample_s.high == pytest.approx(4 * found.sample_s.middle)
