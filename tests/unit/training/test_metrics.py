"""The lines of metrics.jsonl: their start, also when its numbers begin again, and what a checkpoint relies on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="group training: numpy is not installed")

from hpclaunch.training.metrics import kept_bytes, metrics_log
from hpclaunch.training.rank.failure import TrainingError
from tests.unit.training.disk_calls import disk_calls, synced_sizes


@pytest.fixture(autouse=True)
def of_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPCLAUNCH_RUN_DIR", raising=False)


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, start: str, **values: Any) -> dict[str, Any]:
    monkeypatch.setenv("HPCLAUNCH_START", start)
    metrics_log(str(folder), True, synthetic=False).write("x", **values)
    line = (folder / "metrics.jsonl").read_text().splitlines()[-1]
    return json.loads(line)  # type: ignore[no-any-return]


def test_what_json_has_no_number_for_is_null(tmp_path: Path) -> None:
    log = metrics_log(str(tmp_path), True, False)
    log.write("epoch", loss=float("nan"), parts={"a": [float("inf"), 1.0]}, best=-float("inf"), seconds=2.0)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    line = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert (line["loss"], line["parts"], line["best"], line["seconds"]) == (None, {"a": [None, 1.0]}, None, 2.0)


def test_every_line_tells_its_start_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = written(tmp_path, monkeypatch, "2", loss=1.0)
    assert [*line][-2:] == ["loss", "start_number"] and line["start_number"] == 2
    assert written(tmp_path, monkeypatch, "2", start_number=9)["start_number"] == 2  # no program can change it
    assert "start_number" not in written(tmp_path, monkeypatch, "")


def test_lines_never_count_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has removed the claims; a reader must not take the new lines for those of a superseded start."""
    for start, expected in (("1", 1), ("3", 3), ("2", 3), ("1", 3), ("4", 4)):
        assert written(tmp_path, monkeypatch, start)["start_number"] == expected
        with (tmp_path / "metrics.jsonl").open("a") as file:  # whatever else is there
            file.write('{"start_number": "5"}\n{"start_number": true}\n[]\nno line')
            file.write("\n")


def test_what_an_earlier_start_still_sends_changes_no_line_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS a line is a write at an offset, which may arrive when the later start has a line there."""
    written(tmp_path, monkeypatch, "1")
    path = tmp_path / "metrics.jsonl"
    with path.open("r+b") as cut_off:
        cut_off.seek(0, os.SEEK_END)
        written(tmp_path, monkeypatch, "2", loss=1.0)
        before = path.read_bytes()
        cut_off.write(b"a line that was on its way\n")
    assert path.read_bytes() == before and before.count(b"\n") == 2
    assert [one.name for one in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_the_copy_is_whole_before_it_takes_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, "1")
    calls, path = disk_calls(monkeypatch), tmp_path / "metrics.jsonl"
    sizes, before = synced_sizes(monkeypatch), path.stat().st_size
    written(tmp_path, monkeypatch, "2")
    assert calls == [f"fsync {path}.new", f"rename {path}"]
    assert sizes == {"metrics.jsonl.new": before}
    number = path.stat().st_ino
    written(tmp_path, monkeypatch, "")  # a program without a script
    assert path.stat().st_ino == number


def test_a_copy_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, "1")
    (tmp_path / "metrics.jsonl.new").symlink_to("/dev/full")
    with pytest.raises(TrainingError, match=r"cannot write metrics: .*: No space left on device"):
        written(tmp_path, monkeypatch, "2")


def test_a_number_is_found_at_the_end_of_a_long_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"event": "x", "text": "%s"}\n' % ("a" * 100_000))
    assert written(tmp_path, monkeypatch, "5")["start_number"] == 5
    assert written(tmp_path, monkeypatch, "2")["start_number"] == 5


def test_the_lines_that_a_checkpoint_continues_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_bytes(str(tmp_path)) == 0
    written(tmp_path, monkeypatch, "")
    calls = disk_calls(monkeypatch)
    path = tmp_path / "metrics.jsonl"
    assert (kept_bytes(str(tmp_path)), calls) == (path.stat().st_size, [f"fsync {path}"])
