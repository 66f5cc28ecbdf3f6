"""As other_ranks_torch.py."""

import numpy as np

from hpclaunch.training import on_jax as training

settings = training.settings(
    epochs=2,
    batch_size_per_rank=2,
    learning_rate=0.05,
    checkpoint_steps=1,
    stop_after={"default": 0, "help": "the steps of this attempt; 0: all"},
)
with training.start(settings) as run:
    data = training.arrays(run, inputs="x", targets="y")
    loop = training.loop(run, {"slope": np.zeros(1, np.float32)}, data)
    for made, (_, targets) in enumerate(loop, 1):
        if 0 < settings.stop_after < made:
            raise RuntimeError("the attempt ends here")
        loop.step(loop.state, targets.mean())
