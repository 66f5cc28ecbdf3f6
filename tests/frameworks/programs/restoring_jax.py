"""Restores checkpoints of JAX that are damaged, of another model or version; prints what came of each."""

import json
import sys
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training.checkpoints.jax_state import JaxState
from hpclaunch.training.rank import jax_ranks
from tests.frameworks.programs import damages

PLACE = {"local_rank": 0, "local_size": 1, "host": "n1", "device": "CPU", "threads": 1}
world = jax_ranks.JaxWorld(rank=0, size=1, run_dir=sys.argv[1], **PLACE)
Adam, Lion = namedtuple("Adam", ["mu"]), namedtuple("Lion", ["mu"])


def tree(low=jnp.bfloat16, optimizer=Adam, key=7, **others):
    """Arrays of several types, a step that is a number of Python, and a random key with its type."""
    found = {"kernel": np.full([3, 2], 0.5), "bias": np.ones(2), "low": jnp.full([2], 1.5, low), "step": 4}
    found.update(lowest=jnp.full([2, 2], 0.25, jnp.float8_e4m3fn), key=jax.random.key(key))
    return {**found, "optimizer": optimizer(np.zeros(2)), **others}


def trained(**others):
    state = tree(**others)
    held = {"tree": jax_ranks.on_all(world, state)}
    return JaxState(world, 3, lambda: held["tree"])


def save(step):
    state = trained()
    state.begin_random()
    np.random.rand(step)
    return damages.save_plain(world, state, step)


def restore(state):
    place = damages.restore_plain(world, state)
    found = jax_ranks.on_all(world, state.restored)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(tree())
    jax.random.bits(jax_ranks.own_copy(found)["key"])  # it is a key, not its data
    return place, damages.arrays(JaxState(world, 3, lambda: found))


def renamed():
    found = tree()
    found["weights"] = found.pop("kernel")
    held = jax_ranks.on_all(world, found)
    return JaxState(world, 3, lambda: held)


OTHERS = {
    "another optimizer": lambda: trained(optimizer=Lion),
    "another shape": lambda: trained(bias=np.ones(3)),
    "another name": renamed,
    "another type": lambda: trained(low=jnp.float16),
    "one more": lambda: trained(zero=np.ones(3)),
}
print(
    json.dumps(
        damages.outcomes(
            sys.argv, save, restore, damages.arrays, lambda: trained(key=8, kernel=np.zeros([3, 2])), OTHERS
        )
    )
)
