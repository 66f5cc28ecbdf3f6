"""As continuing_torch.py: a model of JAX with dropout by a typed key in its state, in bfloat16 and float32."""

import os
import random
import resource
import signal

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training import on_jax as training

settings = training.settings(
    epochs=3,
    batch_size_per_rank=4,
    learning_rate=0.05,
    checkpoint_steps=2,
    die_after={"default": 0, "help": "the step of this attempt after which the last rank dies"},
    stop_after={"default": 0, "help": "the step of this attempt after which the last rank is asked to stop"},
    full={"default": False, "help": "whether no file can become long"},
)


@jax.jit
def update(state, inputs, targets, noise, rate):
    key, own = jax.random.split(state["key"])

    def loss_of(weights):
        hidden = inputs @ weights["first"]
        hidden = hidden * jax.random.bernoulli(own, 0.5, hidden.shape) + weights["low"].astype(jnp.float32)
        return ((hidden @ weights["last"] - targets + 0.1 * noise) ** 2).mean()

    loss, slopes = jax.value_and_grad(loss_of)(state["weights"])
    over = jax.tree_util.tree_map(lambda one, slope: one - (rate * slope).astype(one.dtype), state["weights"], slopes)
    return {"weights": over, "key": key}, loss


def mean_squared_error(state, inputs, targets):
    own = state["weights"]
    hidden = inputs @ own["first"] + own["low"].astype(np.float32)
    return {"loss": ((hidden @ own["last"] - targets) ** 2).mean()}


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    weights = {"first": np.full((3, 16), 0.1, np.float32), "last": np.full(16, 0.1, np.float32)}
    weights["low"] = jnp.full([16], 0.1, jnp.bfloat16)
    loop = training.loop(run, {"weights": weights, "key": jax.random.key(3)}, data, validate=mean_squared_error)
    if settings.full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for made, (inputs, targets) in enumerate(loop, 1):
        noise = np.float32(np.random.rand() + random.random())
        loop.step(*update(loop.state, inputs, targets, noise, loop.learning_rate))
        if run.rank == run.size - 1:
            for number, step in ((signal.SIGKILL, settings.die_after), (signal.SIGTERM, settings.stop_after)):
                if made == step:
                    os.kill(os.getpid(), number)
    own = jax.tree_util.tree_leaves(loop.own_state()["weights"])
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), *[np.asarray(one, np.float32) for one in own])
