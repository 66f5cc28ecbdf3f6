"""The article "How to Reduce the Training Time of Your Neural Network from Hours to Minutes", on drawn photographs.

    python benchmarks/reference/hours_to_minutes.py [--cases NAME …] [--seeds N …] [--list]
    python benchmarks/reference/hours_to_minutes.py --report [--pictures FOLDER]
    python benchmarks/reference/hours_to_minutes.py --small --results FOLDER

Runs the job chips on 1, 2 and 4 ranks with both distributions of the data, the options of batch and rate side by side,
and with shear and lens distortion (hours_to_minutes_cases.py). A rank has one core, where the article had a GPU. The
article's photographs cannot be had without an account: `--synthetic` draws discs with and without burns instead, 200 of
96 pixels a side, others for every seed. Runs what has no result yet, all cases of one seed before the next, so that
each time is measured at several moments; it can be stopped and called again at any time.

A raw result (store.py) has in `measured`: seconds of training with validation, as the article times
it; epoch_s: the median of the epochs after the first, images_per_s likewise; loss, accuracy, val_loss, val_accuracy at
the end, and curves: a list an epoch; test_accuracy, learning_rate, global_batch_size, steps_per_epoch, training_images;
peak_pss_mb, mean_cores (without the first and last tenth of the run), use: lists of at_s, pss_mb and cores; of shards
also saved_model_accuracy and keras_file_accuracy, which model/ gives when it is read without hpclaunch. The result
`model` has the layers of the article's network at its full size. The speed-up over one rank is not stored: the report
computes it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import arguments
import hours_to_minutes_report
import needs
import store
from hours_to_minutes_cases import (
    FULL,
    MODEL,
    MODEL_SETTINGS,
    SMALL,
    STUDY,
    Case,
    every_case,
    expected_seconds,
    settings_of,
)
from hours_to_minutes_runs import layers, measure, words

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full, small = ([case.name for case in every_case(setup)] for setup in (FULL, SMALL))
    of_small = f"with --small: {', '.join(small)}"
    parser.add_argument(
        "--cases", nargs="+", default=[], metavar="CASE", help=f"default: all of {', '.join(full)}; {of_small}"
    )
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / STUDY, help="logs and metrics of the runs")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the tables as Markdown and draw the pictures")
    parser.add_argument("--small", action="store_true", help="tiny photographs, two ranks at most; needs --results")
    options = arguments.parse(parser)
    options.setup = SMALL if options.small else FULL
    options.cases = arguments.chosen(parser, "--cases", options.cases, small if options.small else full)
    return options


def wanted(options: argparse.Namespace) -> list[tuple[Case, int]]:
    """The runs that were asked for, in their order."""
    cases = [case for case in every_case(options.setup) if case.name in options.cases]
    return [(case, seed) for seed in options.seeds for case in cases]


def is_finished(options: argparse.Namespace) -> bool:
    """Whether all that is wanted has a result, the network's layers too."""
    runs = [(case.name, seed, settings_of(options.setup, case)) for case, seed in wanted(options)]
    return store.all_finished(STUDY, [*runs, (MODEL, SEEDS[0], MODEL_SETTINGS)], options.results)


def describe_network() -> dict[str, Any]:
    store.say("the network's layers: begins")
    return {"layers": layers()}


def study(options: argparse.Namespace) -> int:
    """Run all that is wanted and missing; the number of failures."""
    failed, runs = 0, wanted(options)
    for number, (case, seed) in enumerate(runs, start=1):
        which = f"[{number}/{len(runs)}] {case.name}, seed {seed}: "

        def made(case: Case = case, seed: int = seed, which: str = which) -> dict[str, Any]:
            store.say(which + "begins")
            found = measure(options.setup, case, seed, options.out.resolve())
            store.say(which + words(found))
            return found

        try:
            store.once(STUDY, case.name, seed, settings_of(options.setup, case), made, options.results)
        except (RuntimeError, OSError) as error:
            failed += 1
            store.say(f"{which}FAILED: {error}")
    try:
        store.once(STUDY, MODEL, SEEDS[0], MODEL_SETTINGS, describe_network, options.results)
    except RuntimeError as error:
        failed += 1
        store.say(f"the network's layers: FAILED: {error}")
    return failed


def show(options: argparse.Namespace) -> None:
    """Print what is done, and an estimate of the time of the rest."""
    cores, left = len(os.sched_getaffinity(0)), 0.0
    for case, seed in wanted(options):
        found = store.finished(STUDY, case.name, seed, settings_of(options.setup, case), options.results)
        expected = expected_seconds(options.setup, case, cores)
        left += 0 if found else expected
        state = f"done {found.date}: {words(found.measured)}" if found else f"to do, about {expected:.0f} s"
        print(f"{case.name:<22} seed {seed}  {state}")
    print(f"the rest takes about {left / 60:.0f} minutes on {cores} cores")


def main() -> int:
    options = parse()
    if options.report:
        needs.matplotlib("--report")
        print(hours_to_minutes_report.report(options.results, options.pictures))
        return 0
    if options.list:
        show(options)
        return 0
    if is_finished(options):
        store.say_all_finished(len(wanted(options)), options.results)
        return 0
    with store.alone(options.out):
        return 1 if study(options) else 0


if __name__ == "__main__":
    sys.exit(main())
