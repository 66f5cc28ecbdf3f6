"""Lets two ranks of JAX drift apart in the ways that --ways names (drift_ways)."""

import functools

import jax
import numpy as np

from hpclaunch.training import on_jax as training
from tests.frameworks.programs import drift_ways

settings = training.settings(
    epochs=1,
    batch_size_per_rank=8,
    learning_rate=0.05,
    **drift_ways.SETTINGS,
)


def state(seed=1, size=3):
    random = np.random.default_rng(seed)
    return {"moment": np.zeros(size, np.float32), "weights": random.normal(size=size).astype(np.float32)}


def stepped(state, inputs, targets, rate, factor=1.0):
    def error(weights):
        return ((inputs @ weights - targets) ** 2).mean()

    loss, slope = jax.value_and_grad(error)(state["weights"])
    moment = 0.9 * state["moment"] + slope * factor
    return {"moment": moment, "weights": state["weights"] - rate * moment}, loss


update = jax.jit(stepped)


def train(step, begin=None):
    """Train with `step`(loop, inputs, targets), which gives the next state and the loss."""
    loop = training.loop(run, begin or state(), data)
    for inputs, targets in loop:
        loop.step(*step(loop, inputs, targets))


def usual(loop, inputs, targets):
    return update(loop.state, inputs, targets, loop.learning_rate)


def on_rank_1(change):
    """The usual step; on rank 1 `change`(weights) then changes the weights on the host."""

    def step(loop, inputs, targets):
        new, loss = usual(loop, inputs, targets)
        if run.rank == 1:
            own = change(np.array(new["weights"].addressable_data(0)))
            sharding = new["weights"].sharding
            new["weights"] = jax.make_array_from_process_local_data(sharding, own.astype(np.float32))
        return new, loss

    return step


def weights_of_another_seed():
    train(usual, state(seed=run.rank))


def other_size():
    train(usual, {**state(), "more": np.zeros(2 + run.rank, np.float32)})


def another_array():
    train(usual, {**state(), **({"more": np.zeros(2, np.float32)} if run.rank else {})})


def rank_in_the_update():
    factor = 1.0 + run.rank
    changed = jax.jit(functools.partial(stepped, factor=factor))
    train(lambda loop, inputs, targets: changed(loop.state, inputs, targets, loop.learning_rate))


def noise_of_numpy():
    noise = np.random.default_rng(run.rank).normal(size=3).astype(np.float32) * 1e-3

    @jax.jit
    def noisy(state, inputs, targets, rate):
        new, loss = stepped(state, inputs, targets, rate)
        return {**new, "weights": new["weights"] + noise}, loss

    train(lambda loop, inputs, targets: noisy(loop.state, inputs, targets, loop.learning_rate))


def each_rank_alone():
    def step(loop, inputs, targets):
        own = (np.asarray(one.addressable_data(0)) for one in (inputs, targets))
        return update(loop.own_state(), *own, loop.learning_rate)

    train(step)


def nudged_on_the_host():
    train(on_rank_1(lambda weights: weights + np.float32(1e-6)))


def exchanged_weights():
    train(on_rank_1(lambda weights: weights[::-1]))


def sign_of_zero():
    def step(loop, inputs, targets):
        new, loss = on_rank_1(lambda weights: -0.0 * np.abs(weights))(loop, inputs, targets)
        if run.rank == 0:
            zeros = np.zeros(3, np.float32)
            new["weights"] = jax.make_array_from_process_local_data(new["weights"].sharding, zeros)
        return new, loss

    train(step)


def state_before_the_step():
    def step(loop, inputs, targets):
        before = loop.state
        new, loss = usual(loop, inputs, targets)
        return (before if run.rank else new), loss

    train(step)


def without_psum():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("ranks",))
    part, whole = jax.sharding.PartitionSpec("ranks"), jax.sharding.PartitionSpec()
    specs = {"mesh": mesh, "in_specs": (whole, part, part, whole), "out_specs": (whole, whole)}
    shared = jax.jit(jax.shard_map(stepped, **specs, check_vma=False))
    train(lambda loop, inputs, targets: shared(loop.state, inputs, targets, loop.learning_rate))


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    drift_ways.run_all(run, settings, globals())
