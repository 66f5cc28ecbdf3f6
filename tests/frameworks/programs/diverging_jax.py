"""Trains a linear model with JAX, whose weights become NaN in the second epoch; its state has an infinity as well."""

import jax
import numpy as np

from hpclaunch.training import on_jax as training


@jax.jit
def update(state, inputs, targets, rate):
    def error(weights):
        return ((inputs @ weights - targets) ** 2).mean()

    loss, slope = jax.value_and_grad(error)(state["weights"])
    step = state["step"] + 1
    slope = jax.numpy.where(step > state["sound"], float("nan"), slope)
    return {**state, "weights": state["weights"] - rate * slope, "step": step}, loss


settings = training.settings(epochs=3, batch_size_per_rank=8, learning_rate=0.1)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    state = {"weights": np.zeros(3, np.float32), "step": np.int32(0), "sound": np.int32(2 * data.steps - 1)}
    state["lowest"] = np.float32(np.inf)
    loop = training.loop(run, state, data)
    for inputs, targets in loop:
        loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
    training.evaluate(run, lambda inputs: inputs @ loop.own_state()["weights"], data)
