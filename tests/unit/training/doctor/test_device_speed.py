"""The measurement of a matrix product and of a copy, by a clock that the test moves."""

from __future__ import annotations

import pytest

from hpclaunch.training.doctor import device_speed


class Device:
    """A device of so many operations and bytes a second; every third of its products takes twice as long."""

    def __init__(self, flops: float, bytes_per_s: float) -> None:
        self.flops, self.bytes_per_s = flops, bytes_per_s
        self.now, self.products, self.rows = 0.0, 0, 0

    def clock(self) -> float:
        return self.now

    def product(self, rows: int, kind: str) -> device_speed.Once:
        self.rows = rows

        def once() -> None:
            self.products += 1
            slow = 2 if self.products % 3 == 0 else 1
            self.now += slow * 2 * rows**3 / (self.flops * (8 if kind == "mixed" else 1))

        return once

    def copy(self, size: int) -> device_speed.Once:
        def once() -> None:
            self.now += 2 * size / self.bytes_per_s

        return once


@pytest.mark.parametrize("flops", [1e8, 1e11, 6e13])
def test_the_fastest_repeat_and_the_median_are_the_device_s(flops: float) -> None:
    device = Device(flops, 2e12)
    found = device_speed.measure(device.product, device.copy, ["float32", "mixed"], device.clock)
    assert found["float32"] == pytest.approx([flops / 1e12] * 2)
    assert found["mixed"] == pytest.approx([8 * flops / 1e12] * 2)
    assert found["copy"] == pytest.approx([2000.0] * 2)


def test_a_usual_device_needs_two_to_six_seconds() -> None:
    for flops in (1e11, 6e13, 1e15):
        device = Device(flops, 2e11)
        device_speed.measure(device.product, device.copy, ["float32", "tf32", "mixed"], device.clock)
        assert 2 < device.now < 6
