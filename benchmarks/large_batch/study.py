"""Reruns the reference notebook's large-batch table on real CIFAR-10: 8 ranks, 512 images a rank, 12 epochs, 3 seeds.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/large_batch/study.py [--rows NAME …] [--seeds N …] [--list]
    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/large_batch/study.py --epochs 2  # for images/s
    python benchmarks/large_batch/report.py

Runs what has no result yet, all rows of one seed before the next, and writes each finished run into the table of
results/: it can be stopped at any time and called again. On two cores a run takes some ten minutes. A result whose row
has other switches by now is made again. FOLDER holds cifar10/ (`hpclaunch data fetch cifar`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reference"))

import arguments
import needs
import results
import store
from ranks import ROOT, run
from rows import BATCH_SIZE_PER_RANK, BY_NAME, EPOCHS, ROWS, SEEDS, Row

# Small, fast and made up: shows that every row still runs, nothing else.
SMOKE = ("--synthetic=true", "--synthetic-samples=64", "--batch-size-per-rank=8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(BY_NAME), default=list(BY_NAME), metavar="ROW")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--epochs", type=arguments.epochs, default=EPOCHS)
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=results.RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "large_batch", help="logs and metrics of the runs")
    parser.add_argument("--list", action="store_true", help="show what is done, and end")
    parser.add_argument("--smoke", action="store_true", help="tiny made-up data and two ranks; needs --results")
    return arguments.parse(parser, small="smoke")


def is_finished(options: argparse.Namespace, row: Row, seed: int) -> bool:
    """Whether the row as it is now has a result with this seed."""
    return results.current(row, results.read(options.results, options.epochs, row.name, seed))


def state(options: argparse.Namespace, row: Row, seed: int) -> str:
    """What is known of a run, in words."""
    found = results.read(options.results, options.epochs, row.name, seed)
    if found is not None and results.current(row, found):
        return f"done: {found.training_accuracy:.1%} training, {found.test_accuracy:.1%} test accuracy, {found.date}"
    begun = folder_of(options, row, seed) / "metrics.jsonl"
    lines = [json.loads(line) for line in begun.read_text().splitlines()] if begun.exists() else []
    epochs = [line for line in lines if line["event"] == "epoch"]
    if epochs and len(epochs) < options.epochs:
        return f"begun: epoch {len(epochs)} of {options.epochs}, {epochs[-1]['accuracy']:.1%} training accuracy"
    return "to do" if found is None else "to do again: the row's switches have changed"


def folder_of(options: argparse.Namespace, row: Row, seed: int) -> Path:
    """Where a run leaves its log and its metrics."""
    return Path(options.out, f"epochs-{options.epochs}", f"{row.name}-{seed}").resolve()


def one(options: argparse.Namespace, row: Row, seed: int) -> str:
    """Run one row with one seed and write its result; returns it in words. Raises RuntimeError if the run fails."""
    folder = folder_of(options, row, seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [f"--seed={seed}", f"--epochs={options.epochs}", *row.switches]
    arguments += SMOKE if options.smoke else [f"--batch-size-per-rank={BATCH_SIZE_PER_RANK}"]
    ended = run(row.program, arguments, row.ranks, folder, options.data_dir)
    if ended.code != 0:
        last = (folder / "log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"ended with {ended.code}; the end of {folder}/log:", *last]))
    result = results.from_run(row, seed, folder, ended)
    results.write(options.results, result)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return (
        f"{result.training_accuracy:.1%} training, {result.test_accuracy:.1%} test accuracy, "
        f"{result.images_per_s:.0f} images/s, {result.peak_pss_mb / 1000:.1f} GB, {ended.seconds:.0f} s"
    )


def study(options: argparse.Namespace, wanted: list[tuple[Row, int]]) -> int:
    """Run all that is wanted and missing; the number of failed runs."""
    failed = 0
    for number, (row, seed) in enumerate(wanted, start=1):
        if is_finished(options, row, seed):
            continue
        which = f"[{number}/{len(wanted)}] {row.name}, seed {seed}: "
        store.say(which + "begins")
        try:
            found = one(options, row, seed)
        except (RuntimeError, ValueError) as error:
            failed += 1
            found = f"FAILED: {error}"
        store.say(which + found)
    return failed


def main() -> int:
    options = parse()
    rows = [row for row in ROWS if row.name in options.rows]
    if options.smoke:
        rows = [Row(**{**row.__dict__, "ranks": min(2, row.ranks)}) for row in rows]
    wanted = [(row, seed) for seed in options.seeds for row in rows]
    if options.list:
        for row, seed in wanted:
            print(f"{row.name:<20} seed {seed}  {state(options, row, seed)}")
        return 0
    if all(is_finished(options, row, seed) for row, seed in wanted):
        store.say_all_finished(len(wanted), options.results)
        return 0
    if not options.smoke:
        options.data_dir = needs.images(options.data_dir, needs.CIFAR10)
    with store.alone(options.out):
        return 1 if study(options, wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
