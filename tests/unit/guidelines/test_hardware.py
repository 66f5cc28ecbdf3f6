"""What the peaks of a device give without a measurement, by hand."""

from __future__ import annotations

import pytest

from hpclaunch.guidelines.devices import cpu_named, gpu_named
from hpclaunch.guidelines.hardware import Arithmetic, device_of_cpu, device_of_gpu, unmeasured_compute
from hpclaunch.guidelines.memory import activation_bytes, states_bytes


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


@pytest.mark.parametrize(
    ("arithmetic", "batch", "images", "allocated"),
    [
        ("float32", 128, 876.4, 12_039_325_184),
        ("tf32", 128, 2097.8, 11_407_235_072),
        ("tf32", 256, 2185.9, 22_486_973_952),
        ("mixed", 128, 4268.7, 6_220_353_536),
        ("mixed", 256, 4614.9, 11_971_525_632),
    ],
)
def test_resnet_50_as_measured_on_an_h200(arithmetic: Arithmetic, batch: int, images: float, allocated: int) -> None:
    """Plain PyTorch 2.11, SGD with momentum, channels last in bfloat16: within 1.5 times, memory within 15 %."""
    gpu = gpu_named("NVIDIA H200", 141)
    assert gpu is not None
    half = arithmetic == "mixed"
    saved = 79.8 * 2**20 * (0.5 if half else 1.0)
    seconds = unmeasured_compute(device_of_gpu(gpu), arithmetic, 7.73e9, saved).sample_s.middle
    assert 1 / 1.5 < 1 / seconds / images < 1.5
    states = states_bytes(25.56e6, "momentum", "mixed" if half else "float32")
    assert states + activation_bytes(saved, batch) == pytest.approx(allocated, rel=0.15)
