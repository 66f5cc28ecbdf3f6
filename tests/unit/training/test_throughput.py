"""The three functions by which any program tells its speed: as a module, as a copy, and outside a run."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from hpclaunch.training import throughput


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the file, which knows no package, in a run directory."""
    source = Path(throughput.__file__)
    copy = tmp_path / "own_copy.py"
    copy.write_text(source.read_text())
    spec = importlib.util.spec_from_file_location("own_copy", copy)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    monkeypatch.setenv("HPCLAUNCH_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("HPCLAUNCH_WORLD_SIZE", "4")
    return module


def lines(folder: Path) -> list[dict[str, float]]:
    file = folder / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_it_writes_the_steps_and_the_samples_of_all_ranks(copied: ModuleType, tmp_path: Path) -> None:
    copied.begin()
    copied.step(32)
    copied.step(16)
    copied.end()
    found = lines(tmp_path)
    assert [(line["event"], line["steps"], line["samples"]) for line in found] == [
        ("steps", 1, 128),
        ("steps", 1, 64),
    ]
    assert all(line["seconds"] >= 0 for line in found)


def test_steps_without_samples_count_and_what_is_left_at_the_end_too(
    copied: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied, "EVERY_S", 1e9)
    copied.begin()
    for _ in range(5):
        copied.step()
    assert lines(tmp_path) == []
    copied.end()
    (line,) = lines(tmp_path)
    assert line["steps"] == 5 and "samples" not in line
    copied.end()
    assert len(lines(tmp_path)) == 1, "the clock stands still"


@pytest.mark.parametrize(("name", "value"), [("RANK", "1"), ("HPCLAUNCH_RUN_DIR", "")])
def test_other_ranks_and_programs_outside_a_run_write_nothing(
    copied: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    copied.begin()
    copied.step(32)
    copied.end()
    assert lines(tmp_path) == []


def test_a_first_step_without_begin_starts_the_clock(copied: ModuleType, tmp_path: Path) -> None:
    copied.step(32)
    assert lines(tmp_path) == []
    copied.step(32)
    assert len(lines(tmp_path)) == 1
