"""Command lines of the studies: what is wrong is one error before anything is written, and what is done is said."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.benchmarks.conftest import REFERENCE, forget

BENCHMARKS = REFERENCE.parent
if not BENCHMARKS.is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
pytest.importorskip("numpy", reason="group training: numpy is not installed (the extra `train` brings it)")

Reference = Callable[[str], ModuleType]
STUDIES = {
    "reference/critical_batch": (),
    "reference/guidelines": ("updates",),
    "reference/hours_to_minutes": (),
    "reference/notebook3": (),
    "reference/parallel_training": (),
    "reference/sharpness": (),
    "reference/universes": (),
    "large_batch/study": (),
}


@pytest.fixture
def study(reference: Reference, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Runs a study with its results and its runs in folders of the test, and returns its exit code."""

    def run(program: str, *words: str) -> int:
        folder, name = program.split("/")
        forget()
        monkeypatch.syspath_prepend(str(BENCHMARKS / folder))
        place = "--work" if name == "universes" else "--out"
        places = [f"--results={tmp_path}/results", f"{place}={tmp_path}/out"]
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *STUDIES[program], *places, *words])
        monkeypatch.setattr("signal.signal", lambda *_: None)  # the handlers of the test's process stay
        return int(reference(name).main())

    return run


@pytest.fixture
def refused(study: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Runs a study that must end with 2 and write nothing, and returns the last line of its error."""

    def run(program: str, *words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            study(program, *words)
        assert ended.value.code == 2 and list(tmp_path.iterdir()) == []
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err.splitlines()[-1]

    return run


@pytest.mark.parametrize("program", STUDIES)
@pytest.mark.parametrize("seed", ["-1", "1.5", "one"])
def test_a_seed_is_a_whole_number(refused: Callable[..., str], program: str, seed: str) -> None:
    error = refused(program, "--list", "--seeds", "1", seed)
    assert error.endswith(f"error: argument --seeds: {seed}: a seed is a whole number, 0 or above")


@pytest.mark.parametrize("epochs", ["0", "-2", "1.5"])
def test_there_is_an_epoch_at_least(refused: Callable[..., str], epochs: str) -> None:
    error = refused("large_batch/study", "--smoke", "--epochs", epochs)
    assert error.endswith(f"argument --epochs: {epochs}: a number of epochs is a whole number, 1 or above")


def test_the_least_seed_and_number_of_epochs_are_taken(reference: Reference) -> None:
    arguments = reference("arguments")
    assert (arguments.seed("0"), arguments.epochs("1")) == (0, 1)


@pytest.mark.parametrize(
    ("program", "words", "error"),
    [
        ("hours_to_minutes", "--small --cases shards-1 shards-4", "--cases shards-4: not among shards-1, "),
        ("hours_to_minutes", "--list --cases same-batch-2-none", "--cases same-batch-2-none: not among shards-1, "),
        ("hours_to_minutes", "--cases a b", "--cases a, b: not among "),
        ("parallel_training", "--small --parts ranks", "--parts ranks: not among sweep, equal"),
        ("parallel_training", "--list --parts all", "--parts all: not among sweep, equal, ranks"),
        ("critical_batch", "--small --sizes 128", "--sizes 128: not among 16, 64"),
    ],
)
def test_a_run_that_is_not_of_this_setup_is_refused_with_those_that_are(
    refused: Callable[..., str], program: str, words: str, error: str
) -> None:
    assert f"{program}.py: error: {error}" in refused(f"reference/{program}", *words.split())


def test_all_that_is_allowed_is_taken_if_nothing_is_typed(reference: Reference) -> None:
    parser, chosen = argparse.ArgumentParser(), reference("arguments").chosen
    assert chosen(parser, "--cases", [], ("a", "b")) == ["a", "b"]
    assert chosen(parser, "--cases", ["b"], ("a", "b")) == ["b"]


def write_results(reference: Reference, folder: Path, *runs: tuple[str, str, dict[str, Any]]) -> None:
    """A result with seed 1 of every study, case and settings."""
    store = reference("store")
    for study, case, settings in runs:
        measured = {"batch": settings.get("batch"), "reached": False, "diverged": True}
        store.write(store.Result(study=study, case=case, seed=1, settings=settings, measured=measured), folder)


@pytest.mark.parametrize(
    ("program", "cases", "words"),
    [
        ("critical_batch", "critical_batch_runs", ""),
        ("guidelines", "guidelines_cases", ""),
        ("hours_to_minutes", "hours_to_minutes_cases", ""),
        ("notebook3", "notebook3_cases", ""),
        ("parallel_training", "parallel_cases", "--parts sweep"),
        ("sharpness", "sharpness_cases", ""),
        ("universes", "universes_cases", ""),
    ],
)
def test_a_study_whose_runs_have_results_says_so_and_starts_nothing(
    reference: Reference,
    study: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str,
    cases: str,
    words: str,
) -> None:
    """It needs no images either."""
    monkeypatch.delenv("HPCLAUNCH_DATA_DIR", raising=False)
    module = reference(cases)
    written = {case: settings for case, settings in module.wanted(False).items() if settings.get("cores", 1) == 1}
    written = {
        case: {name: 0.1 if value is None else value for name, value in settings.items()}
        for case, settings in written.items()
    }
    results = tmp_path / "results"
    write_results(reference, results, *((module.STUDY, case, settings) for case, settings in written.items()))
    assert study(f"reference/{program}", "--seeds", "1", *words.split()) == 0
    runs = len(written.keys() - {"model", "data"})  # the network's layers and the volumes are no runs
    what, again = (f"all {runs} runs have results", "them") if runs > 1 else ("the run has its result", "it")
    assert capsys.readouterr().out == f"{what} in {results}; --results NEWFOLDER runs {again} again\n"
    assert not (tmp_path / "out").exists()


def test_the_table_of_large_batches_says_that_all_rows_have_results(
    study: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HPCLAUNCH_DATA_DIR", raising=False)
    monkeypatch.syspath_prepend(str(BENCHMARKS / "large_batch"))
    results, rows = importlib.import_module("results"), importlib.import_module("rows")
    for row in (rows.BY_NAME["one"], rows.BY_NAME["recommended"]):
        values = dict.fromkeys(field.name for field in fields(results.Result)) | {"epochs": 12, "seed": 1}
        values |= {"row": row.name, "switches": list(row.switches), "program": row.program, "ranks": row.ranks}
        results.write(tmp_path / "results", results.Result(**values))
    assert study("large_batch/study", "--rows", "recommended", "one", "--seeds", "1") == 0
    line = f"all 2 runs have results in {tmp_path}/results; --results NEWFOLDER runs them again\n"
    assert capsys.readouterr().out == line


def test_a_network_without_its_layers_is_not_finished(reference: Reference, tmp_path: Path) -> None:
    hours = reference("hours_to_minutes")
    options = argparse.Namespace(cases=["shards-1"], seeds=[1], setup=hours.SMALL, results=tmp_path)
    wanted = reference("hours_to_minutes_cases").wanted(True)
    write_results(reference, tmp_path, ("hours_to_minutes", "shards-1", wanted["shards-1"]))
    assert not hours.is_finished(options)
    write_results(reference, tmp_path, ("hours_to_minutes", "model", wanted["model"]))
    assert hours.is_finished(options)


def test_the_list_of_the_guidelines_has_the_cases_that_were_typed(
    study: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert study("reference/guidelines", "--list", "--cases", "lag", "--seeds", "1", "2") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["lag", "seed", "1", "to", "do"],
        ["lag", "seed", "2", "to", "do"],
    ]


@pytest.mark.parametrize(
    ("program", "flag"),
    [("reference/universes", "--work"), ("reference/sharpness", "--out"), ("large_batch/study", "--out")],
)
def test_a_folder_that_cannot_be_made_is_one_error_with_its_flag(
    study: Callable[..., int], tmp_path: Path, program: str, flag: str
) -> None:
    (tmp_path / "a-file").touch()
    small = "--smoke" if program == "large_batch/study" else "--small"
    with pytest.raises(SystemExit) as ended:
        study(program, small, "--seeds", "4", f"{flag}={tmp_path}/a-file/x")
    fault = f"{flag} {tmp_path}/a-file/x: the folder cannot be made: Not a directory"
    name = program.split("/")[1]
    assert ended.value.code == f"{name}: {fault}\n  next: name another folder with {flag}"
    assert not (tmp_path / "results").exists()
