"""Trains the cases of battery.py with JAX on two ranks, and in one process by hand, in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training import on_jax as training
from tests.frameworks.programs import battery, formulas

jax.config.update("jax_enable_x64", True)
over = jax.tree_util.tree_map


def loss_of(weights, inputs, targets):
    dtype = weights["first"].dtype
    found = jnp.tanh(inputs.astype(dtype) @ weights["first"]) @ weights["last"]
    return ((found[:, 0] - targets.astype(dtype)) ** 2).mean()


@functools.cache
def update_of(name, frozen):
    """The step of an optimizer, compiled; one for all cases that have it."""
    rule, _ = formulas.OPTIMIZERS[name]

    def update(both, state, inputs, targets, rate):
        loss, slopes = both(state["weights"], inputs, targets)
        step = state["step"] + 1
        weights, kept = dict(state["weights"]), dict(state["kept"])
        for key in [key for key in weights if key not in frozen]:
            weights[key], kept[key] = rule(jnp, weights[key], slopes[key], kept[key], rate, step)
        return {"weights": weights, "kept": kept, "step": step}, loss

    return jax.jit(update, static_argnums=0)


def begin(case):
    name, _, dtype, _ = battery.parts_of(case)
    weights = formulas.begin(dtype)
    if case == "unused":
        weights["spare"] = np.full((3, 1), 0.5)
    kept = {key: (np.zeros_like(one),) * formulas.OPTIMIZERS[name][1] for key, one in weights.items()}
    return {"weights": weights, "kept": kept, "step": np.zeros((), dtype)}


WHOLE = jax.value_and_grad(loss_of)


def train(run, case, stop):
    data = training.arrays(run, inputs="features", targets="price")
    loop = training.loop(run, begin(case), data)
    update = update_of(battery.parts_of(case)[0], ("first",) if case == "frozen" else ())
    both = training.value_and_grad(run, loss_of) if case == "accumulated" else WHOLE
    batches, rates = [], []
    for inputs, targets in loop:
        batches.append(tuple(np.asarray(one.addressable_data(0)) for one in (inputs, targets)))
        rates.append(loop.learning_rate)
        loop.step(*update(both, loop.state, inputs, targets, loop.learning_rate))
        if stop and len(batches) == stop:
            break
    return loop.own_state()["weights"], batches, rates


def alone(case, steps):
    name, decay, *_ = battery.parts_of(case)
    frozen = ["first"] if case == "frozen" else []
    found = formulas.trained(name, decay, [battery.joined(of_ranks) for of_ranks in steps], frozen)
    return {**found, "spare": np.full((3, 1), 0.5)}


if __name__ == "__main__":
    with training.start(training.settings(**battery.SETTINGS)) as this_run:
        battery.run_all(this_run, training.settings, train, alone)
