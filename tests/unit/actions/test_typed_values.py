"""How texts of flags are read."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hpclaunch.actions.requesting.typed_times import since_of
from hpclaunch.actions.requesting.typed_values import nodes_of
from hpclaunch.core.errors import InvalidRequest


@pytest.mark.parametrize(
    ("node_type", "nodes", "read"),
    [
        (None, None, (None, None, ())),
        ("gpu", 4, ("gpu", 4, ())),
        ("gpu:4", None, ("gpu", 4, ())),
        ("cpu:1,gpu:4,large mem:2", None, ("cpu", 1, (("gpu", "4"), ("large mem", "2")))),
    ],
)
def test_the_node_types_of_a_run(node_type: str | None, nodes: int | None, read: tuple[object, ...]) -> None:
    assert tuple(nodes_of(node_type, nodes).values()) == read


@pytest.mark.parametrize(
    "text", ["cpu,gpu", "cpu:1,gpu", "cpu:0,gpu:1", "cpu:1,", ":1", "cpu:1:2", "cpu:-1", "cpu:x", "a:٣"]
)
def test_node_types_without_their_numbers_of_nodes_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="does not say how many nodes of each type"):
        nodes_of(text, None)


def test_the_number_of_nodes_is_typed_once() -> None:
    with pytest.raises(InvalidRequest, match="already says how many nodes"):
        nodes_of("cpu:1,gpu:4", 2)


NOW = datetime(2026, 11, 24, 18, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (None, ""),
        ("7d", "2026-11-17T18:00:00Z"),
        ("12h", "2026-11-24T06:00:00Z"),
        ("2026-11-20", "2026-11-20T00:00:00Z"),
        ("2026-11-20T12:30", "2026-11-20T12:30:00Z"),
        ("2026-11-20T12:30:15Z", "2026-11-20T12:30:15Z"),
    ],
)
def test_since_is_a_time_before_now_or_a_date(text: str | None, begin: str) -> None:
    assert since_of(text, NOW) == begin


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "0", "99999999d"])
def test_other_texts_are_no_time(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--since"):
        since_of(text, NOW)
