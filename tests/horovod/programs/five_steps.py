"""A Keras model with the five steps of Horovod: the same losses on any number of ranks that divides the batch."""

import os

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow import broadcast_variables

hvd.init()  # 1: the ranks find each other

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:  # 2: each rank has a GPU of its own; a launcher that binds ranks shows each a single one
    tf.config.set_visible_devices(gpus[hvd.local_rank() if len(gpus) > 1 else 0], "GPU")

random = np.random.default_rng(1)
inputs = random.normal(size=(1024, 16)).astype(np.float32)
classes = np.argmax(inputs @ random.normal(size=(16, 4)), axis=1)
own = slice(hvd.rank(), None, hvd.size())  # the samples of this rank

tf.keras.utils.set_random_seed(1 + hvd.rank())  # weights of its own, until step 4
model = tf.keras.Sequential([tf.keras.layers.Input(16), tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(4)])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))  # 3: gradients are averaged in every step
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer, loss=loss, metrics=["accuracy"])
broadcast_variables(model.variables, root_rank=0)  # 4: all ranks begin with the weights of rank 0

history = model.fit(
    inputs[own],
    classes[own],
    batch_size=64 // hvd.size(),
    epochs=5,
    shuffle=False,
    callbacks=[hvd.callbacks.MetricAverageCallback()],  # the log shows the mean of all ranks
    verbose=0,
)
weights = np.concatenate([one.ravel() for one in model.get_weights()])
of_all = np.asarray(hvd.allgather(weights[np.newaxis], name="weights"))

if hvd.rank() == 0:  # 5: one rank alone writes
    np.savez(os.path.join(os.environ.get("HPCLAUNCH_RUN_DIR", "."), "weights.npz"), *model.get_weights())
    print("ranks", hvd.size(), "with equal weights:", bool((of_all == weights).all()))
    for epoch, value in enumerate(history.history["loss"], 1):
        print(f"epoch {epoch} loss {value:.6f} accuracy {history.history['accuracy'][epoch - 1]:.3f}", flush=True)
