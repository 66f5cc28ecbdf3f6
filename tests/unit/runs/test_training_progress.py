"""How far a training is: events that are appended, repeated after a restart, cut short, or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.runs import training_progress
from hpclaunch.runs.training_progress import ProgressReader, TrainingProgress


def write(folder: Path, *events: dict[str, Any], mode: str = "a") -> None:
    with (folder / "metrics.jsonl").open(mode) as file:
        file.write("".join(f"{json.dumps(event)}\n" for event in events))


def start(epochs: int = 10) -> dict[str, Any]:
    return {"event": "start", "time": 1000.0, "options": {"epochs": epochs}}


def epoch(number: int, time: float, loss: float | None = None, seconds: float = 5.0) -> dict[str, Any]:
    return {"event": "epoch", "epoch": number, "time": time, "loss": loss or 1 / number, "seconds": seconds}


def test_a_run_without_events_has_no_progress(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    assert reader.read() is None
    write(tmp_path, {"event": "shards", "shards": []})
    assert reader.read() is None
    write(tmp_path, start(3))
    assert reader.read() == TrainingProgress(epoch=0, epochs=3)


def test_epochs_take_the_time_between_their_ends(tmp_path: Path) -> None:
    write(tmp_path, start(), epoch(1, 1020, seconds=20.0))
    reader = ProgressReader(tmp_path)
    first = reader.read()
    assert first is not None and (first.epoch, first.epoch_s, first.losses) == (1, 20.0, (1.0,))
    write(tmp_path, epoch(2, 1027), {"event": "noise_scale", "epoch": 2, "noise_scale": 3}, epoch(3, 1034))
    now = reader.read()
    assert now is not None and (now.epoch, now.epochs, now.epoch_s) == (3, 10, 7.0), "validation is a part of it"
    assert now.seconds_left(1034) == 49
    assert now.seconds_left(1036) == 47
    assert now.seconds_left(9999) == 42, "an epoch that takes longer counts for nothing, and the rest stays"
    assert now.seconds_left(1000) == 49, "the clock of rank 0 may be ahead"


def test_of_two_epochs_the_shorter_one_counts_since_the_first_compiles(tmp_path: Path) -> None:
    write(tmp_path, start(), epoch(1, 1020, seconds=20.0), epoch(2, 1026))
    found = ProgressReader(tmp_path).read()
    assert found is not None and found.epoch_s == 6.0


def test_the_end_is_not_known_without_the_number_of_epochs(tmp_path: Path) -> None:
    write(tmp_path, {"event": "epoch", "seconds": 2.5}, {"event": "epoch", "seconds": 3.5})
    found = ProgressReader(tmp_path).read()
    assert found is not None and (found.epoch, found.epochs, found.losses) == (2, None, ())
    assert found.seconds_left(0.0) is None
    write(tmp_path, start(2), epoch(3, 50.0))
    done = ProgressReader(tmp_path).read()
    assert done is not None and done.seconds_left(60.0) == 0


def test_a_line_that_is_still_written_waits_for_its_end(tmp_path: Path) -> None:
    write(tmp_path, start(), epoch(1, 1005))
    reader = ProgressReader(tmp_path)
    line = json.dumps(epoch(2, 1010))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(line[:20])
        file.flush()
        found = reader.read()
        assert found is not None and found.epoch == 1
        file.write(line[20:] + "\n")
    found = reader.read()
    assert found is not None and found.epoch == 2


def test_epochs_that_a_further_start_repeats_count_once(tmp_path: Path) -> None:
    write(tmp_path, start(), epoch(1, 1005, 4.0), epoch(2, 1010, 3.0), epoch(3, 1015, 2.0))
    reader = ProgressReader(tmp_path)
    reader.read()
    write(tmp_path, start(), epoch(1, 1005, 4.0), epoch(2, 2000, 2.5), mode="w")
    found = reader.read()
    assert found is not None and (found.epoch, found.losses) == (2, (4.0, 2.5))
    write(tmp_path, start(), epoch(2, 3000, 2.25))
    found = reader.read()
    assert found is not None and (found.epoch, found.losses) == (2, (4.0, 2.25))
    assert found.epoch_s == 5.0, "what lies between two starts is no part of an epoch"


def test_of_a_long_file_the_beginning_and_the_end_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_progress, "_BLOCK", 1000)
    monkeypatch.setattr(training_progress, "_MOST_NEW", 2000)
    write(tmp_path, start(500), *(epoch(number, 1000.0 + number) for number in range(1, 201)))
    reader = ProgressReader(tmp_path)
    found = reader.read()
    assert found is not None and (found.epoch, found.epochs, found.epoch_s) == (200, 500, 1.0)
    assert 5 < len(found.losses) < 30
    write(tmp_path, *(epoch(number, 1000.0 + number) for number in range(201, 301)))
    found = reader.read()
    assert found is not None and (found.epoch, found.epochs) == (300, 500)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    write(tmp_path, start(), epoch(1, 1005))
    reader = ProgressReader(tmp_path)
    assert reader.read() is not None
    text = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(text.replace('"epoch": 1,', '"epoch": 9,'))  # of the same size
    found = reader.read()
    assert found is not None and found.epoch == 1
    (tmp_path / "metrics.jsonl").unlink()
    assert reader.read() == found


def test_the_last_losses_are_kept(tmp_path: Path) -> None:
    write(tmp_path, start(500), *(epoch(number, 1000.0 + number) for number in range(1, 151)))
    found = ProgressReader(tmp_path).read()
    assert found is not None and len(found.losses) == training_progress.MOST_LOSSES
    assert found.losses[-1] == 1 / 150 and found.losses[0] == 1 / 31


@pytest.mark.parametrize(
    "event",
    [
        {"event": "epoch", "epoch": "x", "loss": "nan", "seconds": None},
        {"event": "epoch", "epoch": 2**70, "loss": float("nan"), "seconds": float("inf")},
        {"event": "epoch", "epoch": True, "loss": 10**400, "time": []},
        {"event": "start", "options": []},
        {"event": "start", "options": {"epochs": -3}},
        {"event": ["epoch"]},
    ],
)
def test_damaged_values_are_left_out(tmp_path: Path, event: dict[str, Any]) -> None:
    write(tmp_path, start(), epoch(1, 1005, 0.5), event, epoch(3, 1015, 0.25))
    found = ProgressReader(tmp_path).read()
    assert found is not None and (found.epoch, found.losses) == (3, (0.5, 0.25))


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    assert ProgressReader(tmp_path).read() is None


def test_the_losses_of_the_last_epochs_of_a_long_file_are_all_read(tmp_path: Path) -> None:
    events = [{**epoch(number, 1000.0 + number), "other": "x" * 380} for number in range(1, 401)]
    write(tmp_path, start(500), *events)
    line = len(json.dumps(events[-1])) + 1
    assert 450 < line < 500 and (tmp_path / "metrics.jsonl").stat().st_size > 2 * 2**16
    found = ProgressReader(tmp_path).read()
    assert found is not None and (found.epoch, found.epochs) == (400, 500)
    assert len(found.losses) == training_progress.MOST_LOSSES and (found.losses[0], found.losses[-1]) == (
        1 / 281,
        1 / 400,
    )


@pytest.mark.parametrize(("number", "counted"), [(10**9, 10**9), (10**9 + 1, 1), (0, 1), (-4, 1)])
def test_a_number_of_an_epoch_that_cannot_be_is_not_taken(tmp_path: Path, number: int, counted: int) -> None:
    write(tmp_path, {"event": "epoch", "epoch": number})
    found = ProgressReader(tmp_path).read()
    assert found is not None and found.epoch == counted


def test_a_long_file_that_has_not_grown_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_progress, "_BLOCK", 1000)
    write(tmp_path, start(500), *(epoch(number, 1000.0 + number) for number in range(1, 201)))
    reader = ProgressReader(tmp_path)
    first = reader.read()
    file = tmp_path / "metrics.jsonl"
    file.write_text(file.read_text().replace('"epoch": 200,', '"epoch": 999,'))  # of the same size
    assert first is not None and first.epoch == 200 and reader.read() == first
