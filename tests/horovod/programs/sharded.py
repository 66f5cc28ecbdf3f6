"""Trains with a sharded optimizer on all ranks, and without one in this process on their batches put together.

sharded.py TYPE STEPS KIND...: rank 0 prints a line of JSON for each KIND (of KINDS): the largest relative difference
of the losses, this rank's share of the optimizer's state, and whether all ranks have the same weights.
"""

import hpclaunch.training  # isort: skip  # noqa: F401  # before Horovod loads Keras

import json
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hpclaunch.training.optimization import optimizers, sharded_optimizer
from hpclaunch.training.rank import legacy_keras
from hpclaunch.training.rank.world import World

KINDS = {
    "sgd": lambda keras: keras.SGD(0.05, momentum=0.9, nesterov=True),
    "older-sgd": lambda keras: legacy_keras.SGD(0.05, momentum=0.9, clipnorm=0.1),
    "adam": lambda keras: keras.Adam(0.01, amsgrad=True, global_clipnorm=0.5),
    "older-adam": lambda keras: legacy_keras.Adam(0.01),
    "adamw": lambda keras: keras.AdamW(0.01, weight_decay=0.1, clipnorm=0.2),
    "rmsprop": lambda keras: keras.RMSprop(0.001, momentum=0.5, clipvalue=0.05),
    "momentum": lambda keras: optimizers.make("sgd", 0.05),
    "decay": lambda keras: optimizers.make("adamw", 0.01, weight_decay=0.1),
    "lamb": lambda keras: optimizers.make("lamb", 0.02, weight_decay=0.01),
    "lars": lambda keras: optimizers.make("lars", 0.5, weight_decay=0.01),
    "larc": lambda keras: optimizers.make("larc", 0.1, weight_decay=0.001, exclude_vectors=False),
}
BATCH = 12  # samples of all ranks together

dtype, steps, *kinds = sys.argv[1:]
hvd.init()
tf.keras.backend.set_floatx(dtype)
sharded_optimizer.BUCKET_BYTES = 1000  # several buckets, and a variable that is larger than one
world = World(hvd.rank(), hvd.size(), hvd.rank(), hvd.size(), "here", "CPU", 1, ".")
random = np.random.RandomState(0)
inputs = random.normal(size=(BATCH * int(steps), 12)).astype(dtype)
targets = np.tanh(inputs @ random.normal(size=(12, 3))).astype(dtype)


def network():
    tf.keras.utils.set_random_seed(1)
    sizes = [(17, "tanh"), (9, "tanh"), (3, None)]
    return tf.keras.Sequential([tf.keras.Input(12), *(tf.keras.layers.Dense(*size) for size in sizes)])


def decayed(optimizer, model):
    """The optimizer, whose weight decay leaves out the first biases."""
    if hasattr(optimizer, "exclude_from_weight_decay"):
        optimizer.exclude_from_weight_decay(var_list=[model.trainable_variables[1]])
    return optimizer


def train(kind, rank, ranks):
    """The model, its optimizer, and the loss of every step of `rank` of `ranks`."""
    model = network()
    optimizer = decayed(KINDS[kind](tf.keras.optimizers), model)
    if ranks > 1:
        optimizer = sharded_optimizer.ShardedOptimizer(optimizer, model.trainable_variables, world)
    model.compile(optimizer, "mse")
    size = BATCH // ranks
    begins = [step * BATCH + rank * size for step in range(int(steps))]
    losses = [float(model.train_on_batch(inputs[at : at + size], targets[at : at + size])) for at in begins]
    return model, optimizer, np.array(losses)


for kind in kinds:
    _, _, alone = train(kind, 0, 1)
    model, optimizer, own = train(kind, world.rank, world.size)
    losses = sum(world.gather(own)) / world.size
    slots = [slot for slot in optimizer.state() if isinstance(slot, sharded_optimizer.Slot)]
    whole = sum(slot.numpy().size for slot in slots)
    weights = world.gather(b"".join(weight.tobytes() for weight in model.get_weights()))
    facts = {
        "kind": kind,
        "difference": float(np.max(np.abs(losses - alone) / np.abs(alone))),
        "shares": [own / whole for own in world.gather(sum(slot.held_size for slot in slots))],
        "same": len(set(weights)) == 1,
        "falls": bool(losses[-1] < losses[0]),
    }
    if world.is_root:
        print(json.dumps(facts), flush=True)
hvd.shutdown()
