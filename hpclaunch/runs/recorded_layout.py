"""What a run's record says of its ranks: of a damaged record nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def further_layouts(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the recorded layouts of the further node types of a heterogeneous job; none for nodes of one type."""
    layout = spec.get("layout")
    further = layout.get("further") if isinstance(layout, dict) else None
    return [one for one in further if isinstance(one, dict)] if isinstance(further, list) else []


def ranks_of(spec: Mapping[str, Any]) -> int:
    """Return the number of a run's ranks; 0 if it is not known."""
    layout, total = spec.get("layout"), 0
    for one in (layout, *further_layouts(spec)):
        nodes, tasks = (one.get("nodes"), one.get("tasks_per_node")) if isinstance(one, dict) else (0, 0)
        total += nodes * tasks if isinstance(nodes, int) and isinstance(tasks, int) else 0
    return total
