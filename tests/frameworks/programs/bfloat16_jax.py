"""As bfloat16_torch.py."""

import os

import jax
import numpy as np

from hpclaunch.training import on_jax as training

jax.config.update("jax_enable_x64", True)
settings = training.settings(stop_after={"default": 0, "help": "the steps of this attempt; 0: all"})


def mean_squared_error(weights, inputs, targets):
    weights = weights.astype(np.float64)
    return ((inputs @ weights[:3] + weights[3] - targets) ** 2).mean()


with training.start(settings) as run:
    data = training.arrays(run)
    slope_of = training.value_and_grad(run, mean_squared_error)

    def next_weights(weights, inputs, targets, rate):
        loss, slope = slope_of(weights, inputs, targets)
        return (weights - rate * slope).astype(weights.dtype), loss

    update = jax.jit(next_weights, donate_argnums=0)
    loop = training.loop(run, np.ones(4, jax.numpy.bfloat16), data, validate=mean_squared_error)
    weights = [loop.own_state().astype(np.float64)]
    for inputs, targets in loop:
        if 0 < settings.stop_after < len(weights):
            raise RuntimeError("the attempt ends here")
        loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
        weights.append(loop.own_state().astype(np.float64))
    final = loop.own_state()
    assert final.dtype == jax.numpy.bfloat16
    mean = np.asarray(loop._average.arrays[0], np.float64)
    path = os.path.join(run.folder, "made.npz")
    np.savez(path, weights=weights, mean=mean, final=final.astype(np.float64))
