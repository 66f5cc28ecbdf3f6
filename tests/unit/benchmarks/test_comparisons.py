"""The studies of strategies and jobs: their cases are ones that the jobs take, and their tables hold every column."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.builders import bundled_job

STUDY = Path(__file__).parents[3] / "benchmarks" / "comparisons"
if not STUDY.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.setattr(sys, "path", [str(STUDY), *sys.path])
    names = ("cases", "ranks", "study")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in names[::2]}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return found


def test_every_switch_is_one_of_the_jobs_parameters(modules: dict[str, ModuleType]) -> None:
    cases = modules["cases"]
    switches = [(case.job, switch) for case in cases.ARTICLE for switch in case.switches]
    switches += [(job, switch) for table in (cases.SMALL, cases.TIMED) for job, own in table.items() for switch in own]
    for job, switch in switches:
        name, _, value = switch.removeprefix("--").partition("=")
        bundled_job(job).parameters[name.replace("-", "_")].parse(value)
    assert set(cases.JOBS) == set(cases.SMALL) == set(cases.SMALL_BATCHES) == set(cases.TIMED)


def test_the_articles_batch_is_divided_for_shards_alone(modules: dict[str, ModuleType]) -> None:
    found = {case.name: case.batch for case in modules["cases"].ARTICLE}
    assert found == {
        "shards-1": 64,
        "shards-2": 32,
        "shards-4": 16,
        "generator-1": 64,
        "generator-2": 64,
        "generator-4": 64,
    }


@pytest.mark.parametrize(
    ("typed", "switches"),
    [
        (["article"], []),
        (["article", "--data-dir="], ["--synthetic=true"]),
        (["article", "--image-size=96"], ["--synthetic=true", "--image-size=96"]),
        (["article", "--samples=64"], ["--synthetic=true", "--synthetic-samples=64"]),
    ],
)
def test_photographs_are_drawn_where_there_are_none_of_that_size(
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    typed: list[str],
    switches: list[str],
) -> None:
    (tmp_path / "chips").mkdir()
    monkeypatch.chdir(tmp_path)  # an empty --data-dir is no folder, not this one
    monkeypatch.setattr(sys, "argv", ["study.py", typed[0], f"--data-dir={tmp_path}", *typed[1:]])
    study = modules["study"]
    found = study.data_of(study.parse(), modules["cases"].ARTICLE[0])
    assert found == switches
    for switch in found:
        name, _, value = switch.removeprefix("--").partition("=")
        bundled_job("chips").parameters[name.replace("-", "_")].parse(value)


def test_a_size_is_the_articles_alone(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["study.py", "predictions", "--image-size=96"])
    with pytest.raises(SystemExit):
        modules["study"].parse()
    assert "are of article alone" in capsys.readouterr().err


def test_strategies_of_one_process_have_one_rank(modules: dict[str, ModuleType]) -> None:
    names = ("horovod", "multiworker", "mirrored", "central-storage", "one-device")
    found = [modules["cases"].Case(name=name, job="mnist", replicas=8, batch=1, strategy=name).ranks for name in names]
    assert found == [8, 8, 1, 1, 1]


def test_a_table_has_a_line_for_every_row(modules: dict[str, ModuleType]) -> None:
    text = modules["study"].table([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert text.splitlines() == ["| a | b |", "| --- | --- |", "| 1 | x |", "| 2 | y |"]


def test_a_prediction_is_between_perfect_scaling_and_none(modules: dict[str, ModuleType]) -> None:
    def found(rate: float) -> object:
        return modules["study"].Outcome(seconds=1.0, samples_per_s=rate, peak_pss=0, start={}, epochs=[], end={})

    # One rank: 0.01 s and 0.001 s a sample, so 26 ms with 16 and 42 ms with 32.
    predicted = modules["study"].predicted_step_s(1_000_000, (16, 32), (found(16 / 0.026), found(32 / 0.042)))
    assert 0.042 < predicted < 2 * 0.042
