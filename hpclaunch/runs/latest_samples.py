"""What the ranks of a run use now: of every node's samples only the end is read; it judges nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.files import json_object
from hpclaunch.core.records import record
from hpclaunch.runs.samples import FOLDER, NodeSamples, last_start, node_in

_MOST_NODES = 64
"""Of a larger run the first nodes are read, in the order of their names."""
_END = 2**17
_LONGEST_HEADER = 2**16


@record
class RankUse:
    """The share (0 to 1) of its cores that a rank used in the last interval; None: not measured."""

    rank: int
    cpu: float | None


@record
class GpuUse:
    """The share of the last interval in which a GPU computed, and its memory in use and in all, in bytes."""

    node: str
    index: int
    use: float | None
    memory: int | None
    total: int | None


@record
class RunUse:
    """What a run used in the last interval that was measured, which ended at ``t`` (Unix seconds).

    ``memory``: bytes of the job, all read nodes together. A rank's cores are those of its node by the number of ranks.
    """

    t: float
    ranks: tuple[RankUse, ...]
    gpus: tuple[GpuUse, ...]
    memory: int | None
    nodes: int


class UseReader:
    """Reads the last samples of one run directory, again and again."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._headers: dict[str, dict[str, Any]] = {}
        self._sizes: dict[str, int] = {}
        self._known: dict[str, NodeSamples] = {}

    def read(self) -> RunUse | None:
        """Return the use now; None if nothing was measured."""
        for name in inside.names_in(self._run_dir, FOLDER):
            if name.endswith(".jsonl") and not name.startswith("."):
                self._read_node(name)
        nodes = [one for one in last_start([*self._known.values()]) if one.samples][:_MOST_NODES]
        return _use_of(nodes) if nodes else None

    def _read_node(self, name: str) -> None:
        path = f"{FOLDER}/{name}"
        size = inside.size_of(self._run_dir, path)
        if (
            size is None
            or size == self._sizes.get(name)
            or (len(self._known) >= 4 * _MOST_NODES and name not in self._known)
        ):
            return
        if name not in self._headers:
            self._headers[name] = _header_in(self._run_dir, path)
        # The part of a line in which the end begins is no object, as the part of a line behind the last newline.
        lines = inside.read_end(self._run_dir, path, _END).split(b"\n")[:-1]
        last = [json_object(line.decode("utf-8", errors="replace")) for line in lines[-2:]]
        found = node_in(iter([self._headers[name], *last]), {})
        if found is not None:
            self._sizes[name], self._known[name] = size, found
        else:
            del self._headers[name]  # it may have been incomplete


def _header_in(run_dir: Path, name: str) -> dict[str, Any]:
    try:
        with os.fdopen(inside.open_file(run_dir, name), "rb") as file:
            return json_object(file.readline(_LONGEST_HEADER).decode("utf-8", errors="replace"))
    except OSError:
        return {}


def _use_of(nodes: list[NodeSamples]) -> RunUse:
    memory = [one.samples[-1].memory for one in nodes]
    return RunUse(
        t=max(one.samples[-1].t for one in nodes),
        ranks=tuple(sorted((use for one in nodes for use in _ranks_of(one)), key=lambda use: use.rank)),
        gpus=tuple(use for one in nodes for use in _gpus_of(one)),
        memory=None if None in memory else sum(value or 0 for value in memory),
        nodes=len(nodes),
    )


def _ranks_of(node: NodeSamples) -> list[RankUse]:
    last = node.samples[-1]
    if not last.ranks:
        return []
    seconds = last.t - (node.samples[-2].t if len(node.samples) > 1 else node.began)
    cores = (node.cpus or 0) / len(last.ranks) * seconds
    return [
        RankUse(rank=rank, cpu=None if one.cpu is None or cores <= 0 else one.cpu / cores)
        for rank, one in last.ranks.items()
    ]


def _gpus_of(node: NodeSamples) -> list[GpuUse]:
    return [
        GpuUse(node=node.node, index=device.index, use=one.use, memory=one.memory, total=device.memory)
        for device, one in zip(node.gpus, node.samples[-1].gpus, strict=False)
    ]
