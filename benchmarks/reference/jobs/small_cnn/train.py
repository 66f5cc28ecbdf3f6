"""Trains a small CNN on CIFAR-10: the study of parallel training (benchmarks/reference/parallel_training.py)."""

from hpclaunch import training


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    from model import CIFAR10, small_cnn  # TensorFlow comes after the start, which gives this rank its threads

    data = training.image_set(run, CIFAR10)
    model = training.fit(run, small_cnn, data)
    training.evaluate(run, model, data)
    return model


if __name__ == "__main__":
    settings = training.settings("A small CNN on CIFAR-10, sharded over Horovod ranks.", __file__)
    with training.start(settings, "small_cnn") as this_run:
        train(this_run)
