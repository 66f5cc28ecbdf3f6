"""The file of measured all-reduces: what is kept, what replaces what, and which framework's jobs it counts for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.planner.measured.all_reduce_file import (
    AllReduceTimes,
    SizeRow,
    all_reduce_place,
    keep_times,
    measured_links,
    read_times,
)
from hpclaunch.planner.measured.calibrations import has_measurements
from hpclaunch.planner.measured.finished_runs import evidence_for
from tests.builders import a_case, a_context, bundled_job, bundled_site

KEY = "perlmutter/gpu/cifar-0123"
ROWS = tuple(SizeRow(bytes=4**power, seconds=1e-3 + 1.75 * 4**power / 5e9) for power in range(5, 14))
TIMES = AllReduceTimes(
    library="Horovod",
    nodes=2,
    ranks_per_node=4,
    rows=ROWS,
    on_gpus=True,
    through="NCCL",
    run="doctor-1",
    when="2026-11-23T10:00:00",
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_DATA_HOME": str(tmp_path), "SCRATCH": "/scratch"}


def test_what_is_kept_is_read_back_beside_the_calibrations(environment: dict[str, str]) -> None:
    place = all_reduce_place(environment, "perlmutter", "gpu")
    assert not has_measurements(environment, KEY)
    keep_times(place, TIMES)
    assert read_times(place) == (TIMES,)
    assert place.parent.name == "gpu" and has_measurements(environment, KEY)
    (link,) = measured_links(place, None)
    assert (link.latency_s, link.bytes_per_s) == pytest.approx((1e-3, 5e9), rel=1e-6)
    assert link.origin == "Horovod over NCCL, doctor-1, 2026-11-23"


def test_of_the_same_ranks_the_newest_is_kept(environment: dict[str, str]) -> None:
    place = all_reduce_place(environment, "perlmutter", "gpu")
    one_node, newer = replace(TIMES, nodes=1), replace(TIMES, when="2026-11-24T10:00:00")
    for times in (TIMES, one_node, newer, TIMES):
        keep_times(place, times)
    assert read_times(place) == (one_node, newer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"measurements": [{"library": "x", "nodes": 1, "ranks_per_node": 1, "rows": []}]}',
        '{"measurements": [{"library": "x", "nodes": 2, "ranks_per_node": 1, "rows": [{"bytes": 1, "seconds": 1.0}]}]}',
        '{"measurements": [{"library": "x", "nodes": 2, "ranks_per_node": 1, "rows": [{"bytes": 1, "seconds": 0}]}]}',
    ],
)
def test_a_damaged_file_counts_as_none(environment: dict[str, str], text: str) -> None:
    place = all_reduce_place(environment, "perlmutter", "gpu")
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert read_times(place) == ()
    keep_times(place, TIMES)
    assert read_times(place) == (TIMES,)


def test_each_framework_has_those_of_its_library(environment: dict[str, str]) -> None:
    place = all_reduce_place(environment, "perlmutter", "gpu")
    keep_times(place, TIMES)
    keep_times(place, replace(TIMES, library="torch.distributed", nodes=4))
    assert [link.group.nodes for link in measured_links(place, "tensorflow")] == [2]
    assert [link.group.nodes for link in measured_links(place, "pytorch")] == [4]
    assert measured_links(place, "jax") == ()


def test_they_are_evidence_for_every_job_of_the_node_type(environment: dict[str, str]) -> None:
    keep_times(all_reduce_place(environment, "perlmutter", "gpu"), TIMES)
    case = a_case(bundled_site("perlmutter"), bundled_job("cifar"), context=a_context(environment=environment))
    assert evidence_for(replace(case, calibration_key=KEY)).links == measured_links(
        all_reduce_place(environment, "perlmutter", "gpu"), None
    )
    assert evidence_for(replace(case, calibration_key="perlmutter/cpu/cifar-0123")).links == ()
