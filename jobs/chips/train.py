"""Trains the article's CNN to distinguish good and bad potato chips, with Horovod: every rank reads its own share.

It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --image-size=96 --synthetic-samples=64
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("The article's CNN on potato chips, over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    import drawing
    from images import ChipImages
    from model import chips_of, cnn

    from hpclaunch.training.input.datasets import open_dataset
    from hpclaunch.training.input.feeding import divided

    asked = run.settings
    if asked.global_batch_size:  # the article's second option: the global batch and the rate stay the same
        asked.batch_size_per_rank = divided(run.world, asked)
    made_up = (asked.synthetic_samples, asked.image_size, asked.seed)
    folder = training.data_folder(run, made_up, lambda folder: drawing.write(folder, *made_up))
    photographs = training.source(run, lambda: open_dataset(folder, chips_of(asked.image_size)))
    # Photographs are split before versions are made. A rank reads its own shard of all versions, or (generator) draws
    # from all of them in its own order.
    versions = ChipImages(photographs, asked.validation_part, asked.seed)
    data = training.data(run, versions, sharded=asked.distribution == "shards")
    model = training.fit(run, lambda: cnn(asked.image_size, white=255), data)
    training.evaluate(run, model, data, splits=("validation", "test"))
    return model


if __name__ == "__main__":
    with training.start(parse(), "chips") as this_run:
        train(this_run)
