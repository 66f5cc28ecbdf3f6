"""Trains CosmoFlow on computed universes, in docs/jobs.md's three commands: the data, the training, the report.

    python benchmarks/reference/universes.py --work FOLDER [--seeds N …] [--list]
    python benchmarks/reference/universes.py --report [--pictures FOLDER]
    python benchmarks/reference/universes.py --small --work FOLDER --results FOLDER

The commands are typed as a user types them, at the site local. It has no job arrays, so each part of the data and each
seed is a submission of its own. The parts, one for each core, run side by side; the trainings one after the other.
Runs what has no result yet: it can be stopped at any time (Ctrl-C and SIGTERM cancel its runs) and called again. The
data stay in FOLDER; files that are there are not made again. FOLDER also holds the runs, and a list of runs of its own.

A raw result (store.py; study universes, cases data and train) has in `measured`
- data: seconds of the submission and all parts, and their volumes; written only if all were made in one go;
- train: seconds from the submission to the end of the run, and training_seconds without start and end; ranks, epochs,
  batch: the global batch size; loss: of the training, one value an epoch; for each parameter, such as omega_m:
  omega_m_error (mean absolute, in its unit), omega_m_always_the_mean and omega_m_ratio, their quotient, as the job's
  report.py prints them; answers: the content of answers.json, rounded.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

import arguments  # noqa: E402
import needs  # noqa: E402
import store  # noqa: E402
import studies  # noqa: E402
import universes_report  # noqa: E402
from universes_cases import FULL, RECIPE, SMALL, STUDY, Setup, settings_of  # noqa: E402
from user_folders import XDG  # noqa: E402

from hpclaunch.core.units import count  # noqa: E402

SEEDS = (1, 2, 3)
DIGITS = 4
"""Of the answers in a result: they lie in -1 .. 1."""
OF_A_LOG = 15
"""Lines of a failed run's log that the error quotes."""


class Failed(Exception):
    """A command that ended with an error, or a run that did not complete, with what it has printed."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the commands run. work: a folder for data, runs and the files of a user; cores: parts of the data."""

    work: Path
    setup: Setup
    cores: int

    @property
    def data(self) -> Path:
        return self.work / "data"

    def hpclaunch(self, *words: str) -> Any:
        """Run a command with --json; what it prints. Raises Failed."""
        home = {name: str(self.work / "home") for name in ("HOME", *XDG)}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HPCLAUNCH_")}
        done = subprocess.run(
            [sys.executable, "-m", "hpclaunch", *words, "--json"],
            cwd=self.work,
            env={**kept, **home, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(f"hpclaunch {' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def completed(self, submissions: list[list[str]]) -> list[Path]:
        """Submit runs at the site local, and wait until all have completed; their directories. Raises Failed.

        If this is interrupted, or one of them fails, all are cancelled.
        """
        runs: list[Path] = []
        try:
            for words in submissions:
                print("hpclaunch submit " + " ".join(words), flush=True)
                runs.append(Path(self.hpclaunch("submit", *words, "--runs-dir", str(self.work / "runs"))["run_dir"]))
            self.hpclaunch("wait", *map(str, runs))
        except BaseException as error:
            if runs:
                self.hpclaunch("cancel", *map(str, runs))
            if isinstance(error, Failed):
                logs = [line for run in runs for log in sorted(run.glob("logs/*")) for line in last_lines(log)]
                raise Failed("\n".join([str(error), *logs])) from None
            raise
        return runs


def last_lines(log: Path) -> list[str]:
    return [f"the end of {log}:", *log.read_text(errors="replace").splitlines()[-OF_A_LOG:]]


def commands(bench: Bench, seed: int) -> tuple[list[list[str]], list[str]]:
    """The words after `submit`: those of each part of the data, and those of the training."""
    made = [word for name, value in bench.setup.data.items() for word in ("--set", f"{name}={value}")]
    data = ["universes", "--site", "local", "--set", f"folder={bench.data}", *made, "--set", f"parts={bench.cores}"]
    training = ["cosmoflow", "--site", "local", "--recipe", RECIPE, "--data-dir", str(bench.data)]
    for name, value in {**bench.setup.training, "seed": seed}.items():
        training += ["--set", f"{name}={value}"]
    return [[*data, "--set", f"part={part}"] for part in range(bench.cores)], training


def volumes_in(folder: Path) -> int:
    """How many volumes the files hold that are there."""
    record = folder / "cosmoflow" / "universes.json"
    files = json.loads(record.read_text())["files"] if record.exists() else {}
    return sum(count for name, count in files.items() if (record.parent / name).exists())


def make_data(bench: Bench, results: Path) -> None:
    """Make the volumes that are missing, all parts at the same time; write a result if all were missing."""
    before, began = volumes_in(bench.data), time.monotonic()
    bench.completed(commands(bench, 0)[0])
    measured = {"seconds": round(time.monotonic() - began, 1), "volumes": volumes_in(bench.data)}
    if before:
        print(f"no result of the data: {before} of {measured['volumes']} volumes were there before", flush=True)
        return
    settings = settings_of(bench.setup)["data"]
    store.write(store.Result(study=STUDY, case="data", seed=1, settings=settings, measured=measured), results)


def train(bench: Bench, seed: int) -> dict[str, Any]:
    """Train with one seed and report; what the result says about it."""
    began = time.monotonic()
    (run,) = bench.completed([commands(bench, seed)[1]])
    seconds = time.monotonic() - began
    report = [sys.executable, str(run / "code" / "report.py"), str(run), "--json"]
    told = subprocess.run(report, capture_output=True, text=True, check=True)
    return {"seconds": round(seconds, 1), **of_metrics(run), **of_report(json.loads(told.stdout)), **of_answers(run)}


def of_metrics(run: Path) -> dict[str, Any]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    start, end = ([event for event in events if event["event"] == kind][-1] for kind in ("start", "end"))
    epochs = [event for event in events if event["event"] == "epoch"]
    found = {"training_seconds": end["seconds"], "ranks": start["world_size"], "epochs": end["epochs"]}
    return {**found, "batch": start["global_batch_size"], "loss": [round(epoch["loss"], 5) for epoch in epochs]}


def of_report(found: Mapping[str, Any]) -> dict[str, float]:
    measured = {}
    for row in found["parameters"]:
        for name in ("error", "always_the_mean", "ratio"):
            measured[f"{row['parameter']}_{name}"] = row[name]
    return measured


def of_answers(run: Path) -> dict[str, Any]:
    found = json.loads((run / "answers.json").read_text())
    rounded = {name: [[round(value, DIGITS) for value in row] for row in found[name]] for name in ("true", "answered")}
    return {"answers": {"targets": found["targets"], **rounded}}


def study(options: argparse.Namespace) -> None:
    """Run what has no result yet. Raises Failed."""
    settings = settings_of(options.setup)
    missing = [
        seed for seed in options.seeds if store.finished(STUDY, "train", seed, settings, options.results) is None
    ]
    if not missing and not options.list:
        store.say_all_finished(len(options.seeds), options.results)
        return
    done = [seed for seed in options.seeds if seed not in missing]
    expected = len(missing) * options.setup.seed_seconds + options.setup.data_seconds * bool(missing)
    print(
        f"done: {done or 'nothing'}; to do: {missing or 'nothing'}, about {count(math.ceil(expected / 60), 'minute')}",
        flush=True,
    )
    if options.list:
        return
    store.make_folder(options.work, "--work")
    bench = Bench(work=options.work.resolve(), setup=options.setup, cores=len(os.sched_getaffinity(0)))
    if volumes_in(bench.data) < options.setup.data["train"] + options.setup.data["validation"]:
        make_data(bench, options.results)
    for seed in missing:
        result = store.Result(study=STUDY, case="train", seed=seed, settings=settings, measured=train(bench, seed))
        store.write(result, options.results)
        print(f"seed {seed}: ratio of Omega_m {result.measured['omega_m_ratio']:.2f}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for data (2.5 GB) and runs")
    parser.add_argument("--seeds", nargs="+", type=arguments.seed, default=list(SEEDS))
    parser.add_argument("--results", type=Path, default=store.RESULTS)
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "pictures", help="of --report: its folder")
    parser.add_argument("--list", action="store_true", help="show what is done and how long the rest takes, and end")
    parser.add_argument("--report", action="store_true", help="print the table as Markdown and draw the picture")
    parser.add_argument("--small", action="store_true", help="a few small volumes and one epoch; needs --results")
    options = arguments.parse(parser)
    options.setup = SMALL if options.small else FULL
    if not options.work and not (options.list or options.report):
        parser.error("name a folder for data and runs with --work")
    return options


def main() -> int:
    options = parse()
    if options.report:
        needs.matplotlib("--report")
        return universes_report.report(studies.current(STUDY, options.results), options.pictures)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the submitted runs are cancelled
    try:
        study(options)
    except Failed as error:
        print(f"universes: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("universes: stopped; its runs are cancelled", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
