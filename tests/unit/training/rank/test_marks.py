"""The marks of a training in its start: begun, and ended with all its work; by rank 0, and by no superseded start."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.training.rank import fence, marks
from hpclaunch.training.rank.failure import EXIT_FILE_VARIABLE, TrainingError
from hpclaunch.training.rank.world import World


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a start."""
    folder = tmp_path / "attempts/7.0"
    folder.mkdir(parents=True)
    (tmp_path / "claims").mkdir()
    monkeypatch.setenv(EXIT_FILE_VARIABLE, str(folder / "first-failure"))
    monkeypatch.setenv(fence.RUN_VARIABLE, str(tmp_path))
    monkeypatch.setenv(fence.START_VARIABLE, "1")
    return folder


def rank(number: int = 0) -> World:
    return World(number, 2, number, 2, "node0", "CPU", 1, "/nowhere")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rank_0_marks_the_beginning_and_the_end(start: Path) -> None:
    marks.begin(rank())
    assert names(start) == ["training"]
    marks.end(rank())
    assert names(start) == ["trained", "training"]
    marks.begin(rank())
    assert names(start) == ["training"], "a further training of the same start has not ended"


def test_other_ranks_and_programs_without_a_script_mark_nothing(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks.begin(rank(1))
    marks.end(rank(1))
    assert names(start) == []
    monkeypatch.delenv(EXIT_FILE_VARIABLE)
    monkeypatch.chdir(start)
    marks.begin(rank())
    marks.end(rank())
    assert names(start) == []


def test_a_mark_that_cannot_be_written_ends_the_training(start: Path) -> None:
    for name, mark in (("training", marks.begin), ("trained", marks.end)):
        (start / name).mkdir()
        with pytest.raises(TrainingError) as caught:
            mark(rank())
        assert str(caught.value).startswith(f"cannot write {start / name}: Is a directory. Without this mark")
        (start / name).rmdir()


def test_a_superseded_start_marks_nothing(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    (tmp_path / "claims/2").touch()
    for mark in (marks.begin, marks.end):
        with pytest.raises(SystemExit) as caught:
            mark(rank())
        assert caught.value.code == 75
    assert not {"training", "trained"} & {*names(start)}
    said = capfd.readouterr().err
    assert said.count("start 1 of this run ends here and writes nothing more") == 1
    assert "a later start has taken the run over (claims/2)" in said
