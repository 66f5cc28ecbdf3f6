"""Keeps the all-reduce times that ``doctor`` measured, one file per site and node type; it measures nothing.

The file lies beside the calibrations of the node type, as every job there has the same links. It keeps the newest
measurement of each number of nodes and ranks.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from hpclaunch.config.fileformat import AtLeast, AtMost, Line, read
from hpclaunch.core.errors import HpclaunchError
from hpclaunch.core.files import write_text
from hpclaunch.core.records import record
from hpclaunch.core.spec import PYTORCH, TENSORFLOW
from hpclaunch.guidelines.communication import Group, MeasuredLink
from hpclaunch.guidelines.measured_link import TimedSize, fitted_link
from hpclaunch.planner.measured.calibrations import all_reduce_file_of, place_of

Ranks = Annotated[int, AtLeast(1), AtMost(10**7)]
LIBRARIES = {TENSORFLOW: "Horovod", PYTORCH: "torch.distributed"}
"""What reduces the gradients of a framework's jobs."""


@record
class SizeRow:
    """The median time of an all-reduce of so many bytes."""

    bytes: Annotated[int, AtLeast(1), AtMost(2**50)]
    seconds: Annotated[float, AtLeast(1e-9), AtMost(1e6)]


@record
class AllReduceTimes:
    """Measured all-reduces of one number of nodes and ranks. ``through``: what carried the messages (NCCL, MPI, Gloo).

    ``on_gpus``: the values were in the memory of GPUs. ``run`` and ``when``: the probe job, and when it was made.
    """

    library: Line
    nodes: Ranks
    ranks_per_node: Ranks
    rows: Annotated[tuple[SizeRow, ...], AtLeast(2)]
    on_gpus: bool = False
    through: Line = ""
    run: Line = ""
    when: Line = ""

    def __post_init__(self) -> None:
        if self.nodes * self.ranks_per_node < 2 or len({row.bytes for row in self.rows}) < 2:
            raise ValueError("all-reduces need several ranks and several sizes")

    @property
    def group(self) -> Group:
        """The ranks."""
        return Group(nodes=self.nodes, per_node=self.ranks_per_node)

    @property
    def times(self) -> list[TimedSize]:
        """The rows for the fit."""
        return [TimedSize(size=row.bytes, seconds=row.seconds) for row in self.rows]

    @property
    def link(self) -> MeasuredLink:
        """Latency and bandwidth, fitted to the rows."""
        known = ", ".join(filter(None, (f"{self.library} over {self.through}", self.run, self.when[:10])))
        return fitted_link(self.times, self.group, on_gpus=self.on_gpus, origin=known)


@record
class AllReduceFile:
    """What is measured of a node type."""

    measurements: Annotated[tuple[AllReduceTimes, ...], AtLeast(1)]


def all_reduce_place(environment: Mapping[str, str], site: str, node_type: str) -> Path:
    """Return the file of a node type, in the user's data folder."""
    return all_reduce_file_of(place_of(environment, f"{site}/{node_type}/any"))


def keep_times(place: Path, found: AllReduceTimes) -> None:
    """Write a measurement in place of an older one of the same ranks. Raises OSError."""
    known = read_times(place)
    others = [one for one in known if _identity(one) != _identity(found)]
    if any(_identity(one) == _identity(found) and one.when > found.when for one in known):
        return  # the results of an older probe were read again
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(asdict(AllReduceFile(measurements=(*others, found))), indent=1) + "\n")


def _identity(times: AllReduceTimes) -> tuple[str, int, int, bool]:
    return times.library, times.nodes, times.ranks_per_node, times.on_gpus


def read_times(place: Path) -> tuple[AllReduceTimes, ...]:
    """Return what was measured of a node type; nothing if there is no file, or a damaged one."""
    with contextlib.suppress(HpclaunchError):
        if os.path.isfile(place):
            return read(place, AllReduceFile).measurements
    return ()


def measured_links(place: Path, framework: str | None) -> tuple[MeasuredLink, ...]:
    """Return what was measured with the library that reduces the gradients of a framework (None: TensorFlow)."""
    library = LIBRARIES.get(framework or TENSORFLOW)
    return tuple(times.link for times in read_times(place) if times.library == library)
