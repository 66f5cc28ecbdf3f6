"""What a run's record says of its ranks, and of its script's directives: of a damaged record nothing."""

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


def directives_of(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the recorded directives of the script, in their order: (option, value)."""
    pairs = spec.get("directives")
    valid = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
    return [(str(name), str(value)) for name, value in valid]


def options_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of the recorded directives by option; of a heterogeneous job those of its first component."""
    return dict(reversed(directives_of(spec)))


def partitions_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the recorded partition of every component of a job, each once; an empty text is the default partition."""
    further = spec.get("further")
    components = [spec, *(one for one in further if isinstance(one, dict))] if isinstance(further, list) else [spec]
    names = [one.get("partition") for one in components]
    return list(dict.fromkeys(name if isinstance(name, str) else "" for name in names))


def walltime_of(spec: Mapping[str, Any]) -> int:
    """Return the recorded walltime of one job in seconds; 0 if it is not known."""
    walltime = spec.get("walltime")
    return walltime if isinstance(walltime, int) else 0
