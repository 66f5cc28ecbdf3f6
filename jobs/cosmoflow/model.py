"""The 3D CNN of MLPerf HPC's CosmoFlow benchmark, and the shape of its volumes."""

import tensorflow as tf

from hpclaunch.training.input.source import ImageSet

SIZE = 128  # voxels per side
SNAPSHOTS = 4  # the universe at four times: the channels of a volume
DROPOUT = 0.5  # of the reference
TARGETS = 4  # cosmological parameters, each scaled to -1 .. 1


def volumes_of(size: int) -> ImageSet:
    """Cubes of `size` voxels per side, with the number of particles in each voxel (int16)."""
    return ImageSet("cosmoflow", shape=(size, size, size, SNAPSHOTS), classes=0, job="cosmoflow")


class Logarithm(tf.keras.layers.Layer):
    """log(1 + x), because the numbers of particles span four decades."""

    def call(self, inputs):
        return tf.math.log1p(inputs)


def cosmoflow(size: int = SIZE, dropout: float = DROPOUT) -> tf.keras.Model:
    """Volumes [b, size, size, size, 4] -> [b, 4] in -1.2 .. 1.2; 5,597,604 parameters with size 128.

    Source: the reference of MLPerf HPC v0.7 (mlcommons/hpc, cosmoflow/configs/cosmo.yaml and models/cosmoflow.py):
    five convolutions of 2 x 2 x 2 with 32 to 512 filters, dense layers of 128 and 64, each with dropout.
    """
    layers = tf.keras.layers
    model = tf.keras.Sequential(name="cosmoflow")
    model.add(layers.Input((size, size, size, SNAPSHOTS)))
    model.add(Logarithm(dtype="float32"))
    for filters in (32, 64, 128, 256, 512):
        model.add(layers.Conv3D(filters, 2, padding="same"))
        model.add(layers.LeakyReLU())
        model.add(layers.MaxPooling3D(2))  # 64, 32, 16, 8, 4 voxels per side
    model.add(layers.Flatten())  # 32768
    for units in (128, 64):
        model.add(layers.Dense(units))
        model.add(layers.LeakyReLU())
        model.add(layers.Dropout(dropout))
    model.add(layers.Dense(TARGETS, activation="tanh", dtype="float32"))
    model.add(layers.Rescaling(1.2, dtype="float32"))  # so that the outputs can reach -1 and 1
    return model
