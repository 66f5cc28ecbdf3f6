"""python loss_scale.py STRATEGY…: float16 under strategies of TensorFlow, with two CPU devices; prints JSON for each.

At every learning step: the loss scale after it, and whether the weights have changed. "tiny": whether a gradient that
is zero in float16 (6e-9) reaches the weights without and with the scale. "resumed": the scale in a new model that was
restored from the state of the first.
"""

import json
import sys

from hpclaunch.training.optimization import precision  # before TensorFlow, so that tf.keras is Keras 2

# isort: split
import numpy as np
import tensorflow as tf

from hpclaunch.training.checkpoints.training_state import TrainingState
from hpclaunch.training.rank import legacy_keras, strategies
from hpclaunch.training.rank.world import World

INPUTS, TARGETS = np.full((4, 2), 0.5, np.float32), np.zeros((4, 1), np.float32)


def mean(truth, found):
    return tf.reduce_mean(tf.cast(found, tf.float32) - tf.cast(truth, tf.float32))


def tiny(truth, found):
    # A float16 product, as inside a network: what goes back through it is 1e-4 x 6e-5 x the scale.
    small = found * tf.constant(1e-4, tf.float16)
    return tf.reduce_mean(tf.cast(small, tf.float32) * 1.2e-4)


def compiled(world, loss, scale):
    with strategies.scope(world):
        model = tf.keras.Sequential(
            [tf.keras.layers.Input(2), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
        )
        model.compile(precision.scaled(legacy_keras.SGD(1.0), "float16"), loss=loss)
    precision.scale_variables(model.optimizer)[0].assign(scale)
    return model


def scale_of(model):
    return float(precision.scale_variables(model.optimizer)[0].numpy())


def learn(model):
    """One step on all replicas; returns whether the weights have changed."""
    before = model.get_weights()[0]
    model.fit(INPUTS, TARGETS, batch_size=4, epochs=1, verbose=0)
    return not np.array_equal(before, model.get_weights()[0])


def observed(world):
    model = compiled(world, mean, 2.0**19)  # the scaled gradient of each weight is infinite in float16
    steps = [(learn(model), scale_of(model)) for _ in range(6)]
    arrays = dict(TrainingState(model, world, seed=1).shared())
    again = compiled(world, mean, 2.0**15)
    TrainingState(again, world, seed=1).put_shared(arrays)
    return {
        "replicas": world.replicas,
        "changed": [changed for changed, _ in steps],
        "scales": [scale for _, scale in steps],
        "resumed": scale_of(again),
        "finite": bool(np.isfinite(model.get_weights()[0]).all()),
        "tiny": [learn(compiled(world, tiny, scale)) for scale in (1.0, 2.0**15)],
    }


cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
precision.use("float16")
for name in sys.argv[1:]:
    here = World(0, 1, 0, 1, "here", "CPU", 1, ".", strategies.begin(name, 0, 1, 0))
    print(json.dumps({"strategy": name, **observed(here)}))
