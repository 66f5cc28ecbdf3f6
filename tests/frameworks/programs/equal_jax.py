"""As equal_torch.py: a network of JAX in float64; its gradients come from training.value_and_grad."""

import os

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training import on_jax as training

jax.config.update("jax_enable_x64", True)


def predict(weights, inputs):
    return jnp.tanh(inputs @ weights["first"]) @ weights["last"]


def mean_squared_error(weights, inputs, targets):
    return ((predict(weights, inputs) - targets) ** 2).mean()


settings = training.settings(epochs=3, learning_rate=0.05)
with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    random = np.random.RandomState(3)
    weights = {"first": random.normal(size=(3, 8)), "last": random.normal(size=8)}
    both = training.value_and_grad(run, mean_squared_error)

    @jax.jit
    def update(weights, inputs, targets, rate):
        loss, slopes = both(weights, inputs, targets)
        return jax.tree_util.tree_map(lambda one, slope: one - rate * slope, weights, slopes), loss

    loop = training.loop(run, weights, data, validate=mean_squared_error)
    for inputs, targets in loop:
        loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
    training.evaluate(run, jax.tree_util.Partial(predict, loop.own_state()), data)
    if run.is_root:
        np.savez(os.path.join(run.folder, "final.npz"), **loop.own_state())
