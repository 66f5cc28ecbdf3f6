"""Trains in two groups of ranks that update apart, and in one process on the whole batch; leaves the weights.

RUN/every-K-RANK.npz: after each step of SGD with momentum, with an exchange after K steps, the weights of this rank
(ranks, [steps, weights]), and of one process (alone); and the optimizer's state before and after they are united.
"""

import os

from hpclaunch.training.model_parallel.mesh import Division
from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start

STEPS, EACH = 6, 4  # samples of a rank in a step


def network():
    tf.keras.utils.set_random_seed(1)
    return tf.keras.Sequential([tf.keras.layers.Input(5), tf.keras.layers.Dense(3, "tanh"), tf.keras.layers.Dense(1)])


def flat(variables):
    return np.concatenate([variable.numpy().ravel() for variable in variables if variable.dtype.is_floating])


def train(optimizer, batches, *first):
    """The model, and its weights after each step, which the callbacks `first` may change."""
    model, found = network(), []
    model.compile(optimizer, "mse")
    note = tf.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: found.append(flat(model.trainable_variables))
    )
    data = tf.data.Dataset.from_tensor_slices(batches)
    model.fit(data, steps_per_epoch=STEPS, epochs=1, callbacks=[*first, note], verbose=0)
    return model, np.array(found)


with failure.reported():
    world = start("test", 1, division=Division(update_groups=2))
    import numpy as np
    import tensorflow as tf

    from hpclaunch.training.checkpoints.training_state import TrainingState
    from hpclaunch.training.optimization import group_updates, optimizers, reduction

    random = np.random.RandomState(2)
    inputs = random.normal(size=(STEPS, EACH * world.size, 5)).astype("float32")
    targets = random.normal(size=(STEPS, EACH * world.size, 1)).astype("float32")
    mine = tuple(part[:, world.rank :: world.size] for part in (inputs, targets))
    for every in (1, 4):
        optimizer = reduction.distributed(optimizers.make("sgd", 0.1), world)
        model, ranks = train(optimizer, mine, group_updates.ExchangeWeights(every))
        state = TrainingState(model, world, 1)
        before = flat(optimizer.variables())
        state.unite()
        held = {"ranks": ranks, "before": before, "united": flat(optimizer.variables())}
        _, held["alone"] = train(optimizers.make("sgd", 0.1), (inputs, targets))
        np.savez(os.path.join(world.run_dir, f"every-{every}-{world.rank}.npz"), **held)
