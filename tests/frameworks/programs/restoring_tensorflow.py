"""Restores checkpoints of TensorFlow that are damaged, of another model or version; prints what came of each."""

import json
import os
import sys
from argparse import Namespace

import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints import resuming, writing
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.world import World
from tests.frameworks.programs import damages

world = World(0, 1, 0, 1, "n1", "CPU", 1, sys.argv[1])


def trained(value=0.5, units=2, optimizer=tf.keras.optimizers.legacy.Adam, dtype="float32"):
    layers = [
        tf.keras.layers.Input((3,)),
        tf.keras.layers.Dense(units, dtype=dtype),
        tf.keras.layers.BatchNormalization(),
    ]
    model = tf.keras.Sequential(layers)
    model.compile(optimizer(0.1), "mse")
    model.optimizer.apply_gradients([(tf.ones_like(one) * value, one) for one in model.trainable_variables])
    for variable in model.variables:
        variable.assign(tf.ones_like(variable) * value)
    return TrainingState(model, world, seed=3)


def save(step):
    state = trained(step)
    facts = {"steps_per_epoch": 4, "metrics_bytes": 0, "data": "", "epochs": None}
    facts["options"] = {"batch_size_per_rank": 8, "accumulation": 1}
    folder = os.path.join(sys.argv[1], "checkpoints")
    return writing.save(world, state, folder, Place(step // 4, step % 4, step), facts, 2), arrays(state)


def arrays(state):
    common, own = state.statistics()
    return {name: np.array(array) for name, array in {**dict(state.shared(common)), **own}.items()}


def restore(state):
    asked = Namespace(batch_size_per_rank=8, accumulation=1, scale_learning_rate="none", resume=True)
    place = resuming.restore(world, state, asked, 8, MetricsLog(None, False))
    return place, arrays(state)


OTHERS = {
    "another optimizer": lambda: trained(optimizer=tf.keras.optimizers.legacy.SGD),
    "another shape": lambda: trained(units=5),
    "another type": lambda: trained(dtype="float64"),
}
print(json.dumps(damages.outcomes(sys.argv, save, restore, arrays, trained, OTHERS)))
