"""Trains a small model with PyTorch; rank 1 hangs at the place that is named.

hanging.py data|step|evaluation|exit stop|wait. The watch gets its short time only when rank 1 hangs: until then, no
rank is too slow for it.
"""

import os
import signal
import sys
import threading
import time

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training
from hpclaunch.training.rank import watch

PLACE, HOW = sys.argv[1:3]
STALL_S = 3.0


def at(run, place):
    """Hang, on rank 1, if this is the place."""
    if place != PLACE or run.rank != 1:
        return
    open(os.path.join(run.folder, "hangs"), "x").close()
    if HOW == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    os.read(os.pipe()[0], 1)  # a system call that never returns


def shorten(run):
    """Give the watch its short time as soon as rank 1 hangs."""
    while not os.path.exists(os.path.join(run.folder, "hangs")):
        time.sleep(0.1)
    watch.this_rank.seconds = STALL_S


def opened(run):
    watch.reached("the opening of the data")
    at(run, "data")
    path = os.path.join(run.folder, f"own-{run.rank}.npz")
    np.savez(path, x=np.ones((40, 3), np.float32), y=np.ones(40, np.float32))
    return training.arrays(run, path)


settings = training.settings(words=[], epochs=2, batch_size_per_rank=4, stall_minutes=1000.0)
with training.start(settings) as run:
    threading.Thread(target=shorten, args=(run,), daemon=True).start()
    data, model = opened(run), torch.nn.Linear(3, 1)
    loop = training.loop(run, model, torch.optim.SGD(model.parameters(), settings.learning_rate), data)
    for inputs, targets in loop:
        at(run, "step")
        loop.step((loop.model(inputs)[:, 0] - targets).square().mean())
    at(run, "evaluation")
    training.evaluate(run, model, data)
at(run, "exit")
