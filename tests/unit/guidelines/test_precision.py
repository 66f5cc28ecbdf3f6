"""The number format that the hardware is best at, for the words that site files use."""

from __future__ import annotations

import pytest

from hpclaunch.config.catalog import SITE
from hpclaunch.guidelines.precision import choose_precision, recommended
from tests.builders import BUNDLED, bundled_site


@pytest.mark.parametrize(
    ("device", "on_gpu", "name"),
    [
        ("NVIDIA A100 (SXM4)", True, "bfloat16"),
        ("NVIDIA H100 (GH200)", True, "bfloat16"),
        ("NVIDIA Hopper (GH200)", True, "bfloat16"),
        ("NVIDIA Blackwell (GB200)", True, "bfloat16"),
        ("NVIDIA L40S", True, "bfloat16"),
        ("AMD MI250X (one of its two dies)", True, "bfloat16"),
        ("NVIDIA V100 (Volta)", True, "float16"),
        ("Tesla V100-SXM2-32GB", True, "float16"),
        ("NVIDIA Quadro RTX 5000", True, "float16"),
        ("NVIDIA P100", True, "float32"),
        ("a GPU", True, "float32"),
        ("AMD EPYC 7763 (Milan)", False, "float32"),
        ("AMD EPYC 9334 (Genoa)", False, "bfloat16"),
        ("Intel Xeon Platinum 8358 (Ice Lake)", False, "float32"),
        ("Intel Xeon Platinum 8360Y", False, "float32"),
        ("Intel Xeon Platinum 8468", False, "bfloat16"),
        ("Intel Xeon Platinum 8558", False, "bfloat16"),
        ("Intel Xeon Gold 6248", False, "float32"),
        ("Intel Xeon Gold 6148 (Skylake)", False, "float32"),
        ("Intel Xeon Phi 7250 (Knights Landing)", False, "float32"),
        ("NVIDIA Grace", False, "float32"),
        ("CPUs", False, "float32"),
    ],
)
def test_the_number_format_of_a_device(device: str, on_gpu: bool, name: str) -> None:
    assert recommended(device, on_gpu=on_gpu)[0] == name


def test_every_gpu_of_the_bundled_sites_is_decided_on() -> None:
    models = {
        node.gpu_model
        for found in BUNDLED.names(SITE)
        for node in bundled_site(found.name).node_types.values()
        if node.gpu_model and node.gpu_model != "stand-in device"
    }
    assert len(models) > 10
    assert [model for model in models if "not known" in recommended(model, on_gpu=True)[1]] == []


def test_what_the_job_says_stays_and_the_better_one_is_suggested() -> None:
    found = choose_precision("NVIDIA A100", "float32", on_gpu=True, gain=2.0)
    assert found.name == "bfloat16"
    assert found.suggestion == (
        "bfloat16 is recommended on NVIDIA A100, 2 times as fast according to the GPU model;"
        " this plan uses float32, the job's own format"
    )
    typed = choose_precision("NVIDIA A100", "float16", on_gpu=True, typed=True, gain=2.0)
    assert typed.suggestion == "bfloat16 is recommended on NVIDIA A100; this plan uses float16, as typed"
    assert choose_precision("NVIDIA A100", "bfloat16", on_gpu=True).suggestion == ""


def test_slow_16_bits_on_a_cpu_are_warned_of() -> None:
    found = choose_precision("AMD EPYC 7763", "bfloat16", on_gpu=False, typed=True)
    assert found.suggestion.startswith("float32 is recommended on AMD EPYC 7763; this plan uses bfloat16")


def test_tf32_is_no_format_of_16_bits() -> None:
    """It keeps numbers in float32: float32 is no better there, and bfloat16 is suggested as it is for float32."""
    assert choose_precision("NVIDIA P100", "tf32", on_gpu=True).suggestion == ""
    found = choose_precision("NVIDIA A100", "tf32", on_gpu=True, gain=2.0)
    assert found.suggestion.startswith("bfloat16 is recommended on NVIDIA A100, 2 times as fast")
