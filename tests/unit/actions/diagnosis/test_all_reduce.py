"""The all-reduces that ranks measured: what is shown of them, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.all_reduce import all_reduce_report
from hpclaunch.cli.show.node_lines import all_reduce_lines
from tests.unit.actions.diagnosis.probes import a_rank, evidence, failed, with_ranks

ROWS = [{"bytes": 4**power, "seconds": 5e-5 + 1.5 * 4**power / 1e10, "n": 20} for power in range(5, 14)]
FACTS = {"library": "Horovod", "through": "MPI", "on_gpus": False, "rows": ROWS}


def measured(**changes: Any) -> Any:
    return evidence(ranks=with_ranks(all_reduce={**FACTS, **changes}))


def check_of(found: Any) -> Any:
    return next((check for check in diagnose(found) if check.name == "all-reduce"), None)


def test_the_times_are_shown_by_size_with_their_bandwidths() -> None:
    found = all_reduce_report(measured())
    assert found is not None
    lines = all_reduce_lines(found)
    assert lines[0] == "all-reduce: 2 nodes x 2 ranks, Horovod over MPI"
    assert lines[1].split() == ["size", "time", "GB/s", "bus", "GB/s"]
    assert [line.split() for line in lines[2:4]] == [
        ["1", "KiB", "50.2", "us", "0.0204", "0.0306"],
        ["4", "KiB", "50.6", "us", "0.0809", "0.121"],
    ]
    assert lines[10].split() == ["64", "MiB", "10.1", "ms", "6.63", "9.95"]
    assert max(map(len, lines)) <= 100


def test_the_check_has_the_fit() -> None:
    check = check_of(measured())
    assert (check.verdict, check.what) == (
        "PASS",
        "2 nodes x 2 ranks with Horovod over MPI: 10 GB/s, latency 50 us",
    )


def test_json_has_every_size_and_the_fit() -> None:
    found = all_reduce_report(measured())
    assert found is not None
    values = found.to_json()
    assert [row["bytes"] for row in values["rows"]] == [row["bytes"] for row in ROWS]
    assert values["rows"][-1]["bus_bytes_per_s"] == pytest.approx(1.5 * values["rows"][-1]["bytes_per_s"])
    assert (values["nodes"], values["ranks_per_node"]) == (2, 2)
    assert values["bandwidth_bytes_per_s"] == pytest.approx(1e10)


def test_a_network_that_is_too_slow_is_a_warning() -> None:
    assert check_of(measured(rows=ROWS[:1])).verdict == "WARN"


def test_a_failure_while_measuring_is_named() -> None:
    ranks = with_ranks(step="all_reduce", problem="ncclSystemError: no route")
    (check,) = failed(evidence(ranks=ranks, state="FAILED", exit_code="1:0"))
    assert (check.name, check.what) == ("all-reduce", "ncclSystemError: no route")
    assert check.next.startswith("read its log: hpclaunch logs ")


@pytest.mark.parametrize("facts", [{}, None])
def test_without_times_nothing_is_said(facts: dict[str, Any] | None) -> None:
    ranks = [a_rank(number) if facts is None else a_rank(number, all_reduce=facts) for number in range(4)]
    assert check_of(evidence(ranks=ranks)) is None
    assert all_reduce_report(evidence(ranks=ranks)) is None


def test_the_times_of_another_world_are_not_believed() -> None:
    alone = {"size": 1, "rank": 0, "local_rank": 0, "local_size": 1, "sum": 1.0, "libraries": []}
    found = evidence(ranks=with_ranks(all_reduce=FACTS, world=alone))
    assert all_reduce_report(found) is None
