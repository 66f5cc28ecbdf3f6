"""Trains with dropout and noise of NumPy and Python; a rank can kill itself, or find the disk full, after a step.

continuing_torch.py --die-after=N: after step N of this attempt (0: never); --full=true: files end at 2,000 bytes.
"""

import os
import random
import resource
import signal

import numpy as np
import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    epochs=3,
    batch_size_per_rank=4,
    learning_rate=0.05,
    checkpoint_steps=2,
    die_after={"default": 0, "help": "the batch of this attempt after which the last rank dies"},
    full={"default": False, "help": "whether no file can become long"},
)


def mean_squared_error(model, inputs, targets):
    return (model(inputs)[:, 0] - targets).square().mean()


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    layers = [torch.nn.Linear(3, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 1)]
    model = torch.nn.Sequential(*layers)
    begun = run.world.gather([float(one.sum()) for one in model.parameters()])
    assert begun[0] == begun[-1]  # the same weights, before anything is broadcast
    optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, validate=mean_squared_error)
    if settings.full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for made, (inputs, targets) in enumerate(loop, 1):
        noise = torch.tensor(np.random.rand() + random.random(), dtype=inputs.dtype)
        if made == 1:
            with torch.random.fork_rng():  # the attempts differ in their first steps, and not in their draws
                draws = run.world.gather((float(noise), model[1](torch.ones(64)).tolist()))
            assert run.size == 1 or (draws[0][0] != draws[1][0] and draws[0][1] != draws[1][1])
        loop.step((loop.model(inputs)[:, 0] - targets + 0.1 * noise).square().mean())
        if made == settings.die_after and run.rank == run.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
    np.savez(os.path.join(run.folder, f"final-{run.rank}.npz"), *[one.detach().numpy() for one in model.parameters()])
