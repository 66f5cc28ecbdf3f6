"""What a run's record says of its ranks and its script's directives; a damaged one says nothing, and raises nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.runs.recorded_layout import directives_of, options_of, partitions_of, ranks_of, walltime_of

MIXED = {
    "layout": {"nodes": 1, "tasks_per_node": 2, "further": [{"nodes": 3, "tasks_per_node": 4}]},
    "partition": "long",
    "further": [{"node_type": "gpu", "partition": "batch", "qos": ""}],
    "walltime": 60,
    "directives": [["partition", "long"], ["array", "0-9%4"], ["hetjob", ""], ["partition", "batch"], ["gres", "x"]],
}


def test_a_record_of_several_node_types() -> None:
    assert (ranks_of(MIXED), walltime_of(MIXED), partitions_of(MIXED)) == (14, 60, ["long", "batch"])
    assert options_of(MIXED) == {"partition": "long", "array": "0-9%4", "hetjob": "", "gres": "x"}
    assert len(directives_of(MIXED)) == 5
    assert partitions_of({**MIXED, "further": []}) == ["long"]


@pytest.mark.parametrize("junk", [None, 7, "x", ["x"], [["x"]], [None], {"x": 1}])
def test_a_damaged_record_says_nothing(junk: Any) -> None:
    damaged = dict.fromkeys(MIXED, junk)
    assert (ranks_of(damaged), directives_of(damaged), options_of(damaged)) == (0, [], {})
    assert walltime_of(damaged) == (7 if junk == 7 else 0)
    assert partitions_of(damaged) == ["x" if junk == "x" else ""]
