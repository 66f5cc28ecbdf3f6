"""The study of notebook 3: its runs are ones that the job takes, its tables show medians and efficiencies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from hpclaunch.core.spec import STRATEGIES
from tests.builders import bundled_job

STUDY = Path(__file__).parents[3] / "benchmarks" / "reference"
if not STUDY.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]


@pytest.mark.parametrize("small", [False, True])
def test_every_row_is_a_run_that_the_job_takes(reference: Reference, small: bool) -> None:
    rows, job = reference("notebook3_cases").every_row(small), bundled_job("mnist")
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.case.strategy in ("horovod", *job.strategies)
        assert row.case.ranks == (row.case.replicas if row.case.strategy in ("horovod", "multiworker") else 1)
        for switch in row.case.switches:
            name, _, value = switch.removeprefix("--").partition("=")
            job.parameters[name.replace("-", "_")].parse(value)
        assert not small or (row.case.replicas <= 2 and "--synthetic=true" in row.case.switches)
    assert {row.case.strategy for row in rows} == set(STRATEGIES)


def test_the_rows_of_the_notebook_have_its_batches(reference: Reference) -> None:
    cases = reference("notebook3_cases")
    rows = {row.name: row for row in cases.every_row()}
    found = {name: (rows[name].case.replicas, rows[name].case.batch, rows[name].epochs) for name in cases.PUBLISHED}
    assert found == {
        "learn-horovod-1": (1, 1024, 8),
        "learn-horovod-8": (8, 2048, 8),
        "learn-mirrored-8-512": (8, 512, 8),
    }
    both = [f"{name}{data}" for name in cases.PUBLISHED for data in ("", "-fashion_mnist")]
    assert not any(rows[name].pinned for name in both)
    float16 = rows["few-mirrored-2-float16"].case
    assert [one for one in float16.switches if "precision" in one] == ["--precision=float16"]


def test_a_replica_of_a_timed_row_has_a_core_to_itself(reference: Reference) -> None:
    for row in reference("notebook3_cases").every_row():
        assert row.pinned == (not row.name.startswith("learn"))
        assert not row.pinned or row.case.replicas <= 2


def test_all_rows_of_a_seed_run_before_the_next(reference: Reference) -> None:
    study = reference("notebook3")
    chosen = SimpleNamespace(small=False, seeds=[1, 2], cases=["learn-horovod-8", "learn-mirrored-8-512"])
    assert [(row.name, seed) for row, seed in study.wanted(chosen)] == [
        ("learn-horovod-8", 1),
        ("learn-mirrored-8-512", 1),
        ("learn-horovod-8", 2),
        ("learn-mirrored-8-512", 2),
    ]


def results(reference: Reference, folder: Path) -> None:
    """Results of every row, made up: each seed is 10 images/s faster, and two replicas are 1.5 times as fast as one."""
    cases, store = reference("notebook3_cases"), reference("store")
    for row in cases.every_row():
        for seed in (1, 2, 3):
            speed = (100 + 10 * seed) * (1.5 if row.case.replicas == 2 else 1)
            measured = {"images_per_s": speed, "seconds": 1.0, "loss": 0.5, "accuracy": 0.9 + seed / 100}
            measured |= {"test_accuracy": 0.9, "peak_pss_mb": 900, "mean_cores": 1.5, "steps_per_epoch": 3}
            measured["curves"] = {"loss": [1.0, 0.5], "accuracy": [0.5, 0.9 + seed / 100]}
            settings = cases.settings_of(row)
            store.write(
                store.Result(study="notebook3", case=row.name, seed=seed, settings=settings, measured=measured), folder
            )


def test_without_results_the_report_says_what_to_run(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"run benchmarks/reference/notebook3\.py first"):
        reference("notebook3_report").report(tmp_path, tmp_path)


def test_small_runs_never_go_to_the_committed_results(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = reference("notebook3")
    monkeypatch.setattr("sys.argv", ["notebook3.py", "--small"])
    with pytest.raises(SystemExit):
        study.parse()
    assert "name another folder" in capsys.readouterr().err


def test_a_study_needs_the_images_of_its_cases_alone(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = reference("notebook3")
    for case, data in (("time-horovod-1", "mnist"), ("time-horovod-1-fashion_mnist", "fashion_mnist")):
        monkeypatch.setattr("sys.argv", ["notebook3.py", "--cases", case, "--data-dir=/none", f"--results={tmp_path}"])
        with pytest.raises(SystemExit, match=rf"/none \(from --data-dir\): does not exist\n  expected: {data} as"):
            study.main()
