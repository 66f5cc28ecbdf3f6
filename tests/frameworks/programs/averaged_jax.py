"""As averaged_torch.py, with a step count and an array beside the weights in its state, which are not averaged."""

import os

import jax
import numpy as np

from hpclaunch.training import on_jax as training

jax.config.update("jax_enable_x64", True)
settings = training.settings(
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
    astray={"default": False, "help": "whether the average of rank 1 changes by itself after the first step"},
)


def predict(state, inputs):
    return inputs @ state["weights"][:3] + state["weights"][3]


def mean_squared_error(state, inputs, targets):
    return ((predict(state, inputs) - targets) ** 2).mean()


with training.start(settings) as run:
    data = training.arrays(run)
    both = training.value_and_grad(run, lambda weights, *batch: mean_squared_error({"weights": weights}, *batch))

    def next_state(state, inputs, targets, rate):
        loss, slopes = both(state["weights"], inputs, targets)
        weights = state["weights"] - rate * slopes
        return {"weights": weights, "steps": state["steps"] + 1.0}, loss

    update = jax.jit(next_state, donate_argnums=0)
    state = {"weights": np.zeros(4), "steps": np.zeros(())}
    loop = training.loop(run, state, data, validate=mean_squared_error, model=lambda state: state["weights"])
    for made, (inputs, targets) in enumerate(loop):
        if 0 < settings.stop_after == made:
            raise RuntimeError("the attempt ends here")
        if settings.astray and made == run.rank == 1:
            loop._average.arrays = [np.full(4, 0.5)]
        loop.step(*update(loop.state, inputs, targets, loop.learning_rate))
    own = loop.own_state()
    assert own["steps"] % 1 == 0  # no average
    training.evaluate(run, lambda inputs: predict(own, inputs), data)
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), final=own["weights"])
