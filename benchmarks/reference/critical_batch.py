"""Finds the critical batch of the cifar job by training it at seven batch sizes, beside its gradient noise scale.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/reference/critical_batch.py [--sizes B …] [--seeds N …] [--list]
    python benchmarks/reference/critical_batch.py --report [--pictures FOLDER]
    python benchmarks/reference/critical_batch.py --small --results FOLDER

Every run trains the mini-ResNet on real CIFAR-10 until its training loss is 1.5 (until_target.py). The rate of Adam is
tuned for each batch size: around the square-root rule's, in steps of two, until the best rate lies between two others
(Shallue et al. 2018); a run ends where it can no longer be the best one. The tuning has seed 1; the best rate is then
run with the other seeds. Runs what has no result yet, and can be stopped and called again at any time.

No batch normalization: with it a sample's gradient depends on the samples beside it, so that another batch size would
also be another network. Without it the batch sizes differ only in how many independent gradients a step averages,
which is what the law and the noise scale are about. It is the network of the notebook's first runs. A step's gradient
is accumulated from at least two parts of at most 256 samples, because the library measures the noise scale of one rank
from the parts; its mean is that of the whole batch. Seeds decide the order of the samples: the job's network always
begins with the same weights, as the notebook's.

A raw result (store.py; studies critical_batch and, of the tuning, critical_batch_rates) has in `measured`:
batch, learning_rate; reached, diverged; samples and steps (fractions: interpolated) at the target, and seconds until it
was seen, without the first step; absent if it was not reached; most_samples: where the run would have ended; accuracy
of the last 4,096 samples; images_per_s; data: their layout and fingerprint; noise_scale: the last one;
predicted_critical_batch: what the run's noise scales predict (batch_law.py); curve: lists of samples, steps, seconds,
loss (null before the first whole mean), accuracy, noise_scale with its 80 % range low and high (null: not known), one
value a look.
The study critical_batch_law has the fit (critical_batch_report.py).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

import arguments  # noqa: E402
import critical_batch_report  # noqa: E402
import needs  # noqa: E402
import store  # noqa: E402
import studies  # noqa: E402
from critical_batch_runs import (  # noqa: E402
    FULL,
    LAW,
    SMALL,
    STUDY,
    arguments_of,
    measured,
    settings_of,
    wanted,
    whole,
    words,
)
from one_rank import events_of  # noqa: E402
from rate_search import best_power, next_power  # noqa: E402

from hpclaunch.guidelines.efficiency import Pareto  # noqa: E402

RATES = "critical_batch_rates"
PROGRAM = "benchmarks/reference/until_target.py"
SEEDS = (1, 2, 3)
EXPECTED_LAW = Pareto(fewest_epochs=0.8, critical_batch=500)
EXPECTED_SPEED, EXPECTED_RATES, EXPECTED_START = 1700.0, 3.2, 15.0
"""For the estimate of time: images/s of two cores, runs that a tuning costs, and seconds before a run's first step.
Like the law, which stands in for a fit, guesses from short trials; none is a result."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[], help="global batch sizes; default: all seven")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "critical_batch", help="logs and metrics of the runs"
    )
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the table as Markdown and draw the pictures")
    parser.add_argument("--small", action="store_true", help="tiny made-up data and two batch sizes; needs --results")
    options = arguments.parse(parser)
    options.setup = SMALL if options.small else FULL
    options.sizes = arguments.chosen(parser, "--sizes", options.sizes, options.setup.sizes)
    return options


def wanted_runs(options: argparse.Namespace) -> list[tuple[int, int]]:
    """The batch sizes and seeds that were asked for, all sizes of one seed before the next."""
    return [(batch, seed) for seed in options.seeds for batch in options.sizes]


def finished(options: argparse.Namespace) -> dict[tuple[int, int], Mapping[str, Any]]:
    """What was measured, by batch size and seed; seeds with another rate than the first are not finished."""
    found = store.with_settings(STUDY, wanted(options.small), options.results)
    return {(one.measured["batch"], one.seed): one.measured for some in found.values() for one in some}


def one(options: argparse.Namespace, case: str, batch: int, power: int, seed: int, most: int) -> dict[str, Any]:
    """Run one training; what was measured. Raises RuntimeError if it fails."""
    settings = settings_of(options.setup, batch, power)
    store.say(f"{case}, seed {seed}: begins, rate {settings['learning_rate']:.3g}")
    arguments = arguments_of(options.setup, settings, seed, most)
    events = events_of(PROGRAM, arguments, (options.out / f"{case}-{seed}").resolve(), options.data_dir)
    found = measured(settings, events, most)
    store.say(f"{case}, seed {seed}: {words(found)}")
    return found


def tuned(options: argparse.Namespace, batch: int) -> int:
    """The power of the best rate of a batch size; runs what the search needs. Raises ValueError if there is none."""
    tried: dict[int, float | None] = {}
    while len(tried) != options.setup.most_rates and (power := next_power(tried)) is not None:
        reached = [samples for samples in tried.values() if samples is not None]
        most = int(min(reached) + options.setup.target.lag) if reached else whole(options.setup)
        case = f"batch-{batch}-rate{power:+d}"
        settings = settings_of(options.setup, batch, power)
        result = store.once(
            RATES,
            case,
            SEEDS[0],
            settings,
            lambda case=case, power=power, most=most: one(options, case, batch, power, SEEDS[0], most),
            options.results,
        )
        tried[power] = result.measured.get("samples")
    return best_power(tried)


def run_size(options: argparse.Namespace, batch: int, seed: int) -> None:
    """Make the result of one batch size and seed, if it is missing; the tuning has made that of the first seed."""
    power = tuned(options, batch)
    settings, case = settings_of(options.setup, batch, power), f"batch-{batch}"
    if seed == SEEDS[0] and store.finished(STUDY, case, seed, settings, options.results) is None:
        # The tuning's table has no curves. Where its raw result is gone, the run is made again below.
        of_tuning = store.read_raw(RATES, f"{case}-rate{power:+d}", seed, options.results)
        if of_tuning is not None:
            store.write(replace(of_tuning, study=STUDY, case=case), options.results)
    store.once(
        STUDY,
        case,
        seed,
        settings,
        lambda: one(options, case, batch, power, seed, whole(options.setup)),
        options.results,
    )


def study(options: argparse.Namespace) -> int:
    """Run all that is wanted and missing; the number of failures."""
    failed = 0
    for batch, seed in wanted_runs(options):
        try:
            run_size(options, batch, seed)
        except (RuntimeError, ValueError) as error:
            failed += 1
            store.say(f"batch {batch}, seed {seed}: FAILED: {error}")
    return failed


def expected_law(options: argparse.Namespace) -> tuple[Pareto, str]:
    """The law by which the time is estimated, in epochs, and where it is from: the fit to the results, or a guess."""
    folders = [options.results] if options.small else [options.results, store.RESULTS]
    fits = [(fit.measured, folder) for folder in folders for fit in studies.current(LAW, folder)]
    if not fits:
        return EXPECTED_LAW, "which is a guess"
    found, folder = fits[0]
    fewest, critical = found["fewest_samples"] / options.setup.samples, found["critical_batch"] or math.inf
    return Pareto(fewest_epochs=fewest, critical_batch=critical), f"as fitted to the results in {folder}"


def show(options: argparse.Namespace) -> None:
    """Print what is done, and an estimate of the time of the rest."""
    done = finished(options)
    speeds = [found["images_per_s"] for found in done.values() if "images_per_s" in found]
    speed = sorted(speeds)[len(speeds) // 2] if speeds else EXPECTED_SPEED
    (law, source), seconds = expected_law(options), 0.0
    for batch, seed in wanted_runs(options):
        found = done.get((batch, seed))
        state = words(found) if found else "to do" + (", with its tuning" if seed == SEEDS[0] else "")
        print(f"batch {batch:>4}  seed {seed}  {state}")
        runs = EXPECTED_RATES if seed == SEEDS[0] else 1.0
        seconds += 0.0 if found else runs * (law.epochs(batch) * options.setup.samples / speed + EXPECTED_START)
    print(
        f"about {seconds / 60:.0f} minutes of two cores for the rest, at {speed:.0f} images/s, if the law has "
        f"E_min = {law.fewest_epochs:.3g} epochs and B_crit = {law.critical_batch:,.0f}, {source}, and a tuning costs "
        f"{EXPECTED_RATES:g} runs"
    )


def main() -> int:
    options = parse()
    if options.list:
        show(options)
        return 0
    if options.report:
        needs.matplotlib("--report")
        print(critical_batch_report.report(options.results, options.pictures))
        return 0
    failed = 0
    if set(wanted_runs(options)) <= finished(options).keys():
        store.say_all_finished(len(wanted_runs(options)), options.results)
    else:
        if not options.small:
            options.data_dir = needs.images(options.data_dir, needs.CIFAR10, least=options.setup.samples)
        with store.alone(options.out):
            failed = study(options)
    critical_batch_report.write_law(options.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
