"""The loss of a batch is the mean of its targets; the program fails after some steps of an attempt."""

import torch

from hpclaunch.training import on_pytorch as training

settings = training.settings(
    epochs=2,
    batch_size_per_rank=2,
    learning_rate=0.05,
    checkpoint_steps=1,
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
)
with training.start(settings) as run:
    data = training.arrays(run, inputs="x", targets="y")
    model = torch.nn.Linear(1, 1)
    loop = training.loop(run, model, torch.optim.SGD(model.parameters(), settings.learning_rate), data)
    for made, (inputs, targets) in enumerate(loop, 1):
        if 0 < settings.stop_after < made:
            raise RuntimeError("the attempt ends here")
        loop.step(targets.mean() + 0 * loop.model(inputs).sum())
