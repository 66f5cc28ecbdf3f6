"""The study of parallel training: its runs fit the job, what was measured is read, tables and picture show medians."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpclaunch.config.job import job_of_file

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "benchmarks" / "reference"
if not STUDY.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
JOB = STUDY / "jobs" / "small_cnn" / "job.yaml"


Reference = Callable[[str], ModuleType]


def test_every_case_is_a_submission_that_the_job_takes(reference: Reference) -> None:
    cases, job = reference("parallel_cases"), job_of_file(JOB, "small_cnn")
    names = set()
    for part in cases.PARTS.values():
        for case in part:
            words = cases.arguments_of(case, cases.FULL, seed=1)
            assert words[words.index("--tasks-per-node") + 1] == str(case.ranks)
            for word, text in pairwise(words):
                if word == "--set":
                    name, _, value = text.partition("=")
                    job.parameters[name].parse(value)
            names.add(case.name)
    assert len(names) == 15


def test_rates_and_steps_are_the_articles(reference: Reference) -> None:
    cases = reference("parallel_cases")
    assert [(case.batch, case.learning_rate) for case in cases.SWEEP] == [
        *((batch, 0.001) for batch in (8, 32, 128, 512)),
        *((8, 0.001), (32, 0.004), (128, 0.016), (512, 0.064)),
    ]
    assert [(case.ranks, case.per_rank, case.batch) for case in cases.EQUAL] == [(1, 32, 32), (2, 16, 32), (4, 8, 32)]
    assert [(case.batch, case.learning_rate) for case in cases.SCALED_RANKS][-1] == (2048, 0.256)
    assert cases.SWEEP[0].steps * cases.EPOCHS == 62_500


def test_runs_that_go_side_by_side_have_one_core(reference: Reference) -> None:
    cases = reference("parallel_cases")
    assert {case.settings(cases.FULL, 2)["cores"] for case in cases.SWEEP} == {1}
    assert {case.settings(cases.FULL, 2)["cores"] for case in (*cases.EQUAL, *cases.SCALED_RANKS)} == {2}


def events(seconds: float = 60.0, accuracy: float = 0.6, **communication: Any) -> list[dict[str, Any]]:
    epochs = [
        {"event": "epoch", "epoch": n, "loss": 2.0 / n, "accuracy": accuracy, "images_per_s": 100.0 * n}
        for n in (1, 2, 3)
    ]
    further = [{"event": "communication", **communication}] if communication else []
    return [*epochs, *further, {"event": "end", "epochs": 3, "seconds": seconds, "test_accuracy": accuracy - 0.1}]


def test_a_run_is_read(reference: Reference) -> None:
    measured = reference("parallel_cases").measured
    found = measured(events(all_reduce_s=0.003, step_s=0.005, share=0.6, warning="more than half"))
    assert found["seconds"] == 60 and found["images_per_s"] == 200 and found["loss"] == [2.0, 1.0, 0.66667]
    assert found["communication_share"] == 0.6 and found["communication_warned"] == 1
    assert "communication_share" not in measured(events())
    assert measured(events()[1:])["images_per_s"] == 250  # the middle of 200 and 300
    assert measured(events()[:2], diverged=True) == {"diverged": 1, "loss": [2.0, 1.0]}
    with pytest.raises(ValueError, match="no end"):
        measured(events()[:2])


def written(reference: Reference, folder: Path) -> None:
    """Three runs of every case, and one that has diverged."""
    store, cases = reference("store"), reference("parallel_cases")
    for part in cases.PARTS.values():
        for number, case in enumerate(part):
            for seed in (1, 2, 3):
                shared = {"all_reduce_s": 0.002, "step_s": 0.004, "share": 0.5} if case.ranks > 1 else {}
                found = cases.measured(events(100.0 / (number + 1) + seed, 0.5 + seed / 100, **shared))
                settings = case.settings(cases.FULL, 2)
                one = store.Result(study=cases.STUDY, case=case.name, seed=seed, settings=settings, measured=found)
                store.write(one, folder)
    last = cases.SCALED_RANKS[-1]
    wrong = store.read(cases.STUDY, last.name, 3, folder)
    store.write(replace(wrong, measured=cases.measured(events()[:1], diverged=True)), folder)


def test_the_tables_show_medians_beside_the_article(reference: Reference, tmp_path: Path) -> None:
    written(reference, tmp_path)
    report = reference("parallel_report")
    text = report.tables(report.runs_of(tmp_path))
    assert "| 8 | 62,500 | 102 (101 to 103) | 3.8 | nearly 8 | 42.0% (41.0% to 43.0%) |" in text
    assert "| 1 x 32 | 102 (101 to 103) | 1 | 73 s |  |  |  |" in text
    assert "| 4 x 8 | 35 (34 to 36) | 0.35 | 443 s, 6.1 times | 2.00 | 4.00 | 50% |" in text
    assert "| 4 x 512 | 2048 | 0.256 | 26 (26 to 27) | 0.667 | 41.5% (41.0% to 42.0%); 1 diverged |" in text


def test_the_picture_has_the_articles_panels(reference: Reference, tmp_path: Path) -> None:
    written(reference, tmp_path)
    report = reference("parallel_report")
    panels = report.panels_of(report.runs_of(tmp_path))
    assert [panel.kind for panel in panels] == ["bars", "bars", "curves", "curves", "curves", "bars", "curves", "bars"]
    accuracy = panels[1].series
    assert [series.label for series in accuracy] == ["rate 0.001", "rate grows with the batch"]
    assert list(accuracy[0].x) == ["8", "32", "128", "512"] and accuracy[0].y[0] == pytest.approx(0.42)
    assert [series.x for series in panels[6].series][-1] == [1]  # one of its runs has diverged after an epoch
    here, article = panels[5].series
    assert here.label == "here" and dict(zip(article.x, article.y, strict=True)) == {"1 x 32": 73.0, "4 x 8": 443.0}


def test_a_run_that_diverges_at_once_leaves_the_others_of_its_case(reference: Reference, tmp_path: Path) -> None:
    written(reference, tmp_path)
    store, cases, report = reference("store"), reference("parallel_cases"), reference("parallel_report")
    last = cases.SCALED_RANKS[-1]
    wrong = store.read(cases.STUDY, last.name, 3, tmp_path)
    store.write(replace(wrong, measured=cases.measured([], diverged=True)), tmp_path)
    runs = report.runs_of(tmp_path)
    assert "; 1 diverged |" in report.ranks_table(runs)
    assert [series.x for series in report.panels_of(runs)[6].series][-1] == [1, 2, 3]


def test_runs_on_other_numbers_of_cores_are_in_no_median_together(reference: Reference, tmp_path: Path) -> None:
    written(reference, tmp_path)
    store, cases = reference("store"), reference("parallel_cases")
    case = cases.EQUAL[0]
    one = store.read(cases.STUDY, case.name, 2, tmp_path)
    store.write(replace(one, settings=case.settings(cases.FULL, 4)), tmp_path)
    assert [one.seed for one in reference("parallel_report").runs_of(tmp_path)[case.name]] == [1, 3]


def test_without_runs_the_report_names_the_command(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"run benchmarks/reference/parallel_training\.py first"):
        reference("parallel_report").report(tmp_path, tmp_path)


def test_small_runs_never_go_to_the_committed_results(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["parallel_training.py", "--small"])
    with pytest.raises(SystemExit) as ended:
        reference("parallel_training").main()
    assert ended.value.code == 2 and "name another folder with --results" in capsys.readouterr().err


def test_the_list_estimates_the_rest(
    reference: Reference, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["parallel_training.py", "--list", "--results", str(tmp_path), "--seeds", "1"])
    assert reference("parallel_training").main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16 and lines[0].endswith("seed 1  to do") and "minutes of" in lines[-1]
