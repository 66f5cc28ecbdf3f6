"""Writes the files of a trained model with another TensorFlow, without Horovod: write_again.py WEIGHTS.npz FOLDER."""

import contextlib
import sys

import numpy as np
import tensorflow as tf
from network import network

from hpclaunch.training.exports import files, portable

model = network()
with np.load(sys.argv[1]) as weights:
    model.set_weights([weights[name] for name in weights.files])
sample = tf.TensorSpec([12, 12, 3], tf.uint8)
copy = portable.copy_of(model, sample)
for name in files.keras_names(tf.__version__):
    with contextlib.suppress(portable.NotPortable):
        files.write_keras(copy, sys.argv[2], name)
files.write_saved_model(copy, sample, sys.argv[2])
files.write_weights(copy, sys.argv[2])
