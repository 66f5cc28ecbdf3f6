"""Trains a small model with one technique after the other, and in Keras alone on the whole batch; leaves the weights.

Arguments: the cases to run (CASES). RUN/CASE-RANK.npz gets before-N, ranks-N and (rank 0) alone-N, weight by weight.
"""

import argparse
import os
import sys

from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start

STEPS, BATCH = 3, 24  # the batch is the global one
CHANGING = {"warmup_steps": 2, "scale_learning_rate": "linear", "decay": "cosine"}
CASES = {
    "synchronized": {"optimizer": "sgd", "batch_norm": "synchronized", **CHANGING},
    "lars": {"optimizer": "lars", "learning_rate": 10.0, "weight_decay": 0.1},
    "lamb": {"optimizer": "lamb", "weight_decay": 0.1, "steps_per_execution": STEPS},
    "accumulation": {"accumulation": 5, "weighted": True},
    "xla": {"xla": True},
    "lag": {"gradient_lag": True, "optimizer": "lamb", "weight_decay": 0.1, "accumulation": 2},
    "adasum": {"adasum": True, "optimizer": "sgd"},
    # What follows is not exact: its weights are only near those of Keras, or only the same on all ranks.
    "float16": {"precision": "float16", "accumulation": 2, "optimizer": "sgd"},
    "bfloat16": {"precision": "bfloat16", "batch_norm": "local", "optimizer": "adamw", "weight_decay": 0.1},
    "ghost": {"batch_norm": "ghost", "ghost_batch_size": 5, "compression": "fp16", "optimizer": "larc"},
    "adascale": {"scale_learning_rate": "adascale", "optimizer": "sgd"},
}
# fmt: off
PLAIN = {
    "optimizer": "adam", "learning_rate": 0.05, "weight_decay": 0.0, "batch_norm": "none", "ghost_batch_size": 0,
    "accumulation": 1, "precision": "float32", "compression": "none", "adasum": False, "xla": False,
    "steps_per_execution": 1, "weighted": False, "momentum": 0.9, "momentum_correction": True, "exclude_vectors": True,
    "scale_learning_rate": "none", "warmup_steps": 0, "warmup_epochs": 0.0, "epochs": 1,
    "gradient_lag": False, "decay": "constant", "decay_factor": 0.1, "decay_power": 1.0, "decay_epochs": (),
}
# fmt: on


def network(normalization):
    layers = tf.keras.layers
    image = layers.Input((6, 6, 2))
    x = normalization()(layers.Conv2D(4, 3)(image))
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
    return tf.keras.Model(image, layers.Dense(3, "softmax", dtype="float32")(x))


def on_ranks(asked, x, y, weight):
    """Weights before and after training on this rank's part of every batch, and AdaScale's gain."""
    from hpclaunch.training import callbacks
    from hpclaunch.training.optimization import (
        adascale,
        batch_norm,
        learning_rate,
        optimizers,
        precision,
        reduction,
        training_step,
    )

    precision.use(asked.precision)
    model = network(batch_norm.maker(asked.batch_norm, asked.ghost_batch_size))
    precision.use("float32")
    model = training_step.in_parts(model, asked.accumulation, asked.xla)
    reduction.broadcast_weights(model, world)
    before = model.get_weights()
    asked.accumulation = 1  # it is inside the batch here
    plan = learning_rate.schedule(asked, world.size, STEPS)
    optimizer = optimizers.from_options(asked, plan.rate)
    if asked.gradient_lag:
        optimizer = reduction.lagged(optimizer, model.trainable_variables, world, asked)
    else:
        optimizer = reduction.distributed(optimizer, world, asked.compression, asked.adasum)
    gain = adascale.gain_for(asked, optimizer, world)
    rate = callbacks.LearningRate(plan, STEPS, gain)
    steady = [rate, callbacks.AverageStatistics(world)]
    given = (x, y, weight) if asked.weighted else (x, y)
    mine = tf.data.Dataset.from_tensor_slices(tuple(part[:, world.rank :: world.size] for part in given))
    optimizer = precision.scaled(optimizer, asked.precision)
    model.compile(
        optimizer, "sparse_categorical_crossentropy", ["accuracy"], steps_per_execution=asked.steps_per_execution
    )
    model.fit(mine, epochs=1, steps_per_epoch=STEPS, callbacks=steady, verbose=0)
    return before, model.get_weights(), gain()


def alone(asked, before, x, y, weight):
    """Weights after training on the whole batches, without Horovod and fit."""
    from hpclaunch.training.optimization import learning_rate, optimizers

    normalized = asked.batch_norm != "none"
    model = network(lambda: tf.keras.layers.BatchNormalization(fused=False) if normalized else lambda x: x)
    model.set_weights(before)
    plan = learning_rate.schedule(asked, world.size, STEPS)
    optimizer = optimizers.from_options(asked, plan.rate)
    pending = None
    for step, (batch, label) in enumerate(zip(x, y, strict=True)):
        optimizer.learning_rate = plan.at(step / STEPS)
        if asked.adasum:
            parts = [gradients(model, batch[r :: world.size], label[r :: world.size]) for r in range(world.size)]
            average = [adasum(list(layer)) for layer in zip(*parts, strict=True)]
        else:
            average = gradients(model, batch, label, weight[step] if asked.weighted else 1.0)
        if asked.gradient_lag:
            pending, average = average, pending
        if average is not None:
            optimizer.apply_gradients(zip(average, model.trainable_variables, strict=True))
    return model.get_weights()


def gradients(model, batch, label, weight=1.0):
    with tf.GradientTape() as tape:
        losses = tf.keras.losses.sparse_categorical_crossentropy(label, model(batch, training=True))
        loss = tf.reduce_mean(losses * weight)
    return tape.gradient(loss, model.trainable_variables)


def adasum(ranks):
    """Maleki et al. 2020, section 3: a (1 - a.b / 2 a.a) + b (1 - a.b / 2 b.b) for two, and so on in pairs."""
    while len(ranks) > 1:
        pairs = zip(ranks[::2], ranks[1::2], strict=True)
        ranks = [a * (1 - dot(a, b) / (2 * dot(a, a))) + b * (1 - dot(a, b) / (2 * dot(b, b))) for a, b in pairs]
    return ranks[0]


def dot(a, b):
    return tf.reduce_sum(a * b)


with failure.reported():
    world = start("test", 1)
    import numpy as np
    import tensorflow as tf

    random = np.random.RandomState(5)
    images = random.normal(size=(STEPS, BATCH, 6, 6, 2)).astype("float32")
    labels = random.randint(0, 3, (STEPS, BATCH))
    importance = random.uniform(0, 2, (STEPS, BATCH)).astype("float32")
    for case in sys.argv[1:]:
        # Layers are numbered anew: Horovod matches what ranks send by name, and rank 0 has made another model.
        tf.keras.backend.clear_session()
        wanted = argparse.Namespace(**{**PLAIN, **CASES[case]})
        start_weights, trained, gain_then = on_ranks(wanted, images, labels, importance)
        reference = alone(wanted, start_weights, images, labels, importance) if world.is_root else []
        kinds = {"before": start_weights, "ranks": trained, "alone": reference}
        weights = {f"{kind}-{n}": weight for kind, held in kinds.items() for n, weight in enumerate(held)}
        np.savez(os.path.join(world.run_dir, f"{case}-{world.rank}.npz"), gain=gain_then, **weights)
