"""The text of ``--node-type``, which may name several types with their node counts."""

from __future__ import annotations

import os
import re
from typing import TypedDict

from hpclaunch.core.errors import Fault, InvalidRequest, shorten


class TypedNodes(TypedDict):
    """Node types and their node counts, by the names of the fields of a request."""

    node_type: str | None
    nodes: int | None
    further_nodes: tuple[tuple[str, str], ...]


_NODES_OF_A_TYPE = r"([^:,]+):([1-9][0-9]{0,6})"


def nodes_of(node_type: str | None, nodes: int | None) -> TypedNodes:
    """Return the node types of ``--node-type NAME`` or ``NAME:NODES,NAME:NODES``. Raises InvalidRequest."""
    if node_type is None or not set(":,") & set(node_type):
        return TypedNodes(node_type=node_type, nodes=nodes, further_nodes=())
    found = [re.fullmatch(_NODES_OF_A_TYPE, part) for part in node_type.split(",")]
    counted = [(match[1], match[2]) for match in found if match is not None]
    if len(counted) < len(found):
        what = f"{os.fsdecode(shorten(node_type))!r} does not say how many nodes of each type"
        allowed = "NAME, or NAME:NODES,NAME:NODES, with 1 to 9999999 nodes of each"
        raise InvalidRequest(Fault(where="--node-type", what=what, allowed=allowed, next="--node-type cpu:1,gpu:4"))
    if nodes is not None:
        what = "--node-type already says how many nodes of each type"
        raise InvalidRequest(Fault(where="--nodes", what=what, next="leave --nodes out"))
    (first, count), *further = counted
    return TypedNodes(node_type=first, nodes=int(count), further_nodes=tuple(further))
