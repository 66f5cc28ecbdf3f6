"""AdaScale's running averages: what is known of the noise stays true in a world of another size."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization.adascale import GradientNoise
from hpclaunch.training.optimization.learning_rate import adascale_gain
from hpclaunch.training.rank.world import World

VARIANCE, NORM = 3.0, 2.0
assert hvd is not None


def noise_in(size: int) -> GradientNoise:
    return GradientNoise(
        World(rank=0, size=size, local_rank=0, local_size=1, host="", device="", threads=1, run_dir="")
    )


def watched(size: int, steps: int) -> GradientNoise:
    """After steps whose gradients' squared norms are around what VARIANCE and NORM give."""
    noise = noise_in(size)
    for step in range(steps):
        part = 1.5 if step % 2 else 0.5
        noise._watch(tf.constant(part * (NORM + VARIANCE)), tf.constant(part * (NORM + VARIANCE / size)))
    return noise


@pytest.mark.parametrize("size", [2, 8])
def test_the_gain_is_that_of_the_averages(size: int) -> None:
    assert noise_in(size).gain() == 1.0
    assert watched(size, 1).gain() == pytest.approx(adascale_gain(VARIANCE, NORM, size), rel=1e-6)
    assert watched(size, 40).gain() == pytest.approx(adascale_gain(VARIANCE, NORM, size), rel=1e-6)


@pytest.mark.parametrize(("before", "after"), [(2, 8), (8, 2), (8, 1)])
def test_a_run_that_goes_on_in_another_world_has_the_gain_of_that_world(before: int, after: int) -> None:
    noise = noise_in(after)
    noise.sums.assign(watched(before, 10).sums)  # what a checkpoint does
    assert noise.gain() == pytest.approx(adascale_gain(VARIANCE, NORM, after), rel=1e-6)


def test_a_step_that_overflowed_does_not_count() -> None:
    noise = watched(4, 3)
    before = noise.gain()
    noise._watch(tf.constant(float("inf")), tf.constant(1.0))
    assert noise.gain() == before
