"""The cifar job on one rank until its training loss reaches a target; metrics.jsonl tells how it got there.

    python benchmarks/reference/until_target.py --target-loss=1.5 --every=4096 --most-samples=500000 [its options]

Settings, model, data and steps are those of jobs/cifar. Added are the end at the target and, after every so many
samples, a line "look": the mean loss and accuracy, and the gradient noise scale that the library measures. The last
line, "crossing", has the samples to the target, or null if `most_samples` or a divergence came first.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "jobs" / "cifar")]  # for looks.py and the job's model.py

from hpclaunch import training  # noqa: E402

OWN = {
    "target_loss": {"default": 1.5, "above": 0, "help": "training loss at which to end"},
    "every": {"default": 4096, "at_least": 1, "help": "samples between two looks at the loss"},
    "most_samples": {"default": 1_000_000, "at_least": 1, "help": "samples after which to give up"},
}


def train(run: training.Run) -> None:
    from looks import Ended, Looks
    from model import CIFAR10, mini_resnet

    from hpclaunch.training.rank.failure import AgreedError

    if run.size > 1:
        raise AgreedError("the loss of one rank's batches is no mean of all: start one rank", speaks=run.is_root)
    looks = Looks(run, run.settings.batch_size_per_rank * run.settings.accumulation)
    data = training.image_set(run, CIFAR10)
    normalization = training.batch_norm(run, momentum=0.9)
    try:
        training.fit(run, lambda: mini_resnet(normalization, white=255), data, callbacks=[looks.noise, looks])
    except Ended:
        pass
    except AgreedError as error:
        if "diverged" not in str(error):
            raise
        looks.diverged = True  # the library's own check was first
    looks.report()


def main() -> None:
    job = str(ROOT / "jobs" / "cifar" / "train.py")
    settings = training.settings("The cifar job until its training loss reaches a target.", job, **OWN)
    settings.noise_scale = False  # this program has its own
    with training.start(settings, "until_target") as run:
        train(run)


if __name__ == "__main__":
    main()
