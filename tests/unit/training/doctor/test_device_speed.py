"""The measurement of a matrix product and of a copy, by a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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


class Recorded:
    """A library, or a part of it, that keeps the arguments of each call of ``names``."""

    def __init__(self, library: Any, *names: str) -> None:
        self._library, self._names = library, names
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        if name not in self._names:
            return found

        def call(*values: Any, **named: Any) -> Any:
            self.calls.append(values)
            return found(*values, **named)

        return call


def once_of_each(product: Any, copy: Any, kinds: list[str]) -> dict[str, list[float]]:
    product(64, "float32")()
    copy(4096)()
    return {"float32": [1.0, 1.0], "copy": [1.0, 1.0]}


def test_tensorflow_multiplies_and_copies_different_values(monkeypatch: pytest.MonkeyPatch) -> None:
    tf: Any = pytest.importorskip("tensorflow", reason="group training: tensorflow is not installed")
    monkeypatch.setattr(device_speed, "measure", once_of_each)
    recorded = Recorded(tf, "matmul", "negative")
    found = device_speed.by_tensorflow(recorded)
    assert (found["library"], found["on_gpu"]) == ("TensorFlow", bool(tf.config.get_visible_devices("GPU")))
    assert len(recorded.calls) == 2
    for values in recorded.calls:
        assert len(set(values[0].numpy().ravel().tolist())) > 1000


def test_pytorch_multiplies_and_copies_different_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in, so that it also runs without PyTorch: equal values would need ``ones``, ``zeros`` or ``full``."""
    monkeypatch.setattr(device_speed, "measure", once_of_each)
    copied: list[Any] = []
    multiplied: list[Any] = []
    target = SimpleNamespace(copy_=copied.append)
    torch = SimpleNamespace(
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))),
        bfloat16="bfloat16",
        float32="float32",
        randn=lambda *shape, **_: ("normal", shape),
        rand=lambda *shape, **_: ("uniform", shape),
        mm=lambda left, right: multiplied.append((left, right)),
        empty_like=lambda source: target,
    )
    device_speed.by_torch(torch, SimpleNamespace(type="cpu"))
    assert multiplied == [(("normal", (64, 64)),) * 2] and copied == [("uniform", (1024,))]
