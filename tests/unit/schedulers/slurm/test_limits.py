"""The limits of a partition, as scontrol tells them."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.limits import Limits
from hpclaunch.sites.slurm_limits import limits_of_partition
from tests.builders import HOUR, partition_line


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({"most": 2, "longest": "2-00:00:00", "least": 2}, Limits(max_nodes=2, min_nodes=2, max_walltime=48 * HOUR)),
        ({}, Limits(max_nodes=4)),
        ({"most": 100}, Limits(max_nodes=4)),
        ({"total": 0}, Limits()),
        ({"longest": "INFINITE"}, Limits(max_nodes=4)),
        ({"longest": "30"}, Limits(max_nodes=4, max_walltime=HOUR // 2)),
    ],
)
def test_limits_of_a_partition_as_scontrol_tells_them(changes: dict[str, Any], limits: Limits) -> None:
    fields = dict(word.split("=", 1) for word in partition_line("x", **changes).split())
    assert limits_of_partition(fields) == limits
