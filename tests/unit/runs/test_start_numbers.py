"""Lines of metrics.jsonl that a superseded start still wrote: no reader shows them, so no epoch appears twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.actions.following.inspect import final_metrics
from hpclaunch.reports.exports.recorded_metrics import epoch_points, result_points
from hpclaunch.runs.start_numbers import highest_in
from hpclaunch.runs.training_progress import ProgressReader
from hpclaunch.search.objective import Reports
from tests.builders import local_run

START = {"event": "start", "options": {"epochs": 6}}


def line(number: int, event: str, **values: Any) -> dict[str, Any]:
    return {"event": event, "time": 1000.0, **values, **({"start_number": number} if number else {})}


def write(folder: Path, *events: dict[str, Any]) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(event)}\n" for event in events)


ZOMBIE = [
    line(1, "start", options={"epochs": 6}),
    line(1, "epoch", epoch=1, loss=0.1),
    line(2, "resume", epoch=1),
    line(2, "epoch", epoch=2, loss=0.2),
    line(1, "epoch", epoch=2, loss=9.0),
    line(1, "epoch", epoch=3, loss=9.0),
    line(2, "epoch", epoch=3, loss=0.3),
]


def test_every_reader_leaves_out_what_a_superseded_start_wrote(tmp_path: Path) -> None:
    write(tmp_path, *ZOMBIE)
    events = list(local_run(tmp_path).metrics())
    assert [(one["epoch"], one["loss"]) for one in events if one["event"] == "epoch"] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert not any("start_number" in one for one in events)
    progress = ProgressReader(tmp_path).read()
    assert progress and (progress.epoch, progress.losses) == (3, (0.1, 0.2, 0.3))
    assert Reports(tmp_path / "metrics.jsonl", "loss").read() == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert [point.name for point in epoch_points(events)] == ["loss"] * 3


def test_a_reader_that_follows_the_file_remembers_the_newest_start(tmp_path: Path) -> None:
    progress, reports = ProgressReader(tmp_path), Reports(tmp_path / "metrics.jsonl", "loss")
    for event in ZOMBIE:
        write(tmp_path, event)
        seen, found = progress.read(), reports.read()
        assert seen and seen.losses[-1:] != (9.0,)
        assert found == [] or found[0][1] < 1


@pytest.mark.parametrize(
    ("ends", "value"),
    [
        ([line(2, "end", loss=0.3), line(1, "end", loss=9.0)], 0.3),
        ([line(1, "end", loss=9.0)], None),
        ([line(2, "end", loss=0.5), line(2, "end", loss=0.3)], 0.3),
        ([line(0, "end", loss=0.3)], 0.3),
    ],
)
def test_the_result_is_that_of_the_newest_start(
    tmp_path: Path, ends: list[dict[str, Any]], value: float | None
) -> None:
    write(tmp_path, *ZOMBIE, *ends)
    run = local_run(tmp_path)
    assert final_metrics(run).get("loss") == value
    assert "start_number" not in final_metrics(run)
    assert [point.value for point in result_points(run.metrics())] == ([] if value is None else [value])


def test_lines_without_numbers_count_as_before(tmp_path: Path) -> None:
    write(tmp_path, *[{key: one[key] for key in one if key != "start_number"} for one in ZOMBIE])
    assert len(list(local_run(tmp_path).metrics())) == len(ZOMBIE)


def test_a_number_within_a_line_is_not_taken_for_that_of_its_start() -> None:
    within = {"event": "start", "options": {"start_number": 7}}
    others = ({"event": "x", "start_number": "8"}, {"event": "x", "start_number": True}, {"start_number": 9, "loss": 1})
    lines = (within, {**within, "start_number": 1}, *others)
    assert highest_in("".join(f"{json.dumps(one)}\n" for one in lines)) == 1
