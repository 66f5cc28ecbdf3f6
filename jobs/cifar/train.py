"""Trains a mini-ResNet on CIFAR-10 with Horovod: every rank reads its own shard, and all ranks hold the same weights.

It runs under any launcher, and alone: python train.py --epochs=1 --synthetic=true
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("Mini-ResNet on CIFAR-10, sharded over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    from model import CIFAR10, mini_resnet

    data = training.image_set(run, CIFAR10)
    normalization = training.batch_norm(run, momentum=0.9)
    model = training.fit(run, lambda: mini_resnet(normalization, white=255), data)
    training.evaluate(run, model, data)
    return model


if __name__ == "__main__":
    with training.start(parse(), "cifar") as this_run:
        train(this_run)
