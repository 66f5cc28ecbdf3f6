"""A checkpoint in one file: complete or absent, and found again by every rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.training.checkpoints import one_file
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.disk_calls import disk_calls


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv("HPCLAUNCH_CHECKPOINT_DIR", raising=False)
    place = {"local_rank": 0, "local_size": 1, "host": "n1", "device": "CPU", "threads": 1}
    return World(rank=0, size=1, run_dir=str(tmp_path), **place)  # type: ignore[arg-type]


def test_what_was_saved_last_is_found(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_file.found(world, "state") == ""
    for text in ("one", "two"):
        one_file.save(world, "state", lambda path, text=text: Path(path).write_text(text))  # type: ignore[misc]
    path = one_file.found(world, "state")
    assert Path(path).read_text() == "two"
    assert f"resuming from {path}" in capsys.readouterr().out
    assert [file.name for file in Path(path).parent.iterdir()] == ["state"]


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(world: World) -> None:
    one_file.save(world, "state", lambda path: Path(path).write_text("good"))

    def full(path: str) -> None:
        Path(path).write_text("ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(AgreedError, match="the disk is full"):
        one_file.save(world, "state", full)
    assert Path(one_file.found(world, "state")).read_text() == "good"


def test_the_newest_start_counts_and_removes_what_earlier_ones_left(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(start: str, text: str) -> list[str]:
        monkeypatch.setenv("HPCLAUNCH_START", start)
        one_file.save(world, "state.pt", lambda path: Path(path).write_text(text))
        return sorted(path.name for path in (tmp_path / "checkpoints").iterdir())

    assert save("", "older version") == ["state.pt"]
    assert save("2", "two") == ["state-start-2.pt"]
    assert save("10", "ten") == ["state-start-10.pt"]
    (tmp_path / "checkpoints" / "state-start-2.pt").write_text("late")
    (tmp_path / "checkpoints" / "state-start-2.npz").write_text("of another name")
    assert Path(one_file.found(world, "state.pt")).read_text() == "ten"
    others = ["state-start-2.npz"]
    assert save("10", "eleven") == ["state-start-10.pt", *others]
    # Without a script, or with claims that begin again, the number of the newest goes on.
    assert save("3", "twelve") == save("", "twelve") == ["state-start-10.pt", *others]
    assert Path(one_file.found(world, "state.pt")).read_text() == "twelve"


def test_the_file_is_on_the_disk_before_it_has_its_name(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = disk_calls(monkeypatch)
    one_file.save(world, "state.pt", lambda path: Path(path).write_text("good"))
    folder = tmp_path / "checkpoints"
    assert calls == [f"fsync {folder}/state.pt.new", f"rename {folder}/state.pt", f"fsync {folder}"]
