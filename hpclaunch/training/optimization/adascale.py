"""Measures AdaScale's gain (how much averaging over ranks reduces noise) from gradients that Horovod reduces."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from hpclaunch.training.optimization import gradient_norms
from hpclaunch.training.optimization.learning_rate import ADASCALE, adascale_gain, gradient_noise
from hpclaunch.training.optimization.optimizers import ADAPTIVE
from hpclaunch.training.rank.world import World


class Gain:
    """A callable that returns the measured factor of the learning rate; variables: its state, for checkpoints."""

    def __init__(self, factor: Callable[[], float] = lambda: 1.0, variables: tuple[Any, ...] = ()) -> None:
        self._factor, self.variables = factor, variables

    def __call__(self) -> float:
        return self._factor()


def gain_for(asked: Any, optimizer: Any, world: World, is_adaptive: bool | None = None) -> Gain:
    """The measured factor of the learning rate at any time; it is 1 unless AdaScale is requested.

    optimizer: of reduction.distributed. Optimizers that divide by the gradient's size use the square root of the gain,
    as AdaptDL does (petuum/adaptdl, scaling_rules.py). is_adaptive: whether it is one of these; None: as the settings'
    optimizer is. From now on every step includes a collective.
    """
    if asked.scale_learning_rate != ADASCALE:
        return Gain()
    noise = GradientNoise(world)
    noise.attach(optimizer)
    divides = asked.optimizer in ADAPTIVE if is_adaptive is None else is_adaptive
    power = 0.5 if divides else 1.0
    return Gain(lambda: noise.gain() ** power, (noise.sums,))


class GradientNoise:
    """Running averages of the variance of one rank's gradient, and of the mean gradient's squared norm.

    Both are averaged over about 1000 / n steps before the division, because a mean of ratios would be biased. They
    refer to the batch of one rank, so they stay valid when a run continues in a world of another size.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._keep = max(0.0, 1 - world.size / 1000)  # Johnson et al. 2020, appendix
        self.sums = tf.Variable(tf.zeros(3, tf.float64), trainable=False)  # variance, norm, weight

    def attach(self, optimizer: Any) -> None:
        """Watch the gradients of `optimizer` (of reduction.distributed), with one 4-byte all-reduce per step."""
        gradient_norms.watch(optimizer, self._world, self._watch)

    def gain(self) -> float:
        """The factor of the learning rate, from 1 to the world size; 1 before the first step, and with one rank."""
        variance, norm, weight = [float(value) for value in self.sums.numpy()]
        if self._world.size == 1 or not weight:
            return 1.0
        return adascale_gain(variance / weight, norm / weight, self._world.size)

    def _watch(self, one: Any, both: Any) -> None:
        one, both = tf.cast(one, tf.float64), tf.cast(both, tf.float64)
        now = tf.stack([*gradient_noise(one, both, self._world.size), 1.0])
        finite = tf.reduce_all(tf.math.is_finite(now))
        self.sums.assign(tf.where(finite, self._keep * self.sums + (1 - self._keep) * now, self.sums))
