"""Trains the cifar job's model in one process on the batches of several ranks put together: no Horovod, no strategy.

python one_process.py RANKS SAMPLES BATCH_SIZE_PER_RANK EPOCHS prints the loss of every epoch as JSON. Made-up images,
no batch normalization, sgd with a rate of 0.01.
"""

import json
import sys
from pathlib import Path

from hpclaunch.training.input import pipeline, shards  # before TensorFlow, so that tf.keras is Keras 2

# isort: split
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[3] / "jobs" / "cifar"))
from model import CIFAR10, mini_resnet

from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.optimization import batch_norm, optimizers

SEED = 1337
ranks, samples, batch_size, epochs = [int(text) for text in sys.argv[1:]]
source = Synthetic(CIFAR10, samples, SEED)
order = shards.shuffled(samples, SEED)
parts = []
for rank in range(ranks):
    shard = shards.training_shard(order, rank, ranks)
    images, labels = source.read("train", shard.indices)
    parts.append(pipeline.training_batches(images, labels, batch_size, SEED, rank, as_pixels=True))
together = tf.data.Dataset.zip(tuple(parts)).map(
    lambda *several: (tf.concat([x for x, _ in several], 0), tf.concat([y for _, y in several], 0))
)
model = mini_resnet(batch_norm.maker("none"), white=255)
model.compile(optimizers.make("sgd", 0.01), loss="sparse_categorical_crossentropy")
steps = shards.steps_per_epoch(len(shard.indices), batch_size)
history = model.fit(together, steps_per_epoch=steps, epochs=epochs, verbose=0)
print(json.dumps(history.history["loss"]))
