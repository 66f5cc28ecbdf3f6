"""Restores checkpoints of JAX that are damaged, of another model or version; prints what came of each."""

import json
import os
import sys
from argparse import Namespace
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

from hpclaunch.training.checkpoints import plain_state, writing
from hpclaunch.training.checkpoints.jax_state import JaxState
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.metrics import MetricsLog
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
    facts = {"steps_per_epoch": 4, "metrics_bytes": 0, "data": "", "epochs": None}
    facts["options"] = {"batch_size_per_rank": 8, "accumulation": 1}
    folder = os.path.join(sys.argv[1], "checkpoints")
    return writing.save(world, state, folder, Place(step // 4, step % 4, step), facts, 2), arrays(state)


def arrays(state):
    return {leaf.name: leaf.read() for leaf in state.leaves()}


def restore(state):
    asked = Namespace(batch_size_per_rank=8, accumulation=1, scale_learning_rate="none", resume=True)
    place = plain_state.restore(world, state, asked, 8, MetricsLog(None, False), "")
    state.begin_random()
    found = jax_ranks.on_all(world, state.restored)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(tree())
    jax.random.bits(jax_ranks.own_copy(found)["key"])  # it is a key, not its data
    return place, arrays(JaxState(world, 3, lambda: found))


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
        damages.outcomes(sys.argv, save, restore, arrays, lambda: trained(key=8, kernel=np.zeros([3, 2])), OTHERS)
    )
)
