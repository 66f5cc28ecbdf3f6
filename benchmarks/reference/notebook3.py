"""Notebook 3 of the bootcamp: Horovod and the strategies of TensorFlow on MNIST and Fashion-MNIST, on this machine.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/reference/notebook3.py [--cases NAME …] [--seeds N …] [--list]
    python benchmarks/reference/notebook3.py --report [--pictures FOLDER]
    python benchmarks/reference/notebook3.py --small --results FOLDER

time-*        throughput of one and two replicas with a core each, for the scaling efficiency: Horovod, multiworker,
              mirrored, central-storage and one-device; 1024 images a replica
few-*         mirrored in float16 (with its loss scale) and in float32, both with few images: TensorFlow
              computes float16 slowly on processors
learn-*       convergence as in the notebook: 8 epochs, Adam 0.001; one rank with 1024 images, 8 replicas with 2048 or
              512 each, which share this machine's cores. The notebook speaks of Fashion-MNIST, and trains on MNIST

FOLDER holds mnist/ and fashion_mnist/, as far as the cases use them. Runs what has no result yet; it can be stopped and
called again at any time.
A raw result (store.py) has in `measured`: images_per_s (the median of the epochs after the first), loss
and accuracy of the last epoch, test_accuracy, curves (a list an epoch), seconds, steps_per_epoch, global_batch_size,
peak_pss_mb and mean_cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comparisons"))

import arguments
import needs
import notebook3_report
import store
from notebook3_cases import STUDY, TIMED_IMAGES, Row, every_row, expected_seconds, settings_of
from study import Outcome, outcome

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in every_row()]
    parser.add_argument("--cases", nargs="+", choices=names, metavar="CASE", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / STUDY, help="logs and metrics of the runs")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the tables as Markdown and draw the picture")
    parser.add_argument("--small", action="store_true", help="tiny made-up images, two replicas; needs --results")
    return arguments.parse(parser)


def wanted(options: argparse.Namespace) -> list[tuple[Row, int]]:
    """The runs that were asked for, in their order: all rows of a seed before the next."""
    rows = [row for row in every_row(options.small) if not options.cases or row.name in options.cases]
    return [(row, seed) for seed in options.seeds for row in rows]


def is_finished(options: argparse.Namespace) -> bool:
    """Whether all that is wanted has a result."""
    runs = [(row.name, seed, settings_of(row)) for row, seed in wanted(options)]
    return store.all_finished(STUDY, runs, options.results)


def find_images(options: argparse.Namespace) -> str:
    """The folder of the images that the wanted runs use. Ends the program if they are not there."""
    used = {switch for row, _ in wanted(options) for switch in row.case.switches}
    read = [one for one in (needs.MNIST, needs.FASHION_MNIST) if f"--dataset={one.name}" in used]
    return needs.images(options.data_dir, *read, least=TIMED_IMAGES)


def measure(options: argparse.Namespace, row: Row, seed: int) -> dict[str, Any]:
    """Run a row with one seed; what was measured. Raises RuntimeError if it fails."""
    case = replace(row.case, name=f"{row.name}-{seed}", switches=(*row.case.switches, f"--seed={seed}"))
    # small: the row has its switches for made-up images already
    place = SimpleNamespace(study=STUDY, small=False, out=options.out, data_dir=options.data_dir)
    return measured(outcome(place, case, row.epochs, pinned=row.pinned))


def measured(found: Outcome) -> dict[str, Any]:
    """The values of a run; the first epoch, in which TensorFlow makes its graphs, counts only for the learning."""
    last = found.epochs[-1]
    looks = found.looks[len(found.looks) // 10 : -(len(found.looks) // 10) or None]
    return {
        "images_per_s": found.samples_per_s,
        "seconds": found.seconds,
        "loss": last["loss"],
        "accuracy": last["accuracy"],
        "test_accuracy": found.end["test_accuracy"],
        "curves": {name: [round(epoch[name], 5) for epoch in found.epochs] for name in ("loss", "accuracy")},
        **{name: found.start[name] for name in ("global_batch_size", "steps_per_epoch")},
        "peak_pss_mb": round(found.peak_pss / 1e6),
        "mean_cores": round(statistics.mean(look.cores for look in looks), 2) if looks else 0.0,
    }


def study(options: argparse.Namespace) -> int:
    """Run all that is wanted and missing; the number of failures."""
    failed, runs = 0, wanted(options)
    for number, (row, seed) in enumerate(runs, start=1):
        which = f"[{number}/{len(runs)}] {row.name}, seed {seed}: "
        try:
            found = store.once(
                STUDY, row.name, seed, settings_of(row), lambda r=row, s=seed: measure(options, r, s), options.results
            )
            store.say(which + words(found.measured))
        except (RuntimeError, OSError) as error:
            failed += 1
            store.say(f"{which}FAILED: {error}")
    return failed


def show(options: argparse.Namespace) -> None:
    """Print what is done, and an estimate of the time of the rest."""
    cores, left = len(os.sched_getaffinity(0)), 0.0
    for row, seed in wanted(options):
        found = store.finished(STUDY, row.name, seed, settings_of(row), options.results)
        expected = expected_seconds(row, cores)
        left += 0 if found else expected
        state = f"done {found.date}: {words(found.measured)}" if found else f"to do, about {expected:.0f} s"
        print(f"{row.name:<36} seed {seed}  {state}")
    print(f"the rest takes about {left / 60:.0f} minutes on {cores} cores")


def words(found: Any) -> str:
    """A result in a line."""
    return f"{found['images_per_s']:.0f} images/s, accuracy {found['accuracy']:.4f}, test {found['test_accuracy']:.4f}"


def main() -> int:
    options = parse()
    if options.report:
        needs.matplotlib("--report")
        print(notebook3_report.report(options.results, options.pictures))
        return 0
    if options.list:
        show(options)
        return 0
    if is_finished(options):
        store.say_all_finished(len(wanted(options)), options.results)
        return 0
    if not options.small:
        options.data_dir = find_images(options)
    with store.alone(options.out):
        return 1 if study(options) else 0


if __name__ == "__main__":
    sys.exit(main())
