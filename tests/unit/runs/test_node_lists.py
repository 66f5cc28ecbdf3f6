from __future__ import annotations

import pytest

from hpclaunch.runs.node_lists import names_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("node1", ("node1",)),
        ("n1,n2", ("n1", "n2")),
        ("node[1-3,07],gpu-4", ("node1", "node2", "node3", "node07", "gpu-4")),
        ("nid[000008-000010]", ("nid000008", "nid000009", "nid000010")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("node[", ()),
        ("node[x]", ()),
        ("node[3-1]", ()),
        ("n1,node[3-1]", ("n1",)),
        ("n[1][2]", ("n12",)),
        ("n[1][x]", ()),
    ],
)
def test_slurms_notation_is_read_in_the_order_of_the_nodes(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


def test_a_damaged_list_does_not_name_a_billion_nodes() -> None:
    assert len(names_in("n[0-999999999],m[0-999999999]")) == 100_000


@pytest.mark.parametrize(
    "text",
    ["n[0-999999999][x]", "n[0-999999999][3-1]", "n" + "[1]" * 2000, "n" * 300 + "[1-9]", "n[" + "1," * 30_000 + "x]"],
    ids=["no number", "nothing", "deep", "long", "many"],
)
def test_what_no_node_is_called_takes_neither_time_nor_depth(text: str) -> None:
    assert names_in(text) == ()
