"""Trains models that the ranks share, and the whole ones in rank 0 alone on the same batches.

tensor_parallel.py T[xS] TYPE STEPS MODEL:KIND...: T ranks share each layer, in S stages of a pipeline. Rank 0 prints a
line of JSON for each MODEL (of MODELS) with its KIND (of KINDS): the largest relative difference of the losses, whether
the ranks have the same weights, and which part of the bytes of a whole model each rank has: of its variables, gradients
and optimizer state. Blocks are computed again if the first MODEL is `recomputed…`.
"""

from hpclaunch.training.model_parallel import groups  # isort: skip  # before Horovod loads Keras

import json
import os
import sys

import horovod.tensorflow as hvd
import numpy as np

from hpclaunch.training.model_parallel.mesh import Division, Mesh

layout, dtype, steps, cases = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
tensor, stages = [*map(int, layout.split("x")), 1][:2]
shared = groups.start(hvd, Division(tensor, stages, cases[0].startswith("recomputed")), os.environ)
mesh = shared or Mesh(hvd.size(), 1, 1, hvd.rank())

import tensorflow as tf  # noqa: E402

from hpclaunch.training import layers  # noqa: E402
from hpclaunch.training.model_parallel import splits  # noqa: E402
from hpclaunch.training.optimization import (  # noqa: E402
    optimizer_state,
    optimizers,
    reduction,
    sharded_optimizer,
    split_optimizer,
)
from hpclaunch.training.rank import legacy_keras  # noqa: E402
from hpclaunch.training.rank import start as starting  # noqa: E402
from hpclaunch.training.rank.world import World  # noqa: E402

sharded_optimizer.BUCKET_BYTES = split_optimizer.BUCKET_BYTES = 1000  # several buckets
VOCABULARY, LENGTH, WIDTH, HEADS = 64, 6, 16, 8
SAMPLES = 8  # of all ranks together, in a step
KINDS = {
    "sgd": lambda: legacy_keras.SGD(0.05, momentum=0.9, clipnorm=0.1),
    "momentum": lambda: optimizers.make("sgd", 0.05),
    "adam": lambda: tf.keras.optimizers.Adam(0.003, global_clipnorm=0.5),
    "adamw": lambda: tf.keras.optimizers.AdamW(0.003, weight_decay=0.1, clipnorm=0.2),
    "decay": lambda: optimizers.make("adamw", 0.003, weight_decay=0.1),
    "lamb": lambda: optimizers.make("lamb", 0.01, weight_decay=0.01),
    "lars": lambda: optimizers.make("lars", 0.5, weight_decay=0.01),
    "sharded-adam": lambda: tf.keras.optimizers.Adam(0.003, global_clipnorm=0.5),
    "sharded-lamb": lambda: optimizers.make("lamb", 0.01, weight_decay=0.01),
}


def gpt(width=WIDTH, vocabulary=VOCABULARY):
    """One block of a GPT, with dropout of every kind."""
    keras = tf.keras.layers
    tokens = tf.keras.Input(LENGTH, dtype="int32")
    embedding = layers.VocabularyParallelEmbedding(vocabulary, width)
    x = keras.Dropout(0.1)(embedding(tokens))
    inner = layers.ParallelAttention(HEADS, causal=True, dropout=0.2)(keras.LayerNormalization()(x))
    x = x + keras.Dropout(0.1)(inner)
    inner = layers.ColumnParallelDense(4 * width, "gelu")(keras.LayerNormalization()(x))
    inner = layers.RowParallelDense(width)(layers.ParallelDropout(0.2)(inner))
    x = keras.LayerNormalization()(x + keras.Dropout(0.1)(inner))
    return tf.keras.Model(tokens, embedding(x, reverse=True))


def chain(blocks=4):
    """A GPT in blocks, with dropout."""
    keras = tf.keras.layers

    def begin(tokens):
        return keras.Dropout(0.1)(layers.VocabularyParallelEmbedding(VOCABULARY, WIDTH)(tokens))

    def block(x):
        inner = layers.ParallelAttention(HEADS, causal=True, dropout=0.2)(keras.LayerNormalization()(x))
        x = x + keras.Dropout(0.1)(inner)
        inner = layers.ColumnParallelDense(2 * WIDTH, "gelu")(keras.LayerNormalization()(x))
        return x + layers.RowParallelDense(WIDTH)(layers.ParallelDropout(0.2)(inner))

    def end(x):
        return layers.ColumnParallelDense(VOCABULARY, use_bias=False)(keras.LayerNormalization()(x))

    tokens = tf.keras.Input((LENGTH,), dtype="int32")
    return layers.in_blocks(tokens, [begin, *[block] * blocks, end], (LENGTH, WIDTH))


def dense():
    """Dense layers that gather and divide their units."""
    inputs = tf.keras.Input(LENGTH)
    x = layers.ColumnParallelDense(8, "tanh", gather_output=True)(inputs)
    x = tf.keras.layers.BatchNormalization()(x)
    x = layers.RowParallelDense(16, "tanh", split_input=True)(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(2)(x))


def images():
    """Convolutions, with batch normalization of divided channels."""
    inputs = tf.keras.Input((8, 8, 3))
    x = layers.ColumnParallelConv2D(8, 3, padding="same", use_bias=False)(inputs)
    x = tf.nn.relu(layers.ParallelBatchNormalization()(x))
    x = layers.RowParallelConv2D(6, (3, 2), strides=2)(tf.keras.layers.MaxPooling2D(2)(x))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(2)(tf.keras.layers.Flatten()(tf.nn.relu(x))))


MODELS = {
    "chain": chain,
    "recomputed": chain,
    "short-chain": lambda: chain(2),
    "recomputed-short": lambda: chain(2),
    "gpt": gpt,
    "wide": lambda: gpt(128, 512),
    "dense": dense,
    "images": images,
}
OF_NUMBERS = {"dense": (LENGTH,), "images": (8, 8, 3)}  # models, and the shape of their inputs; the others are of text


def samples():
    """The inputs and targets of all steps."""
    random = np.random.RandomState(0)
    if model_name not in OF_NUMBERS:
        tokens = random.randint(0, VOCABULARY, size=(SAMPLES * steps, LENGTH)).astype("int32")
        return tokens, (3 * tokens + 1) % VOCABULARY
    numbers = random.normal(size=(SAMPLES * steps, *OF_NUMBERS[model_name])).astype(dtype)
    rows = numbers.reshape(len(numbers), -1)
    return numbers, np.stack([rows.sum(1), rows.max(1)], 1)


def make(copy):
    """The model as the ranks of `copy` make it, with its loss."""
    starting._set_seeds(1, copy)
    model = MODELS[model_name]()
    if model_name in OF_NUMBERS:
        return model, tf.keras.losses.MeanSquaredError()
    return model, layers.VocabularyParallelCrossentropy()


def batch(step, copy):
    size = SAMPLES // mesh.data
    begin = step * SAMPLES + copy * size
    return inputs[begin : begin + size], targets[begin : begin + size]


def train(kind):
    """The model of this rank with its optimizer, and the loss of every step."""
    model, loss = make(mesh.data_index)
    reduction.broadcast_weights(model, world)
    if kind.startswith("sharded") and mesh.data > 1:
        optimizer = sharded_optimizer.ShardedOptimizer(KINDS[kind](), model.trainable_variables, world)
    elif shared is None:
        optimizer = reduction.distributed(KINDS[kind](), world)
    else:
        optimizer = reduction.SplitOptimizer(KINDS[kind](), model.trainable_variables)
    model.micro_batches = parts
    model.compile(optimizer, loss)
    return (
        model,
        optimizer,
        np.array([float(model.train_on_batch(*batch(step, mesh.data_index))) for step in range(steps)]),
    )


def train_whole(kind):
    """The same in one process: each copy of the model draws the dropout of its own ranks."""
    with groups.whole_models():
        copies = [make(copy) for copy in range(mesh.data)]
    models = [model for model, _ in copies]
    for model in models[1:]:
        model.set_weights(models[0].get_weights())
    optimizer = KINDS[kind]()

    @tf.function(autograph=False)  # that of TensorFlow 2.12 knows no strict zip
    def update(gradients):
        optimizer.apply_gradients(zip(gradients, models[0].trainable_variables, strict=True))

    def gradients_of(number):
        model, loss = copies[number]

        @tf.function
        def found(x, y):
            values, several = zip(*map(of_part, tf.split(x, parts), tf.split(y, parts)), strict=True)
            return sum(values) / parts, [sum(one) / parts for one in zip(*several, strict=True)]

        def of_part(x, y):
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True))
            return value, [tf.convert_to_tensor(one) for one in tape.gradient(value, model.trainable_variables)]

        return found

    optimizer_state.variables(optimizer, models[0].trainable_variables)
    functions, losses = [gradients_of(number) for number in range(mesh.data)], []
    for step in range(steps):
        values, gradients = zip(*[function(*batch(step, copy)) for copy, function in enumerate(functions)], strict=True)
        update([sum(several) / mesh.data for several in zip(*gradients, strict=True)])
        for model in models[1:]:
            for variable, first in zip(model.trainable_variables, models[0].trainable_variables, strict=True):
                variable.assign(first)
        losses.append(float(sum(values)) / mesh.data)
    return models[0], optimizer, np.array(losses)


def in_bytes(variables):
    return sum(getattr(one, "held_size", one.shape.num_elements()) * one.dtype.size for one in variables)


def sizes(model, optimizer):
    """Bytes of the variables, the gradients and the optimizer's state."""
    weights = model.trainable_variables
    return [in_bytes(model.variables), in_bytes(weights), in_bytes(optimizer_state.variables(optimizer, weights))]


tf.keras.backend.set_floatx(dtype)
world = World(hvd.rank(), hvd.size(), hvd.rank(), hvd.size(), "here", "CPU", 1, ".", None, shared)
for case in cases:
    model_name, kind = case.split(":")
    parts = 4 if model_name.endswith("chain") else 1  # micro-batches, if there are stages
    inputs, targets = samples()
    model, optimizer, own = train(kind)
    losses = sum(world.gather(own)) / world.size
    weights = world.gather([(splits.split_of(one) is None, one.numpy().tobytes()) for one in model.trainable_variables])
    shares = world.gather(sizes(model, optimizer))
    if world.is_root:
        whole, whole_optimizer, alone = train_whole(kind)
        facts = {
            "kind": case,
            "difference": float(np.max(np.abs(losses - alone) / np.abs(alone))),
            "same": all(
                part == weights[rank % (tensor * stages)][number][1]
                for rank, found in enumerate(weights)
                for number, (_, part) in enumerate(found)
            ),
            "falls": bool(losses[-10:].mean() < losses[:10].mean()),
            "split": sum(not is_whole for is_whole, _ in weights[0]),
            "shares": [
                [own / of for own, of in zip(one, sizes(whole, whole_optimizer), strict=True)] for one in shares
            ],
        }
        print(json.dumps(facts), flush=True)
    world.gather(None)
hvd.shutdown()
