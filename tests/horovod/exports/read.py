"""Reads the files of a trained model without hpclaunch: read.py MODEL-FOLDER DATA.npz.

Prints a line of JSON: for each file the test accuracy, or why it cannot be read.
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf


def keras_file(path):
    model = tf.keras.models.load_model(path, compile=False)
    return lambda images: model(images, training=False)


def saved_model(path):
    serve = tf.saved_model.load(path).signatures["serving_default"]
    return lambda images: serve(inputs=tf.constant(images))["outputs"]


def weights(path):
    with np.load(path) as found:
        named = {name: found[name] for name in found.files}
    gamma, beta, mean, variance = (
        next(value for name, value in named.items() if name.endswith("/" + part))
        for part in ("gamma", "beta", "moving_mean", "moving_variance")
    )

    def outputs(images):
        x = tf.cast(images, tf.float32) / 255
        x = tf.nn.conv2d(x, named["conv/kernel"], 1, "VALID") + named["conv/bias"]
        x = tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3))
        return tf.nn.softmax(tf.reduce_mean(x, [1, 2]) @ named["out/kernel"] + named["out/bias"])

    return outputs


def accuracy(outputs):
    with np.load(sys.argv[2]) as data:
        found = np.asarray(outputs(data["x_test"]))
        return float(np.mean(found.argmax(1) == data["y_test"]))


results = {}
assert "hpclaunch" not in sys.modules
for name in sorted(os.listdir(sys.argv[1])):
    read = {"model.keras": keras_file, "model.h5": keras_file, "saved_model": saved_model, "weights.npz": weights}
    if name in read:
        try:
            results[name] = accuracy(read[name](os.path.join(sys.argv[1], name)))
        except Exception as error:
            results[name] = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])
print(json.dumps({"tensorflow": tf.__version__, "results": results}))
