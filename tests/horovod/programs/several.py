"""Trains a model of two inputs and two outputs, or with class weights; RUN/several-RANK.json has the logs and weights.

--stop-after=3: the attempt fails before its fourth step. --as-samples=true: the data are a tf.data pipeline.
"""

import json
import os

from hpclaunch import training

settings = training.settings(
    epochs=2,
    batch_size_per_rank=3,
    learning_rate=0.125,
    scale_learning_rate="none",
    checkpoint_steps=1,
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
    as_samples={"default": False, "help": "read the arrays as a tf.data pipeline"},
    classes={"default": False, "help": "train one output with class weights"},
)


def read(run):
    inputs = {"rooms": "rooms", "place": "place"}
    targets = {"price": "price", "type": "type"}
    return training.arrays(run, inputs=inputs, targets=targets, weights="weight")


def train(run, network, data, **more):
    losses = {"price": "mse", "type": "sparse_categorical_crossentropy"}
    shares = {"price": 0.25, "type": 2.0}
    return training.fit(run, network, data, loss=losses, loss_weights=shares, **more)


with training.start(settings) as run:
    import numpy as np
    import tensorflow as tf
    from stopping import StopAfter

    layers = tf.keras.layers
    found = []

    def target(y, predicted):
        return tf.reduce_mean(y, axis=-1)

    class Logs(StopAfter):
        def on_epoch_end(self, epoch, logs=None):
            found.append({name: float(value) for name, value in logs.items()})

    def dense(size, name=None, activation=None):
        start = tf.keras.initializers.Constant([[0.1 * (row - column) for column in range(size)] for row in range(5)])
        return layers.Dense(size, activation, kernel_initializer=start, name=name, dtype="float64")

    def network():
        sizes = {"rooms": 3, "place": 2}
        inputs = {name: tf.keras.Input([size], name=name, dtype="float64") for name, size in sizes.items()}
        both = layers.Concatenate(dtype="float64")(list(inputs.values()))
        if settings.classes:
            return tf.keras.Model(inputs, dense(3, activation="softmax")(both))
        outputs = {"price": dense(1, "price")(both), "type": dense(3, "type", "softmax")(both)}
        return tf.keras.Model(inputs, outputs)

    names, targets = ("rooms", "place"), ("price", "type")
    if settings.as_samples:
        with np.load(settings.data_dir) as arrays:

            def of(split):
                parts = [
                    {name: arrays[f"{name}_{split}"] for name in names},
                    {name: arrays[f"{name}_{split}"] for name in targets},
                    arrays[f"weight_{split}"],
                ]
                return tf.data.Dataset.from_tensor_slices(tuple(parts))

            data = training.samples(run, of("train"), test=of("test"), validation=of("validation"))
    elif settings.classes:
        data = training.arrays(run, inputs={name: name for name in names}, targets="type")
    else:
        data = read(run)
    optimizer = tf.keras.optimizers.SGD(settings.learning_rate, momentum=0.5)
    how = {"optimizer": optimizer, "callbacks": [Logs(settings.stop_after)]}
    if settings.classes:
        measures = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}
        model = training.fit(run, network, data, class_weight={0: 0.5, 1: 2.0, 2: 1.0}, **measures, **how)
    else:
        measures = {"metrics": {"type": ["accuracy"]}}
        measures["weighted_metrics"] = {"price": ["mae", target], "type": ["accuracy"]}
        model = train(run, network, data, **measures, **how)
    results = training.evaluate(run, model, data)
    about = {"logs": found, "results": results, "weights": [one.tolist() for one in model.get_weights()]}
    with open(os.path.join(run.folder, f"several-{run.rank}.json"), "w") as file:
        json.dump(about, file)
