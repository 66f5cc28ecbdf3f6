"""NERSC's and Intel's guidelines "Distributed Training" (reference document 003), with this project's own figures.

    python benchmarks/reference/guidelines.py rules [--sites perlmutter local] [--jobs NAME ...]
    python benchmarks/reference/guidelines.py data
    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/reference/guidelines.py updates [--cases NAME ...] [--seeds N ...]
    python benchmarks/reference/guidelines.py updates --list
    python benchmarks/reference/guidelines.py report [--pictures FOLDER]
    python benchmarks/reference/guidelines.py updates --small --results FOLDER

rules    what every rule says about every bundled job that trains, from `hpclaunch plan --explain --json`, in Markdown,
         with the notes beside them; `--jobs etalumis` for the network of the guidelines' table of data sets
         (jobs/etalumis)
data     the guidelines' table of data sets, with the project's own jobs and their committed results in it
updates  trains the cifar job with gradient lag, and in two groups that exchange their weights, for the cost in accuracy
report   the table of `updates`, and figures 4 and 5 redrawn from the results of critical_batch.py

`updates` trains on two ranks with a core each, all cases of one seed before the next. It runs what has no result yet,
and can be stopped and called again at any time. A raw result (store.py, study guidelines_updates) has in `measured`:
accuracy and loss of the last epoch, test_accuracy and test_loss, images_per_s (the median of the epochs after the
first), seconds of training, and curve: lists of accuracy and loss, one value an epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "benchmarks" / "large_batch"), str(ROOT)]

import arguments  # noqa: E402
import guidelines_report  # noqa: E402
import guidelines_rules  # noqa: E402
import needs  # noqa: E402
import store  # noqa: E402
from guidelines_cases import BY_NAME, RANKS, SEEDS, STUDY, arguments_of, settings_of  # noqa: E402
from ranks import run  # noqa: E402


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("rules", "data", "updates", "report"))
    parser.add_argument("--sites", nargs="+", default=list(guidelines_rules.SITES))
    parser.add_argument("--jobs", nargs="+", help="of `rules`; default: all that train")
    parser.add_argument("--cases", nargs="+", choices=list(BY_NAME), default=list(BY_NAME), metavar="CASE")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / STUDY, help="logs and metrics of the runs")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--list", action="store_true", help="show what is done, and end")
    parser.add_argument("--small", action="store_true", help="tiny made-up data; needs --results")
    return arguments.parse(parser)


def wanted(options: argparse.Namespace) -> list[tuple[str, int, dict[str, Any]]]:
    """The runs that were asked for, all cases of one seed before the next: their cases, seeds and settings."""
    settings = {name: settings_of(BY_NAME[name], small=options.small) for name in options.cases}
    return [(name, seed, settings[name]) for seed in options.seeds for name in options.cases]


def one(options: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    """Run one training; what was measured. Raises RuntimeError if it fails."""
    folder = (options.out / f"{name}-{seed}").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store.say(f"{name}, seed {seed}: begins")
    arguments = [*arguments_of(settings_of(BY_NAME[name], small=options.small)), f"--seed={seed}"]
    ended = run("jobs/cifar/train.py", arguments, RANKS, folder, options.data_dir, pinned=True)
    if ended.code != 0:
        last = (folder / "log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"ended with {ended.code}; the end of {folder}/log:", *last]))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    found = measured([json.loads(line) for line in lines])
    store.say(f"{name}, seed {seed}: {found['test_accuracy']:.1%} test accuracy, {found['images_per_s']:.0f} images/s")
    return found


def measured(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a result holds (see the module), from the lines of a run's metrics.jsonl."""
    epochs = [event for event in events if event["event"] == "epoch"]
    (end,) = [event for event in events if event["event"] == "end"]
    curve = {name: [round(epoch[name], 5) for epoch in epochs] for name in ("accuracy", "loss")}
    return {
        "accuracy": curve["accuracy"][-1],
        "loss": curve["loss"][-1],
        "test_accuracy": end["test_accuracy"],
        "test_loss": round(end["test_loss"], 5),
        "images_per_s": round(statistics.median(epoch["images_per_s"] for epoch in epochs[1:] or epochs), 1),
        "seconds": end["seconds"],
        "curve": curve,
    }


def study(options: argparse.Namespace) -> int:
    """Run all that is wanted and missing; the number of failures."""
    failed = 0
    for name, seed, settings in wanted(options):
        try:
            store.once(STUDY, name, seed, settings, lambda n=name, s=seed: one(options, n, s), options.results)
        except RuntimeError as error:
            failed += 1
            store.say(f"{name}, seed {seed}: FAILED: {error}")
    return failed


def show(options: argparse.Namespace) -> None:
    """Print what is done."""
    for name, seed, settings in wanted(options):
        found = store.finished(STUDY, name, seed, settings, options.results)
        state = f"done: {found.measured['test_accuracy']:.1%} test accuracy, {found.date}" if found else "to do"
        print(f"{name:<10} seed {seed}  {state}")


def updates(options: argparse.Namespace) -> int:
    if options.list:
        show(options)
        return 0
    if store.all_finished(STUDY, wanted(options), options.results):
        store.say_all_finished(len(wanted(options)), options.results)
        return 0
    if not options.small:
        options.data_dir = needs.images(options.data_dir, needs.CIFAR10)
    with store.alone(options.out):
        return 1 if study(options) else 0


def main() -> int:
    options = parse()
    if options.part == "rules":
        os.chdir(Path(__file__).parent)  # so that --jobs etalumis is found, too
        print(guidelines_rules.report(options.sites, options.jobs))
    elif options.part == "data":
        print(guidelines_report.data_sets(options.results))
    elif options.part == "report":
        needs.matplotlib("report")
        print(guidelines_report.report(options.results, options.pictures))
    else:
        return updates(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
