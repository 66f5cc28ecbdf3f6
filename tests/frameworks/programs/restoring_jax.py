"""Restores checkpoints of JAX that are damaged, of another model or version; prints what came of each."""

import json
import os
import sys

import jax.numpy as jnp
import numpy as np

from hpclaunch.training.rank import jax_ranks
from hpclaunch.training.rank.failure import AgreedError

PLACE = {"local_rank": 0, "local_size": 1, "host": "n1", "device": "CPU", "threads": 1}
world = jax_ranks.JaxWorld(rank=0, size=1, run_dir=sys.argv[1], **PLACE)
path = os.path.join(sys.argv[1], "checkpoints", "state.npz")


def state(kind=jnp.bfloat16, **others):
    return {"kernel": np.full([3, 2], 0.5), "bias": np.ones(2), "low": jnp.full([2], 1.5, kind), **others}


def rewritten(change):
    with np.load(path) as saved:
        arrays = [saved[name] for name in saved.files]
    np.savez(path, *change(*arrays))


def truncated():
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)


def renamed():
    found = state()
    found["weights"] = found.pop("kernel")
    return found


CASES = {
    "same": (lambda: None, state),
    "newer": (lambda: rewritten(lambda about, *rest: [[*about[:2], 99], np.ones(3)]), state),
    "older": (lambda: rewritten(lambda about, described, *rest: [about[:2], *rest]), state),
    "truncated": (truncated, state),
    "another name": (lambda: None, renamed),
    "another shape": (lambda: None, lambda: state(bias=np.ones(3))),
    "another type": (lambda: None, lambda: state(jnp.float16)),
    "one more": (lambda: None, lambda: state(zero=np.ones(3))),
}
found = {}
for name, (change, make) in CASES.items():
    jax_ranks.save(world, jax_ranks.on_all(world, state()), 12, 4)
    change()
    with open(path, "rb") as file:
        before = file.read()
    try:
        tree, step = jax_ranks.restore(world, make(), 8)
        tree = jax_ranks.own_copy(jax_ranks.on_all(world, tree))
        assert all((tree[key] == value).all() for key, value in state().items()) and tree["low"].dtype == jnp.bfloat16
        found[name] = step
    except AgreedError as error:
        found[name] = str(error)
    with open(path, "rb") as file:
        assert (file.read(), os.listdir(os.path.dirname(path))) == (before, ["state.npz"])
print(json.dumps(found))
