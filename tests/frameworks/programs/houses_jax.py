"""A stranger's program of JAX: a linear model on arrays of its own."""

import jax
import numpy as np

from hpclaunch.training import on_jax as training


def predict(weights, inputs):
    return inputs @ weights["slope"] + weights["level"]


def mean_squared_error(weights, inputs, targets):
    return ((predict(weights, inputs) - targets) ** 2).mean()


@jax.jit
def update(weights, inputs, targets, rate):
    loss, slopes = jax.value_and_grad(mean_squared_error)(weights, inputs, targets)
    return jax.tree_util.tree_map(lambda weight, slope: weight - rate * slope, weights, slopes), loss


settings = training.settings(epochs=20, batch_size_per_rank=10, learning_rate=0.1, decay="cosine")
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    state = {"slope": np.zeros(3, np.float32), "level": np.zeros((), np.float32)}
    loop = training.loop(run, state, data)
    for inputs, targets in loop:
        loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
    training.evaluate(run, jax.tree_util.Partial(predict, loop.own_state()), data)
