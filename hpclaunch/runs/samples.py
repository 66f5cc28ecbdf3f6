"""Reads what the sampler measured on the nodes of a run (``samples/NODE-ATTEMPT.jsonl``); it judges nothing.

A damaged line, or a field of another kind, counts as not measured. A run without the folder has no samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record

FOLDER = "samples"
FORMAT = 1
"""The highest number of a file's format that this version reads."""
_MOST_RANKS = 100_000
_ENDED = re.compile(r"end ([0-9]{1,9}) ([0-9]{1,12}) ([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18})")
_LARGEST_ENDS = 4 * 2**20


@record
class RankSample:
    """One rank in one interval: core-seconds, and bytes of its read and write calls (None: not measured).

    ``pss``: the most memory that was seen, in bytes; of pages that several processes share it has its share.
    """

    cpu: float | None = None
    pss: int | None = None
    read: int | None = None
    write: int | None = None


@record
class GpuSample:
    """One GPU in one interval: the share of the measured time in which it computed (0 to 1), bytes of memory, watts.

    ``samples``, ``seconds``: what the share was measured by. Earlier versions read single moments, and have 0 of both.
    ``sms``: the mean share of the multiprocessors that were busy. ``own``: the bytes of the job's processes alone.
    """

    use: float | None = None
    samples: int = 0
    seconds: float = 0.0
    sms: float | None = None
    memory: int | None = None
    own: int | None = None
    power: float | None = None


JUDGED_S = 60.0
"""Seconds that each GPU must have been measured before its use is judged: a shorter run mostly starts up."""


@record
class GpuTime:
    """The use of a run's GPUs in all starts: the share of the measured time in which each computed (0 to 1).

    ``samples``: those of all GPUs. ``seconds``: the measured time of the GPU that was measured least. ``sms``: the mean
    share of the multiprocessors that were busy, of each GPU; empty unless the driver counts it of all (NVML, from
    Hopper on).
    """

    shares: tuple[float, ...]
    sms: tuple[float, ...] = ()
    samples: int
    seconds: float

    @property
    def is_judged(self) -> bool:
        """Whether they were measured long enough for a share."""
        return self.seconds >= JUDGED_S

    @property
    def mean(self) -> float:
        """The mean share of all GPUs."""
        return sum(self.shares) / len(self.shares)

    @property
    def evidence(self) -> str:
        """What the shares were measured by, in words."""
        return evidence_of(self.samples, self.seconds)


def evidence_of(samples: int, seconds: float) -> str:
    """Return what a share was measured by: ``3,612 samples in 723 s``."""
    return f"{samples:,} {'sample' if samples == 1 else 'samples'} in {seconds:.0f} s"


@record
class Sample:
    """One interval on one node, which ends at ``t`` (Unix seconds). None: not measured.

    - ``cpu``: core-seconds of the whole job on this node. ``memory``: the most bytes of the job here that were seen.
    - ``ranks``: by rank. ``gpus``: in the order of the header.
    - ``received``, ``sent``: bytes through the network interfaces of the whole node. ``joules``: energy.
    """

    t: float
    cpu: float | None = None
    memory: int | None = None
    ranks: Mapping[int, RankSample]
    gpus: tuple[GpuSample, ...] = ()
    received: int | None = None
    sent: int | None = None
    joules: float | None = None


@record
class GpuDevice:
    """A GPU of the job on one node. ``memory``: bytes, if the driver reports them."""

    index: int
    name: str = ""
    memory: int | None = None


@record
class RankEnd:
    """The kernel's account of a whole rank, which its shell wrote when the rank ended: core-seconds and bytes."""

    t: float
    cpu: float
    read: int
    write: int


@record
class NodeSamples:
    """What was measured on one node in one start (``attempt``: JOBID.RESTART) of a run, in the order of time.

    - ``interval``: the shortest interval in seconds; in a long run intervals become longer.
    - ``began``: Unix seconds at which the first interval begins.
    - ``cpus``: logical CPUs of the job on this node. ``memory_limit``: bytes that the job may use here.
    - ``sources``: where ``cpu``, ``memory``, ``gpu`` and ``energy`` come from; "" or absent: not measured.
    - ``ends``: of the ranks that have ended by themselves. A rank that was killed has none.
    """

    node: str
    attempt: str
    interval: float
    began: float
    cpus: int | None
    memory_limit: int | None
    gpus: tuple[GpuDevice, ...]
    sources: Mapping[str, str]
    samples: tuple[Sample, ...]
    ends: Mapping[int, RankEnd]

    @property
    def ended(self) -> float:
        """The Unix seconds up to which this node was measured."""
        return max([self.began, *(one.t for one in self.samples[-1:]), *(end.t for end in self.ends.values())])

    @property
    def seconds(self) -> float:
        """The measured time."""
        return self.ended - self.began

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were measured on this node, in their order."""
        return tuple(sorted({rank for one in self.samples for rank in one.ranks} | set(self.ends)))

    def rank_cpu(self, rank: int) -> float | None:
        """Return a rank's core-seconds: the kernel's account at its end, else the sum of its samples."""
        if rank in self.ends:
            return self.ends[rank].cpu
        return _sum(one.ranks[rank].cpu for one in self.samples if rank in one.ranks)

    @property
    def cpu(self) -> float | None:
        """The core-seconds of the job on this node.

        The last samples may lack up to one interval, and the accounts of the ranks lack what is outside them.
        """
        totals = (_sum(one.cpu for one in self.samples), self._cpu_of_ranks())
        return max((total for total in totals if total is not None), default=None)

    def _cpu_of_ranks(self) -> float | None:
        return _sum(self.rank_cpu(rank) for rank in self.ranks)

    @property
    def most_memory(self) -> int | None:
        """The most bytes of the job on this node that were seen."""
        return max((one.memory for one in self.samples if one.memory is not None), default=None)

    @property
    def joules(self) -> float | None:
        """The energy of all intervals; None if it was not measured."""
        return _sum(one.joules for one in self.samples)


def samples_of(home: Path, folder: str = FOLDER) -> list[NodeSamples]:
    """Return what was measured of a run, one entry for each node and start, in the order of their beginning.

    It is empty if nothing was measured. ``folder``, below ``home``: for a run of an array ``0007/samples``.
    """
    names = [name for name in inside.names_in(home, folder) if name.endswith(".jsonl") and not name.startswith(".")]
    found = [one for name in names if (one := _read_node(home, f"{folder}/{name}")) is not None]
    return sorted(found, key=lambda one: (one.began, one.node))


def gpu_time(nodes: Sequence[NodeSamples]) -> GpuTime | None:
    """Return how long the GPUs of a run computed, in all its starts; None if that was not measured of any."""
    busy: dict[tuple[str, int, int], float] = {}
    seconds: dict[tuple[str, int, int], float] = {}
    active: dict[tuple[str, int, int], float] = {}
    counted: dict[tuple[str, int, int], float] = {}
    samples = 0
    for node in nodes:
        indices = [device.index for device in node.gpus]
        # The MIG devices of a GPU have its number.
        places = [(node.node, index, indices[:place].count(index)) for place, index in enumerate(indices)]
        for sample in node.samples:
            for key, gpu in zip(places, sample.gpus, strict=False):
                if gpu.use is not None and gpu.seconds > 0:
                    busy[key] = busy.get(key, 0.0) + gpu.use * gpu.seconds
                    seconds[key] = seconds.get(key, 0.0) + gpu.seconds
                    samples += gpu.samples
                    if gpu.sms is not None:
                        active[key] = active.get(key, 0.0) + gpu.sms * gpu.seconds
                        counted[key] = counted.get(key, 0.0) + gpu.seconds
    if not seconds:
        return None
    shares = tuple(busy[key] / seconds[key] for key in sorted(busy))
    is_counted = active.keys() == busy.keys() and min(counted.values()) >= JUDGED_S
    sms = tuple(active[key] / counted[key] for key in sorted(active)) if is_counted else ()
    return GpuTime(shares=shares, sms=sms, samples=samples, seconds=min(seconds.values()))


def last_start(nodes: Sequence[NodeSamples]) -> list[NodeSamples]:
    """Return those of the last start alone."""
    attempt = max(nodes, key=lambda one: one.began).attempt if nodes else ""
    return [one for one in nodes if one.attempt == attempt]


def _read_node(home: Path, name: str) -> NodeSamples | None:
    """Return the content of one file; None if it has no valid header, or a newer format."""
    return node_in(inside.json_lines(home, name), _ends(home, f"{name.removesuffix('.jsonl')}.ranks"))


def node_in(lines: Iterator[dict[str, Any]], ends: Mapping[int, RankEnd]) -> NodeSamples | None:
    """Return what a header and the lines after it say; None without a valid header, or of a newer format."""
    header = next(lines, {})
    node, attempt, began = header.get("node"), header.get("attempt"), _number(header.get("began"))
    if not isinstance(node, str) or not isinstance(attempt, str) or began is None:
        return None
    if header.get("format") not in range(1, FORMAT + 1):
        return None
    samples = sorted((one for line in lines if (one := _sample(line)) is not None), key=lambda one: one.t)
    sources = header.get("sources")
    about = sources.items() if isinstance(sources, dict) else ()
    return NodeSamples(
        node=node,
        attempt=attempt,
        interval=_number(header.get("interval")) or 0.0,
        began=began,
        cpus=_whole_number(header.get("cpus")) or None,
        memory_limit=_whole_number(header.get("memory_limit")) or None,
        gpus=tuple(_device(place, one) for place, one in enumerate(_objects(header.get("gpus")))),
        sources={name: text for name, text in about if isinstance(text, str) and text},
        samples=tuple(one for one in samples if one.t >= began),
        ends=ends,
    )


def _sample(line: Mapping[str, Any]) -> Sample | None:
    t = _number(line.get("t"))
    if t is None:
        return None
    net = line.get("net")
    network = net if isinstance(net, dict) else {}
    return Sample(
        t=t,
        cpu=_number(line.get("cpu")),
        memory=_whole_number(line.get("memory")),
        ranks=_ranks(line.get("ranks")),
        gpus=tuple(_gpu(one) for one in _objects(line.get("gpu"))),
        received=_whole_number(network.get("in")),
        sent=_whole_number(network.get("out")),
        joules=_number(line.get("joules")),
    )


def _ranks(value: Any) -> dict[int, RankSample]:
    pairs = value.items() if isinstance(value, dict) else ()
    known = {int(rank): one for rank, one in pairs if re.fullmatch("[0-9]{1,9}", rank) and isinstance(one, dict)}
    return {rank: _rank(known[rank]) for rank in sorted(known)[:_MOST_RANKS]}


def _rank(one: Mapping[str, Any]) -> RankSample:
    read, write, pss = _whole_number(one.get("read")), _whole_number(one.get("write")), _whole_number(one.get("pss"))
    return RankSample(cpu=_number(one.get("cpu")), pss=pss, read=read, write=write)


def _gpu(one: Mapping[str, Any]) -> GpuSample:
    return GpuSample(
        use=_share(one.get("use")),
        samples=_whole_number(one.get("samples")) or 0,
        seconds=_number(one.get("seconds")) or 0.0,
        sms=_share(one.get("sms")),
        memory=_whole_number(one.get("memory")),
        own=_whole_number(one.get("own")),
        power=_number(one.get("power")),
    )


def _share(value: Any) -> float | None:
    share = _number(value)
    return None if share is None else min(share, 1.0)


def _device(place: int, one: Mapping[str, Any]) -> GpuDevice:
    index, name = _whole_number(one.get("index")), one.get("name")
    device = GpuDevice(index=place if index is None else index, memory=_whole_number(one.get("memory")))
    return replace(device, name=name) if isinstance(name, str) else device


def _ends(home: Path, name: str) -> dict[int, RankEnd]:
    """Return the accounts in lines ``end RANK SECONDS MILLISECONDS READ WRITTEN``, which the shells of ranks write."""
    found = [
        match for line in inside.read_text(home, name, _LARGEST_ENDS).splitlines() if (match := _ENDED.fullmatch(line))
    ]
    numbers = [tuple(map(int, match.groups())) for match in found[:_MOST_RANKS]]
    return {rank: RankEnd(t=t, cpu=cpu / 1000, read=read, write=write) for rank, t, cpu, read, write in numbers}


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the members of a list; in place of a damaged one an empty object, so that the others keep their places."""
    if not isinstance(value, list):
        return []
    return [one if isinstance(one, dict) else {} for one in value]


def _number(value: Any) -> float | None:
    """Return a number of at least 0."""
    found = finite(value)
    return found if found is not None and found >= 0 else None


def _whole_number(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
