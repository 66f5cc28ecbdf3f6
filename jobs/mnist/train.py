"""Trains a small CNN on MNIST or Fashion-MNIST with Horovod: a shard for every rank, the same weights on all.

It runs under any launcher, and alone: python train.py --epochs=1 --synthetic=true
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("CNN on MNIST or Fashion-MNIST, sharded over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    from model import DATASETS, cnn

    data = training.image_set(run, DATASETS[run.settings.dataset])
    model = training.fit(run, lambda: cnn(white=255), data)
    training.evaluate(run, model, data)
    return model


if __name__ == "__main__":
    with training.start(parse(), "mnist") as this_run:
        train(this_run)
