"""What the peaks of a device give without a measurement, by hand."""

from __future__ import annotations

import pytest

from hpclaunch.guidelines.devices import cpu_named, gpu_named
from hpclaunch.guidelines.hardware import device_of_cpu, device_of_gpu, unmeasured_compute


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
