"""The example of docs/dtensor.md on two processes with two devices each, against one process without DTensor."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

try:
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import ROOT, Ended
from tests.tiers import LONG

if not tf.__version__.startswith("2.15."):
    pytest.skip("group dtensor: the program was written for TensorFlow 2.15", allow_module_level=True)
PROGRAM = ROOT / "tests" / "horovod" / "programs" / "dtensor_in_a_node.py"


def reference() -> list[float]:
    """The losses of the same training with all samples on one device."""

    def weights(seed: int, shape: tuple[int, int]) -> tf.Variable:
        return tf.Variable(tf.random.stateless_normal(shape, (seed, 0)) / shape[0] ** 0.5)

    both = weights(1, (16, 64)), weights(2, (64, 4))
    inputs = tf.random.stateless_normal((64, 16), (3, 0))
    targets = tf.sin(inputs[:, :4])
    losses = []
    for _ in range(20):
        with tf.GradientTape() as tape:
            outputs = tf.matmul(tf.nn.gelu(tf.matmul(inputs, both[0])), both[1])
            loss = tf.reduce_mean((outputs - targets) ** 2)
        losses.append(float(loss))
        for variable, gradient in zip(both, tape.gradient(loss, both), strict=True):
            variable.assign_sub(0.1 * gradient)
    return losses


def test_the_documented_program_is_the_one_that_runs() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "dtensor.md").read_text(), re.DOTALL)
    assert shown == PROGRAM.read_text()


@pytest.mark.parametrize("size", [2, *([4] if LONG else [])])
def test_dtensor_in_a_process_and_horovod_between_them_train_as_one_device(
    size: int, ranks: Callable[..., Ended]
) -> None:
    ended = ranks(PROGRAM, size=size, TF_CPP_MIN_LOG_LEVEL="3")
    assert ended.code == 0, ended.text
    losses = [float(text) for text in re.findall(r"step \d+ loss (\S+)", ended.text)]
    assert losses == pytest.approx(reference(), rel=1e-6)
    assert losses[-1] < 0.3 * losses[0]
