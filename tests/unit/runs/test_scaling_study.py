"""The record of a scaling study: written, read, and refused where it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpclaunch.core.errors import NewerFormat, NotFound, Refused
from hpclaunch.runs.scaling_study import (
    RESULTS,
    STUDY,
    ScalingStudy,
    StudyPoint,
    load_study,
    save_study,
    studies_in,
    table_rows,
)


def study(folder: Path, created: str = "2026-11-24T10:00:00Z") -> ScalingStudy:
    folder.mkdir(parents=True)
    points = (
        StudyPoint(nodes=1, tasks_per_node=1, per_rank=64, run_dirs=("/runs/a", "/runs/b")),
        StudyPoint(nodes=2, tasks_per_node=4, per_rank=8, predicted=(1.0, 2.0, 3.0), per_hour=2.0, unit="node-hour"),
    )
    return ScalingStudy(
        path=folder,
        job="mine",
        target="mine",
        site="here",
        node_type="cpu",
        created=created,
        mode="strong",
        batch=64,
        samples=100,
        steps=10,
        key="here/cpu/mine-1",
        device="4 CPUs",
        cwd="/project",
        request={"target": "mine"},
        points=points,
    )


def test_what_is_written_is_read_again_also_after_a_move(tmp_path: Path) -> None:
    made = study(tmp_path / "scale-a")
    save_study(made)
    assert load_study(made.path) == made
    moved = made.path.rename(tmp_path / "scale-b")
    assert load_study(moved).name == "scale-b" and load_study(moved).points == made.points


def test_a_point_takes_the_place_of_that_of_its_layout(tmp_path: Path) -> None:
    made = study(tmp_path / "scale-a")
    more = made.with_point(StudyPoint(nodes=1, tasks_per_node=4, per_rank=16))
    assert [point.ranks for point in more.points] == [1, 4, 8]
    again = more.with_point(StudyPoint(nodes=1, tasks_per_node=4, per_rank=16, run_dirs=("/runs/c",)))
    found = again.point((1, 4))
    assert found is not None and found.run_dirs == ("/runs/c",) and again.point((9, 9)) is None


def test_a_run_costs_what_the_site_charges() -> None:
    point = StudyPoint(nodes=1, tasks_per_node=1, per_rank=1, per_hour=2.0, shortest_s=600, least=0.5)
    assert [point.cost(seconds) for seconds in (60, 900, 3600)] == [0.5, 0.5, 2.0]
    assert StudyPoint(nodes=1, tasks_per_node=1, per_rank=1, per_hour=0.0, least=0.5).cost(60) == 0.0
    assert StudyPoint(nodes=1, tasks_per_node=1, per_rank=1).cost(60) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "search"),
        ("request", []),
        ("batch", "64"),
        ("created", 3),
        ("points", None),
        ("points", [{"nodes": 0, "tasks_per_node": 1, "per_rank": 1, "run_dirs": []}]),
        ("points", [{"nodes": 1, "tasks_per_node": 1, "per_rank": 1, "run_dirs": [3]}]),
        ("points", [{"nodes": 1, "tasks_per_node": 1, "per_rank": 1, "run_dirs": [], "predicted": [1, 2]}]),
    ],
)
def test_a_damaged_record_is_refused(name: str, value: object, tmp_path: Path) -> None:
    made = study(tmp_path / "scale-a")
    save_study(made)
    values = json.loads((made.path / STUDY).read_text())
    (made.path / STUDY).write_text(json.dumps({**values, name: value}))
    with pytest.raises(Refused, match="damaged"):
        load_study(made.path)
    assert studies_in([tmp_path]) == []


def test_a_point_of_a_version_without_accumulation_takes_one_step_for_each_batch(tmp_path: Path) -> None:
    made = study(tmp_path / "scale-a")
    save_study(made)
    values = json.loads((made.path / STUDY).read_text())
    for point in values["points"]:
        del point["accumulation"]
    (made.path / STUDY).write_text(json.dumps(values))
    assert {point.accumulation for point in load_study(made.path).points} == {1}


def test_a_missing_and_a_newer_record_say_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no scaling study"):
        load_study(tmp_path)
    (tmp_path / STUDY).mkdir()  # so it cannot be read, and must not be taken for a new study
    with pytest.raises(Refused, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / STUDY).rmdir()
    (tmp_path / STUDY).symlink_to("elsewhere")
    with pytest.raises(Refused, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / STUDY).unlink()
    (tmp_path / STUDY).write_text('{"format": 2}')
    with pytest.raises(NewerFormat, match="a newer hpclaunch"):
        load_study(tmp_path)


def test_studies_are_found_beside_runs_newest_first(tmp_path: Path) -> None:
    for name, created in (("scale-a", "2026-01-01"), ("scale-b", "2026-01-03"), ("other", "2026-01-02")):
        save_study(study(tmp_path / name, created))
    assert [found.name for found in studies_in([tmp_path, tmp_path / "nothing"])] == ["scale-b", "scale-a"]


def test_the_rows_of_results_are_read_without_the_runs(tmp_path: Path) -> None:
    assert table_rows(tmp_path) == []
    (tmp_path / RESULTS).write_text(json.dumps({"rows": [{"ranks": 1}, 3]}))
    assert table_rows(tmp_path) == [{"ranks": 1}]
    (tmp_path / RESULTS).write_text("[")
    assert table_rows(tmp_path) == []
