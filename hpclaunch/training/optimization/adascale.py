"""Measures AdaScale's gain: how much noise ranks average away, from gradients that Horovod reduces anyway."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.optimization import gradient_norms
from hpclaunch.training.optimization.learning_rate import ADASCALE, adascale_gain, gradient_noise
from hpclaunch.training.optimization.optimizers import ADAPTIVE
from hpclaunch.training.rank.world import World


class Gain:
    """The measured factor on the learning rate, when called; `variables`: what it is computed from, for checkpoints."""

    def __init__(self, factor: Callable[[], float] = lambda: 1.0, variables: tuple[Any, ...] = ()) -> None:
        self._factor, self.variables = factor, variables

    def __call__(self) -> float:
        return self._factor()


def gain_for(asked: Any, optimizer: Any, world: World) -> Gain:
    """What gives the measured factor on the learning rate at any time: 1 unless AdaScale was asked for.

    optimizer: of reduction.distributed. Optimizers that divide by the gradient's size take the square root of the
    gain, as AdaptDL does (petuum/adaptdl, scaling_rules.py). A collective comes with every step from now on.
    """
    if asked.scale_learning_rate != ADASCALE:
        return Gain()
    noise = GradientNoise(world)
    noise.attach(optimizer)
    power = 0.5 if asked.optimizer in ADAPTIVE else 1.0
    return Gain(lambda: noise.gain() ** power, (noise.sums,))


class GradientNoise:
    """Running averages of the variance of one rank's gradient, and of the mean gradient's squared norm.

    Both are averaged over about 1000 / n steps before anything is divided, as a mean of ratios would be biased. They
    are of one rank's batch, so that they stay true when a run goes on in a world of another size.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._keep = max(0.0, 1 - world.size / 1000)  # Johnson et al. 2020, appendix
        self.sums = tf.Variable(tf.zeros(3, tf.float64), trainable=False)  # variance, norm, weight

    def attach(self, optimizer: Any) -> None:
        """Watch the gradients of `optimizer`, made by reduction.distributed; costs one 4-byte all-reduce a step."""
        gradient_norms.watch(optimizer, self._world, self._watch)

    def gain(self) -> float:
        """The factor on the learning rate, 1 to world size; 1 before the first step, and on one rank."""
        variance, norm, weight = [float(value) for value in self.sums.numpy()]
        if self._world.size == 1 or not weight:
            return 1.0
        return adascale_gain(variance / weight, norm / weight, self._world.size)

    def _watch(self, one: Any, both: Any) -> None:
        one, both = tf.cast(one, tf.float64), tf.cast(both, tf.float64)
        now = tf.stack([*gradient_noise(one, both, self._world.size), 1.0])
        finite = tf.reduce_all(tf.math.is_finite(now))
        self.sums.assign(tf.where(finite, self._keep * self.sums + (1 - self._keep) * now, self.sums))
