from __future__ import annotations

import json

import pytest

from hpclaunch.core.spec import Layout
from tests.builders import planned


@pytest.mark.parametrize(
    ("layout", "world_size", "cores"),
    [
        (Layout(nodes=4, tasks_per_node=2, cpus_per_task=6), 8, 6),
        (Layout(nodes=1, tasks_per_node=1, cpus_per_task=32, cpus_per_core=2), 1, 16),
        (Layout(nodes=1, tasks_per_node=1, cpus_per_task=1, cpus_per_core=2), 1, 1),
    ],
)
def test_a_layout_counts_ranks_and_cores(layout: Layout, world_size: int, cores: int) -> None:
    assert (layout.world_size, layout.cores_per_task) == (world_size, cores)


def test_a_spec_is_json() -> None:
    spec = planned(nodes=2)
    document = json.loads(json.dumps(spec.to_json()))
    assert document["layout"]["nodes"] == 2
    assert set(document) == set(spec.__dataclass_fields__)
