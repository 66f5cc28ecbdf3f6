"""An exponential moving average of the trained weights of a Keras model, which takes their place where it is used.

After every step: average = decay * average + (1 - decay) * weight. It begins with the first weights, so it needs no
correction of a bias towards zero. This is the definition of use_ema in Keras and of get_ema_multi_avg_fn in
torch.optim.swa_utils, but that the latter begins after the first step; optax.ema begins with zeros.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import tensorflow as tf

from hpclaunch.training.optimization import precision


class WeightAverage:
    """The average of the trained weights. variables: one for each, which a checkpoint must have.

    Of weights with fewer than 32 bits it is float32: in bfloat16, mean * 0.999 is rounded back to mean.
    Variables that are not trained, such as the statistics of batch normalization, are those of the model itself.
    """

    def __init__(self, model: Any, decay: float) -> None:
        self._weights = list(precision.plain(model.trainable_variables))
        names = [str(weight.name).split(":")[0] for weight in self._weights]
        self.variables = [
            tf.Variable(tf.cast(weight.read_value(), _type_of(weight)), trainable=False, name="average/" + name)
            for weight, name in zip(self._weights, names)
        ]

        def update() -> None:
            for mean, weight in zip(self.variables, self._weights):
                mean.assign(decay * mean + (1 - decay) * tf.cast(weight, mean.dtype))

        self._update = tf.function(update)

    def step_ended(self) -> None:
        """Take the weights after a step into the average."""
        self._update()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """A block in which the model has the averages as its weights."""
        weights = [weight.read_value() for weight in self._weights]
        self.take()
        try:
            yield
        finally:
            for weight, value in zip(self._weights, weights):
                weight.assign(value)

    def take(self) -> None:
        """Let the averages be the weights of the model from now on."""
        for mean, weight in zip(self.variables, self._weights):
            weight.assign(tf.cast(mean, weight.dtype))


def _type_of(weight: Any) -> Any:
    """The type of its average."""
    return tf.float32 if weight.dtype.is_floating and weight.dtype.size < 4 else weight.dtype


class Averaging(tf.keras.callbacks.Callback):
    """Takes the weights into an average after every step. Place it before whatever compares or saves them."""

    def __init__(self, average: WeightAverage) -> None:
        super().__init__()
        self._average = average

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._average.step_ended()
