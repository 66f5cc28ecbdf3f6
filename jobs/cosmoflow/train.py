"""Trains CosmoFlow's 3D CNN to predict a universe's parameters from its matter, with Horovod, on sharded volumes.

It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --volume-size=32 --synthetic-samples=64
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("CosmoFlow's 3D CNN, its volumes sharded over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    import answers
    import first_weights
    import numpy as np
    import volumes
    from model import cosmoflow, volumes_of
    from symmetries import Symmetries

    asked = run.settings
    made_up = (asked.synthetic_samples, asked.volume_size, asked.seed)
    folder = training.data_folder(run, made_up, lambda folder: volumes.write(folder, *made_up))
    # A rank reads whole files if there are enough of them, in a different order in every epoch.
    source = training.source(run, lambda: volumes.open_volumes(folder, volumes_of(asked.volume_size)))
    data = training.data(run, source, Symmetries() if asked.symmetries else None)

    def network():
        made = cosmoflow(asked.volume_size, asked.dropout)
        if asked.first_weights == "data":
            few = np.arange(min(first_weights.VOLUMES, source.counts["train"]))
            first_weights.scale_to(made, source.read("train", few)[0])
        return made

    model = training.fit(run, network, data, loss="mse", metrics=["mae"])
    training.evaluate(run, model, data)
    answers.write(run, model, data)
    return model


if __name__ == "__main__":
    with training.start(parse(), "cosmoflow") as this_run:
        train(this_run)
