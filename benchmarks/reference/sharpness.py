"""Sharpness of networks trained with small and with large batches, beside their test accuracy (Keskar et al. 2017).

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/reference/sharpness.py [--seeds N …] [--list]
    python benchmarks/reference/sharpness.py --report [--pictures FOLDER]
    python benchmarks/reference/sharpness.py --small --results FOLDER

Trains jobs/cifar twice for each seed, with batches of 32 and of 512 (an eighth of the images; Keskar et al. take a
tenth), for the same 100 epochs on the same 4,096 images of CIFAR-10, with Adam at the square-root rule's rate. So few
images let the large batch, too, come near a minimum in some minutes of two cores: the claim is about minima. Then it
reads checkpoints of the job, and finds the largest eigenvalues of the Hessian of the training loss over a fixed sample
of the training images, by power iteration (hessian.py). Four networks a seed:

small-batch             after the last epoch
large-batch             after the last epoch
small-batch-loss-below  the small batch's, after the first epoch whose loss is below that of large-batch
small-batch-loss-above  the same an epoch earlier: eigenvalues depend on the loss, which the two batches do not bring
                        down alike in the same epochs, so the comparison at equal loss lies between these two

No batch normalization. With it the loss does not change when the weights before it are scaled, but the Hessian does
(Dinh et al. 2017, arXiv 1703.04933); and with fixed statistics the Hessian would be that of another function than the
one that was trained. It is also the network of critical_batch.py.

A raw result (store.py, study sharpness) has in `measured`: batch, epoch; training_loss and training_accuracy over all
images of the training, test_loss and test_accuracy, generalization_gap (training minus test accuracy), all of the final
weights; sample_loss; sharpness: the largest eigenvalue; eigenvalues, the largest absolute ones first, with residuals
and products (hessian.py); seconds of all products; data: their layout and fingerprint.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

import arguments  # noqa: E402
import needs  # noqa: E402
import sharpness_report  # noqa: E402
import store  # noqa: E402
from medians import three_digits  # noqa: E402
from one_rank import data_of, events_of, of_kind  # noqa: E402
from sharpness_cases import (  # noqa: E402
    CASES,
    FULL,
    LARGE_BATCH,
    LOSS_ABOVE,
    LOSS_BELOW,
    SMALL,
    SMALL_BATCH,
    STUDY,
    batches,
    settings_of,
)

if TYPE_CHECKING:
    from trained_network import Images, TrainedNetwork

PROGRAM = "jobs/cifar/train.py"
SEEDS = (1, 2, 3)
EXPECTED_SPEED, COST_OF_A_PRODUCT = 1700.0, 2.0
"""For the estimate of time: images/s of two cores, and a product with the Hessian in gradients of the same images.
Guesses, from short trials."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "sharpness", help="logs and checkpoints of the runs"
    )
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the table as Markdown and draw the picture")
    parser.add_argument("--small", action="store_true", help="tiny made-up data; needs --results")
    options = arguments.parse(parser)
    options.setup = SMALL if options.small else FULL
    return options


def arguments_of(settings: dict[str, Any], seed: int) -> list[str]:
    """The command line of a training, which keeps the checkpoints of all its epochs."""
    samples = settings["train_samples"]
    data = (
        ["--synthetic=true", f"--synthetic-samples={samples}"]
        if settings["synthetic"]
        else [f"--train-samples={samples}"]
    )
    return [
        *data,
        f"--optimizer={settings['optimizer']}",
        f"--batch-size-per-rank={settings['batch']}",
        f"--learning-rate={settings['learning_rate']:.9g}",
        f"--batch-norm={settings['batch_norm']}",
        f"--epochs={settings['epochs']}",
        f"--keep-checkpoints={settings['epochs']}",
        f"--seed={seed}",
        "--checkpoint-minutes=0",
        "--validation-every=0",
        "--noise-scale=false",
        "--export-model=false",
    ]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A finished training. checkpoints: their folder, by epoch from 1."""

    settings: dict[str, Any]
    start: dict[str, Any]
    data: dict[str, str]
    checkpoints: dict[int, Path]


def trained(options: argparse.Namespace, case: str, batch: int, seed: int) -> Training:
    """Run one training. Raises RuntimeError if it fails, or if a checkpoint is missing."""
    folder = (options.out / f"{case}-{seed}").resolve()
    settings = settings_of(options.setup, batch)
    store.say(f"{case}, seed {seed}: training begins")
    events = events_of(PROGRAM, arguments_of(settings, seed), folder, options.data_dir, keep_checkpoints=True)
    start = of_kind(events, "start")[0]
    found = {
        epoch: folder / "checkpoints" / f"step-{epoch * start['steps_per_epoch']:08d}"
        for epoch in range(1, options.setup.epochs + 1)
    }
    missing = [path for path in found.values() if not path.is_dir()]
    if missing:
        raise RuntimeError(f"{missing[0]}: there is no such checkpoint")
    return Training(settings=settings, start=start, data=data_of(events), checkpoints=found)


def measured(network: TrainedNetwork, images: Images, training: Training, epoch: int) -> dict[str, Any]:
    """What a result holds (see the module) of the weights after an epoch."""
    network.read(training.checkpoints[epoch])
    settings, began = training.settings, time.perf_counter()
    pairs = network.sharpness(*images.sample, settings["eigenvalues"], settings["tolerance"], settings["most"])
    seconds = time.perf_counter() - began
    training_loss, training_accuracy = network.evaluate(*images.training)
    test_loss, test_accuracy = network.evaluate(*images.test)
    return {
        "batch": settings["batch"],
        "epoch": epoch,
        "training_loss": training_loss,
        "training_accuracy": training_accuracy,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
        "generalization_gap": training_accuracy - test_accuracy,
        "sample_loss": network.evaluate(*images.sample)[0],
        "sharpness": max(pair.value for pair in pairs),
        "eigenvalues": [pair.value for pair in pairs],
        "residuals": [pair.residual for pair in pairs],
        "products": [pair.products for pair in pairs],
        "seconds": round(seconds, 1),
        "data": training.data,
    }


def epoch_below(network: TrainedNetwork, images: Images, training: Training, loss: float) -> int:
    """The first epoch after which the loss of the sample is below `loss`; with the few made-up images the last epoch.

    Raises RuntimeError if there is none, or none before it.
    """
    if training.settings["synthetic"]:
        return max(training.checkpoints)
    for epoch in sorted(training.checkpoints):
        network.read(training.checkpoints[epoch])
        if network.evaluate(*images.sample)[0] < loss:
            if epoch > 1:
                return epoch
            break
    raise RuntimeError(f"no two epochs of the small batch have losses above and below {loss:.3g}, the large batch's")


def run_seed(options: argparse.Namespace, seed: int) -> None:
    """Make the results of a seed, unless all are there. Raises RuntimeError if a training fails."""
    sizes = batches(options.setup)
    wanted = {case: settings_of(options.setup, batch) for case, batch in sizes.items()}
    if all(store.finished(STUDY, case, seed, settings, options.results) for case, settings in wanted.items()):
        return
    small, large = (trained(options, case, sizes[case], seed) for case in (SMALL_BATCH, LARGE_BATCH))
    from trained_network import TrainedNetwork, images_of  # TensorFlow comes after the trainings, which have all cores

    images = images_of(small.start, options.data_dir, options.setup.sample)
    network, last = TrainedNetwork(), options.setup.epochs
    network.read(large.checkpoints[last])
    below = epoch_below(network, images, small, network.evaluate(*images.sample)[0])
    of_small = {SMALL_BATCH: last, LOSS_ABOVE: below - 1, LOSS_BELOW: below}
    networks = [(LARGE_BATCH, large, last), *((case, small, epoch) for case, epoch in of_small.items())]
    for case, training, epoch in networks:
        found = measured(network, images, training, epoch)
        store.write(
            store.Result(study=STUDY, case=case, seed=seed, settings=wanted[case], measured=found), options.results
        )
        store.say(f"{case}, seed {seed}: {words(found)}")
    for training in (small, large):
        shutil.rmtree(training.checkpoints[last].parent)


def words(found: dict[str, Any]) -> str:
    """A result in words."""
    return (
        f"epoch {found['epoch']}, training loss {found['training_loss']:.3f}, "
        f"largest eigenvalue {three_digits(found['sharpness'])}, "
        f"{found['training_accuracy']:.1%} training and {found['test_accuracy']:.1%} test accuracy"
    )


def show(options: argparse.Namespace) -> None:
    """Print what is done, and an estimate of the time of the rest."""
    setup, minutes = options.setup, 0.0
    for seed in options.seeds:
        found = [
            store.finished(STUDY, case, seed, settings_of(setup, batch), options.results)
            for case, batch in batches(setup).items()
        ]
        for case, result in zip(CASES, found, strict=True):
            print(f"{case:<22} seed {seed}  {words(dict(result.measured)) if result else 'to do'}")
        if not all(found):
            gradients = 2 * setup.epochs * setup.samples
            gradients += int(len(found) * setup.eigenvalues * setup.most * COST_OF_A_PRODUCT * setup.sample)
            minutes += gradients / EXPECTED_SPEED / 60
    print(
        f"at most about {minutes:.0f} minutes of two cores for the rest, at {EXPECTED_SPEED:.0f} images/s, "
        f"if a product with the Hessian takes as long as {COST_OF_A_PRODUCT:g} gradients"
    )


def wanted(options: argparse.Namespace) -> list[tuple[str, int, dict[str, Any]]]:
    """The networks that were asked for: their cases, seeds and settings."""
    return [
        (case, seed, settings_of(options.setup, batch))
        for seed in options.seeds
        for case, batch in batches(options.setup).items()
    ]


def study(options: argparse.Namespace) -> int:
    """Run all that is wanted and missing; the number of failed seeds."""
    failed = 0
    for seed in options.seeds:
        try:
            run_seed(options, seed)
        except RuntimeError as error:
            failed += 1
            store.say(f"seed {seed}: FAILED: {error}")
    return failed


def main() -> int:
    options = parse()
    if options.list:
        show(options)
        return 0
    if options.report:
        needs.matplotlib("--report")
        print(sharpness_report.report(options.results, options.pictures))
        return 0
    if store.all_finished(STUDY, wanted(options), options.results):
        store.say_all_finished(len(wanted(options)), options.results)
        return 0
    if not options.small:
        options.data_dir = needs.images(options.data_dir, needs.CIFAR10, least=options.setup.samples)
    with store.alone(options.out):
        return 1 if study(options) else 0


if __name__ == "__main__":
    sys.exit(main())
