"""The report of the job cosmoflow: errors in the parameters' own units, beside those of always answering the mean."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hpclaunch.config.catalog import bundled


def module() -> ModuleType:
    folder = str(bundled("jobs") / "cosmoflow")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("report")
    finally:
        sys.path.remove(folder)
        sys.modules.pop("report", None)


report = module()
TARGETS = [{"name": "omega_m", "low": 0.2, "high": 0.4}, {"name": "h_0", "low": 60.0, "high": 80.0}]
TRUE = [[-1.0, 0.5], [0.0, 0.5], [1.0, -1.0]]


def a_run(folder: Path, answered: list[list[float]], seed: int | None = None) -> str:
    folder.mkdir(parents=True)
    (folder / "answers.json").write_text(json.dumps({"targets": TARGETS, "true": TRUE, "answered": answered}))
    if seed is not None:
        line = {
            "event": "start",
            "options": {"seed": seed, "epochs": 9},
            "data": {"samples": {"train": 3}},
            "world_size": 2,
        }
        (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    return str(folder)


def test_errors_are_in_the_units_of_the_parameters(tmp_path: Path) -> None:
    """Omega_m: the errors 0.5, 0, 0.1 of a half-range of 0.1; the mean is 0, and the true values differ by 1, 0, 1."""
    run = a_run(tmp_path / "run", [[-0.5, 0.0], [0.0, 0.0], [0.9, 0.0]])
    omega, hubble = report.errors(report.read(run))
    assert (omega["parameter"], hubble["parameter"]) == ("omega_m", "h_0")
    assert omega["error"] == pytest.approx(0.1 * 0.6 / 3)
    assert omega["always_the_mean"] == pytest.approx(0.1 * 2 / 3)
    assert (hubble["error"], hubble["always_the_mean"]) == (pytest.approx(10 * 2 / 3), pytest.approx(10 * 2 / 3))


def test_the_runs_of_a_sweep_have_a_median(tmp_path: Path) -> None:
    for seed, wrong in enumerate((0.3, 0.6, 0.0), 1):
        a_run(tmp_path / f"000{seed}", [[-1.0, 0.0], [0.0, 0.0], [1.0 - wrong, 0.0]], seed)
    (tmp_path / "logs").mkdir()
    found = report.summary([report.read(run) for run in report.runs_of([str(tmp_path)])])
    omega, _ = found["parameters"]
    assert omega["ratios"] == pytest.approx([0.15, 0.3, 0.0])
    assert omega["ratio"] == pytest.approx(0.15)
    assert [run["seed"] for run in found["runs"]] == [1, 2, 3]
    head, first, *_, last = report.table(found).splitlines()
    assert head.split("  ")[0] == "parameter"
    assert first.split() == ["omega_m", "0.01", "0.06667", "0.15", "(runs:", "0.15", "0.30", "0.00)"]
    assert last == "run: held out 3, seed 3, epochs 9, train samples 3, world size 2"


def test_a_folder_without_answers_is_told(tmp_path: Path) -> None:
    with pytest.raises(report.Refused, match=r"neither this folder nor one in it has answers\.json\n  next: name"):
        report.runs_of([str(tmp_path)])
    run = a_run(tmp_path / "run", TRUE[:2])
    with pytest.raises(report.Refused, match=r"answers\.json: no answers of cosmoflow"):
        report.read(run)
