"""Trains ResNet-50 on ImageNet's TFRecords with Horovod: every rank reads its own shard, all hold the same weights.

It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --image-size=64 --classes=4 --synthetic-samples=64
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("ResNet-50, its images sharded over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    import imagenet
    from model import images_of, resnet50

    asked = run.settings
    wanted = images_of(asked.image_size, asked.classes)
    made_up = (asked.synthetic_samples, asked.image_size, asked.classes, asked.first_class, asked.seed)
    folder = training.data_folder(
        run,
        made_up,
        lambda folder: imagenet.write(folder, asked.synthetic_samples, wanted, asked.first_class, asked.seed),
    )
    # A rank reads whole files if there are enough of them, in a different order in every epoch.
    source = training.source(run, lambda: imagenet.open_imagenet(folder, wanted, asked.first_class))
    data = training.data(run, source)
    normalization = training.batch_norm(run, momentum=0.9)
    model = training.fit(run, lambda: resnet50(normalization, asked.image_size, asked.classes, white=255), data)
    training.evaluate(run, model, data)
    return model


if __name__ == "__main__":
    with training.start(parse(), "resnet50") as this_run:
        train(this_run)
