"""The article "Why Parallelized Training Might Not be Working for You" (Nair 2021) on real CIFAR-10, by submitted runs.

    HPCLAUNCH_DATA_DIR=FOLDER python benchmarks/reference/parallel_training.py [--parts NAME ...] [--seeds N ...]
    python benchmarks/reference/parallel_training.py --list | --report [--pictures FOLDER]
    python benchmarks/reference/parallel_training.py --small --results FOLDER

sweep   batches of 8, 32, 128, 512 on one process, at the rate 0.001 and at one that grows with the batch
equal   a global batch of 32 on 1, 2 and 4 ranks: equal curves, and the price of communication
ranks   four ranks with 8, 32, 128, 512 samples each, and a rate that grows with the global batch

Every training is submitted as anyone would: `hpclaunch submit small_cnn --site local --wait`, in this folder. At a site
with Slurm the sweep is one command (there are no job arrays without a scheduler, so here each run is submitted):

    hpclaunch submit small_cnn --tasks-per-node 1 --sweep batch_size_per_rank=8,32,128,512 --recipe job
    hpclaunch submit small_cnn --tasks-per-node 1 --sweep batch_size_per_rank=8,32,128,512 \\
        --set epochs=10 --set warmup_epochs=0 --set decay=constant

The second one has the rates of the planner's rule, which for SGD is the article's. The article does not publish its
network and its optimizer. Here it is the network of PyTorch's CIFAR-10 tutorial, whose class is called Net as the
article's is, with the tutorial's SGD with momentum 0.9. The runs of `sweep` go side by side, each with one core; all
others have the machine to themselves. Runs what has no result yet, and can be stopped and called again at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

import arguments  # noqa: E402
import needs  # noqa: E402
import parallel_report  # noqa: E402
import store  # noqa: E402
from parallel_cases import FULL, PARTS, SAMPLES, SMALL, SMALL_PARTS, STUDY, Case, arguments_of, measured  # noqa: E402
from user_folders import XDG  # noqa: E402

from hpclaunch.core.units import count  # noqa: E402

SEEDS = (1, 2, 3)
OF_AN_OUTPUT = 15
"""Lines of a failed submission's output that the error quotes."""
DIVERGED = "training has diverged"
"""What a run says that ends because its loss is no number: that is an outcome of too high a rate, not a failure."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=[], metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--data-dir", default=os.environ.get("HPCLAUNCH_DATA_DIR", ""))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / STUDY, help="the run directories")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the tables as Markdown and draw the picture")
    parser.add_argument("--small", action="store_true", help="tiny made-up data and two runs; needs --results")
    options = arguments.parse(parser)
    options.setup = SMALL if options.small else FULL
    parts = SMALL_PARTS if options.small else PARTS
    options.parts = arguments.chosen(parser, "--parts", options.parts, [name for name, cases in parts.items() if cases])
    return options


def cases_of(options: argparse.Namespace) -> list[Case]:
    parts = SMALL_PARTS if options.small else PARTS
    return [case for name in options.parts for case in parts[name]]


def is_finished(options: argparse.Namespace, cores: list[int]) -> bool:
    """Whether all that is wanted has a result."""
    cases = {case.name: case.settings(options.setup, len(cores)) for case in cases_of(options)}
    runs = [(name, seed, settings) for seed in options.seeds for name, settings in cases.items()]
    return store.all_finished(STUDY, runs, options.results)


def submit(options: argparse.Namespace, case: Case, seed: int) -> dict[str, Any]:
    """Submit one training, with the cores of this thread, and wait for it. Raises RuntimeError if it fails."""
    folder = (options.out / f"{case.name}-{seed}").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = ["submit", "small_cnn", "--site", "local", "--wait", *arguments_of(case, options.setup, seed)]
    words += ["--runs-dir", str(folder / "runs")]
    words += [] if options.setup.samples else ["--data-dir", os.path.abspath(options.data_dir)]
    home = {name: str(folder / name) for name in XDG}
    done = subprocess.run(
        [sys.executable, "-m", "hpclaunch", *words],
        cwd=Path(__file__).parent,
        env={**os.environ, **home, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (folder / "output").write_text(done.stdout)
    diverged = done.returncode != 0 and DIVERGED in done.stdout
    if done.returncode and not diverged:
        last = done.stdout.splitlines()[-OF_AN_OUTPUT:]
        raise RuntimeError("\n".join([f"ended with {done.returncode}; the end of {folder}/output:", *last]))
    (run,) = (folder / "runs").glob("small_cnn-*")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    return measured(events, diverged=diverged)


def one(options: argparse.Namespace, case: Case, seed: int) -> bool:
    """Make the result of one case and seed, if it is missing; whether that went well."""
    which, cores = f"{case.name}, seed {seed}", len(os.sched_getaffinity(0))

    def measure() -> dict[str, Any]:
        store.say(f"{which}: begins on {count(cores, 'core')}")
        found = submit(options, case, seed)
        store.say(f"{which}: {words(found)}")
        return found

    try:
        store.once(STUDY, case.name, seed, case.settings(options.setup, cores), measure, options.results)
    except (RuntimeError, ValueError) as error:
        store.say(f"{which}: FAILED: {error}")
        return False
    return True


def study(options: argparse.Namespace, cores: list[int]) -> int:
    """Run all that is missing, all cases of one seed before the next; the number of failures."""
    failed, cases = 0, cases_of(options)
    for seed in options.seeds:
        failed += side_by_side(options, [case for case in cases if not case.alone], seed, cores)
        failed += sum(not one(options, case, seed) for case in cases if case.alone)
    return failed


def side_by_side(options: argparse.Namespace, cases: list[Case], seed: int, cores: list[int]) -> int:
    """Run cases that need one core each, as many at a time as there are cores; the number of failures."""
    free: queue.Queue[int] = queue.Queue()
    for core in cores:
        free.put(core)

    def on_a_core(case: Case) -> bool:
        core = free.get()
        os.sched_setaffinity(0, [core])  # of this thread, and of what it starts
        try:
            return one(options, case, seed)
        finally:
            free.put(core)

    with ThreadPoolExecutor(len(cores)) as threads:
        return sum(not well for well in threads.map(on_a_core, cases))


def show(options: argparse.Namespace, cores: list[int]) -> None:
    """Print what is done, and an estimate of the time of the rest."""
    seconds = 0.0
    for seed in options.seeds:
        for case in cases_of(options):
            found = store.finished(STUDY, case.name, seed, case.settings(options.setup, len(cores)), options.results)
            print(f"{case.name:<22} seed {seed}  {words(found.measured) if found else 'to do'}")
            seconds += 0.0 if found else case.estimate_s(len(cores)) / (1 if case.alone else len(cores))
    print(f"about {seconds / 60:.0f} minutes of {len(cores)} cores for the rest, if nothing else uses them")


def words(found: dict[str, Any]) -> str:
    if "diverged" in found:
        return f"diverged after {len(found['loss'])} epochs"
    share = f", all-reduce {found['communication_share']:.0%} of a step" if "communication_share" in found else ""
    return f"{found['seconds']:.0f} s, test accuracy {found['test_accuracy']:.1%}{share}"


def main() -> int:
    options, cores = parse(), sorted(os.sched_getaffinity(0))
    if options.list:
        show(options, cores)
        return 0
    if options.report:
        needs.matplotlib("--report")
        print(parallel_report.report(options.results, options.pictures))
        return 0
    if is_finished(options, cores):
        store.say_all_finished(len(options.seeds) * len(cases_of(options)), options.results)
        return 0
    if not options.small:
        options.data_dir = needs.images(options.data_dir, needs.CIFAR10, least=SAMPLES)
    with store.alone(options.out):
        return 1 if study(options, cores) else 0


if __name__ == "__main__":
    sys.exit(main())
