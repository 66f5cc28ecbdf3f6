"""Every study of the reference documents, small: it runs once, not again, and its report has tables and pictures."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.horovod.conftest import LONGEST_S, ROOT, environment

if not (ROOT / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("group plot: needs matplotlib (the extra plot)", allow_module_level=True)

REFERENCE, LARGE_BATCH = ROOT / "benchmarks" / "reference", ROOT / "benchmarks" / "large_batch"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A command with the fewest runs. results: raw file → the names that its `measured` must have, and may have more.

    report: the words of its report. place: the flag of the folder of its runs.
    """

    words: tuple[str, ...]
    results: Mapping[str, str]
    pictures: tuple[str, ...]
    report: tuple[str, ...] = ("--report",)
    place: str = "--out"
    needs: str = ""


CRITICAL = "batch learning_rate reached diverged most_samples accuracy data curve samples steps seconds images_per_s"
SHARPNESS = (
    "batch epoch training_loss training_accuracy test_loss test_accuracy generalization_gap sample_loss sharpness "
    "eigenvalues residuals products seconds data"
)
SHARPNESS_CASES = ("small-batch", "large-batch", "small-batch-loss-above", "small-batch-loss-below")
STUDIES = {
    "hours_to_minutes": Study(
        words=("--cases", "shards-1"),
        results={
            "hours_to_minutes/shards-1-1": "seconds epoch_s images_per_s loss accuracy val_loss val_accuracy "
            "curves test_accuracy learning_rate global_batch_size steps_per_epoch training_images peak_pss_mb "
            "mean_cores use saved_model_accuracy keras_file_accuracy",
            "hours_to_minutes/model-1": "layers",
        },
        pictures=("chips-model.svg", "hours-to-minutes-use.svg", "hours-to-minutes.svg"),
        needs="mpirun",
    ),
    "notebook3": Study(
        words=("--cases", "time-one-device-1"),
        results={
            "notebook3/time-one-device-1-1": "images_per_s loss accuracy test_accuracy curves seconds steps_per_epoch "
            "global_batch_size peak_pss_mb mean_cores"
        },
        pictures=("notebook3.svg",),
    ),
    "parallel_training": Study(
        words=("--parts", "sweep"),
        results={
            "parallel_training/batch-32-constant-1": "seconds test_accuracy training_accuracy training_loss "
            "images_per_s loss accuracy"
        },
        pictures=("parallel_training.svg",),
    ),
    "critical_batch": Study(
        words=(),
        results={
            "critical_batch/batch-16-1": CRITICAL,
            "critical_batch/batch-64-1": CRITICAL,
            "critical_batch_rates/batch-16-rate+0-1": "batch learning_rate reached diverged",
            "critical_batch_law/fit-0": "critical_batch fewest_samples",
        },
        pictures=("critical_batch_noise.svg", "critical_batch_steps.svg"),
    ),
    "sharpness": Study(
        words=(),
        results={f"sharpness/{case}-1": SHARPNESS for case in SHARPNESS_CASES},
        pictures=("sharpness.svg",),
    ),
    "guidelines": Study(
        words=("updates", "--cases", "base"),
        results={"guidelines_updates/base-1": "accuracy loss test_accuracy test_loss images_per_s seconds curve"},
        pictures=("guidelines_updates.svg",),
        report=("report",),
        needs="mpirun",
    ),
    "universes": Study(
        words=(),
        results={
            "universes/data-1": "seconds volumes",
            "universes/train-1": "seconds training_seconds ranks epochs batch omega_m_error omega_m_always_the_mean "
            "omega_m_ratio answers",
        },
        pictures=("universes.svg",),
        place="--work",
        needs="camb",
    ),
}


def python(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment(folder, {}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )


def need(what: str) -> None:
    if what == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("group mpirun: needs Open MPI (openmpi-bin)")
    if what == "camb" and importlib.util.find_spec("camb") is None:
        pytest.skip("group camb: camb is not installed (the dependency group `dev` has it)")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# One that starts ranks and one that does not. What all share, store.py and the tables, is tested with them.
IN_EVERY_RUN = ("hours_to_minutes", "notebook3")


@pytest.mark.parametrize(
    "name", [name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.long_tier) for name in STUDIES]
)
def test_a_study_runs_once_and_its_report_has_a_table_and_pictures(name: str, tmp_path: Path) -> None:
    study, program = STUDIES[name], REFERENCE / f"{name}.py"
    need(study.needs)
    results, again, pictures = (tmp_path / one for one in ("results", "again", "pictures"))
    command = [program, *study.words, "--small", "--seeds", "1", "--results", results, study.place]
    ran = python(tmp_path, *command, tmp_path / "runs")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = contents(results)
    for path, names in study.results.items():
        assert set(names.split()) <= set(json.loads(found[f"raw/{path}.json"])["measured"]), path

    repeated = python(tmp_path, *command, again)
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    assert contents(results) == found
    assert set(contents(again)) <= {"lock"}, "a run was started"

    report = python(tmp_path, program, *study.report, "--results", results, "--pictures", pictures)
    assert report.returncode == ("FALLS SHORT" in report.stdout), report.stdout + report.stderr
    assert "|---|" in report.stdout.replace(" ", "")
    assert sorted(contents(pictures)) == list(study.pictures)
    assert all(b"<svg" in picture for picture in contents(pictures).values())


def test_the_table_of_large_batches(tmp_path: Path) -> None:
    """Runs on made-up images never come into the report, whose plot is here that of the committed results."""
    results, out = tmp_path / "results", tmp_path / "out"
    words = ["--rows", "one", "--seeds", "1", "--epochs", "1", "--smoke", "--results", results, "--out"]
    ran = python(tmp_path, LARGE_BATCH / "study.py", *words, out)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = contents(results)
    (result,) = csv.DictReader(found["large_batch.csv"].decode().splitlines())
    assert all(result[name] for name in ("training_accuracy", "test_accuracy", "images_per_s", "peak_pss_mb", "date"))
    assert [result[name] for name in ("row", "ranks", "synthetic", "epochs")] == ["one", "1", "true", "1"]

    repeated = python(tmp_path, LARGE_BATCH / "study.py", *words, tmp_path / "again")
    assert (repeated.returncode, contents(results)) == (0, found)
    assert not (tmp_path / "again").exists(), "a run was started"

    report = [LARGE_BATCH / "report.py", "--markdown"]
    small = python(tmp_path, *report, "--results", results, "--epochs", "1", "--seeds", "1")
    assert (small.returncode, small.stdout) == (1, "")
    assert small.stderr == f"no results of real images in {results}: run benchmarks/large_batch/study.py first\n"
    committed = python(tmp_path, *report, "--plot", "large.svg")
    assert committed.returncode == 0 and "| 3 of 3 |" in committed.stdout, committed.stderr
    assert b"<svg" in (tmp_path / "large.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("rules", "--jobs", "mnist", "--sites", "local"), "| rule | mnist |"),
        (("data",), "| mnist | 1.20 million | 60,000 |"),
    ],
)
def test_tables_of_the_guidelines_that_need_no_run(words: tuple[str, ...], row: str, tmp_path: Path) -> None:
    shown = python(tmp_path, REFERENCE / "guidelines.py", *words)
    assert shown.returncode == 0, shown.stderr
    assert row in shown.stdout
