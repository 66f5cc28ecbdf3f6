"""A global batch size that a job divides among its replicas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import bundled_job, planned, refused

CHIPS = bundled_job("chips")
STAND_IN = ("synthetic", "true")


def typed(*settings: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"job": CHIPS, "settings": (STAND_IN, *settings), **more}


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ({"nodes": 4}, [("global_batch_size", "64")]),
        ({"nodes": 3}, []),  # every rank has its own batch
        ({"nodes": 1, "strategy": "mirrored"}, [("global_batch_size", "64")]),
        ({"nodes": 2}, [("global_batch_size", "64"), ("accumulation", "8")]),
        ({"nodes": 3}, [("global_batch_size", "24"), ("accumulation", "2")]),
    ],
)
def test_what_divides_is_taken(more: dict[str, Any], settings: list[tuple[str, str]]) -> None:
    planned(**typed(*settings, **more))


@pytest.mark.parametrize(
    ("more", "settings", "message"),
    [
        (
            {"nodes": 3},
            [("global_batch_size", "64")],
            "--set global_batch_size|64 does not divide among 12 ranks|a multiple of 12|60 or 72, or another number",
        ),
        (
            {"nodes": 4},
            [("global_batch_size", "64"), ("scale_learning_rate", "linear")],
            "nothing to scale the learning rate with||--set scale_learning_rate=none",
        ),
        ({"nodes": 4}, [("global_batch_size", "7")], "|16, or another number of nodes or tasks"),
        ({"nodes": 4}, [("global_batch_size", "16"), ("accumulation", "2")], "among 32 (ranks x accumulation)"),
        ({"nodes": 3, "strategy": "multiworker"}, [("global_batch_size", "64")], "among 12 ranks"),
        (
            {"nodes": 3, "strategy": "multiworker", "tasks_per_node": 1, "gpus_per_node": 4},
            [("global_batch_size", "6")],
            "multiple of 12",
        ),
    ],
)
def test_what_leaves_a_rest_is_refused_before_it_is_queued(
    more: dict[str, Any], settings: list[tuple[str, str]], message: str
) -> None:
    (fault,) = refused(**typed(*settings, **more))
    assert message in "|".join((fault.where, fault.what, fault.allowed, fault.next))
