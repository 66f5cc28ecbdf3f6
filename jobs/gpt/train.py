"""Trains a GPT on text with PyTorch: every rank reads its own part of the tokens.

It runs under any launcher, and alone:
python train.py --epochs=1 --synthetic=true --vocabulary=257 --synthetic-samples=256
"""

import torch
from model import GPT, continued, loss_of

from hpclaunch.training import on_pytorch as training
from hpclaunch.training.input import packed_text
from hpclaunch.training.rank.failure import TrainingError

SHOWN = 32  # tokens of the sample of text at the end, after as many of the test's
NEEDED = "the job gpt needs PyTorch 2.3 or newer, which has numbers of 16 bits without a sign, and this is {}"


def train(run: training.Run) -> None:
    """Run the whole training on one rank, on its GPU or CPU."""
    if not hasattr(torch, "uint16"):
        raise TrainingError(NEEDED.format(torch.__version__))
    asked = run.settings
    made_up = (asked.synthetic_samples, asked.context, asked.seed)
    folder = training.data_folder(run, made_up, lambda folder: packed_text.write(folder, *made_up))
    opened = (folder, asked.context, asked.vocabulary, "gpt")
    packed = training.source(run, lambda: packed_text.open_text(*opened))
    data = training.data(run, packed)
    sizes = (asked.layers, asked.hidden, asked.heads, asked.context, asked.vocabulary)
    model = GPT(*sizes, asked.dropout, asked.recompute)
    loop = training.loop(run, model, training.optimizer(run, model), data, validate=loss_of)
    for tokens, targets in loop:
        loop.step(loss_of(loop.model, tokens, targets))
    training.evaluate(run, model, data, measure=loss_of)
    first = packed.read("test", [0])[0][0][:SHOWN]
    shown = packed.decoded(continued(model, first, SHOWN, asked.context, run.world.torch_device))
    run.log.write("sample", text=shown)
    if run.is_root:
        print("the test's first words, continued:\n{}".format(shown), flush=True)


if __name__ == "__main__":
    asked = training.settings("A GPT on text, sharded over ranks of PyTorch.", __file__)
    with training.start(asked, "gpt") as this_run:
        train(this_run)
