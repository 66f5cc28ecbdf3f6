"""Trains a GPT on text with Horovod: every rank reads its own part of the tokens.

It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --vocabulary=257 --synthetic-samples=256
What `fit` does, in its order: hpclaunch/training/program/preparation.py and fit.py.
"""

from hpclaunch import training

SHOWN = 32  # tokens of the sample of text at the end, after as many of the test's


def parse() -> training.Settings:
    """The settings: those of parameters.json, which hpclaunch reads too."""
    return training.settings("A GPT on text, sharded over Horovod ranks.", __file__)


def train(run: training.Run) -> object:
    """Run the whole training on one rank; returns the trained Keras model, the same on every rank."""
    # TensorFlow comes after the start, which gives this rank its GPU and threads.
    from model import continued, gpt, loss

    from hpclaunch.training.input import packed_text

    asked = run.settings
    made_up = (asked.synthetic_samples, asked.context, asked.seed)
    folder = training.data_folder(run, made_up, lambda folder: packed_text.write(folder, *made_up))
    opened = (folder, asked.context, asked.vocabulary, "transformer")
    packed = training.source(run, lambda: packed_text.open_text(*opened))
    data = training.data(run, packed)
    sizes = (asked.layers, asked.hidden, asked.heads, asked.context, asked.vocabulary, asked.dropout)
    model = training.fit(run, lambda: gpt(*sizes), data, loss=loss())
    training.evaluate(run, model, data, splits=("validation", "test"))
    first = packed.read("test", [0])[0][0][:SHOWN]
    shown = packed.decoded(continued(model, first, SHOWN, asked.context))
    run.log.write("sample", text=shown)
    if run.is_root:
        print("the test's first words, continued:\n{}".format(shown), flush=True)
    return model


if __name__ == "__main__":
    with training.start(parse(), "transformer") as this_run:
        train(this_run)
