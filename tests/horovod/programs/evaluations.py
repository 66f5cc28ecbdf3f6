"""Evaluates on all ranks what the test has made: the model's inputs are its outputs. RUN/results-RANK.json gets all.

--data-dir names the folder with classes.npz and numbers.npz.
"""

import json
import os

from hpclaunch import training

settings = training.settings(epochs=1, batch_size_per_rank=4, top_k=2, confusion_matrix=True)
with training.start(settings) as run:
    import numpy as np
    import tensorflow as tf

    from hpclaunch.training import callbacks, evaluation

    def uneven(name, of_rank):
        """This rank's batches of the test samples, of 1, 2, 3, ... samples; of_rank: whose batch number n is."""
        with np.load(os.path.join(run.settings.data_dir, name)) as held:
            inputs, targets = held["x_test"], held["y_test"]
        first, number = 0, 0
        while first < len(inputs):
            part = slice(first, first + number + 1)
            if of_rank(number) == run.rank:
                yield tf.constant(inputs[part]), tf.constant(targets[part])
            first, number = part.stop, number + 1

    found = {}
    kinds = {
        "classes": ("sparse_categorical_crossentropy", evaluation.evaluate),
        "numbers": ("mse", evaluation.errors),
    }
    for kind, (loss, on_batches) in kinds.items():
        model = tf.keras.Sequential([tf.keras.layers.Activation("linear")])
        model.compile(loss=loss)
        data = training.arrays(run, os.path.join(run.settings.data_dir, kind + ".npz"))
        settings.top_k, settings.confusion_matrix = (2, True) if kind == "classes" else (0, False)
        found[kind + ", public"] = training.evaluate(run, model, data)
        more = {"top_k": 2} if kind == "classes" else {}
        in_turns = uneven(kind + ".npz", lambda number: number % run.size)
        found[kind + ", in turns"] = on_batches(model, in_turns, run.world, **more)
        last = uneven(kind + ".npz", lambda number: run.size - 1)
        found[kind + ", the last rank has all"] = on_batches(model, last, run.world, **more)
    averaged = {"loss": 1.5 + run.rank, "accuracy": 0.25 * run.rank}
    callbacks.AverageMetrics(run.world).on_epoch_end(0, averaged)
    found["averaged metrics"] = averaged
    with open(os.path.join(run.folder, f"results-{run.rank}.json"), "w") as file:
        json.dump(found, file)
