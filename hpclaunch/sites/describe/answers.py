"""Nodes, GPUs and MPI types in the output of Slurm's programs (19.05 to 24.11); it draws no conclusions."""

from __future__ import annotations

import re
from dataclasses import field

from hpclaunch.core.records import record
from hpclaunch.core.units import whole_number
from hpclaunch.sites.slurm_text import Fields, clean, number_of, records, split_list

Gpus = tuple[tuple[str, int], ...]
"""(type, count) of the GPUs in a node; the type is empty where Slurm's configuration gives none."""

_MPI_TYPE = re.compile(r"(?:srun:\s*)?([a-z][a-z0-9_]*)")
SINFO_FORMAT = "%N|%R|%X|%Y|%Z|%c|%m|%G|%f"
"""One line per node and partition: sockets, cores per socket, threads per core, CPUs, MB, GRES, features."""


@record
class Node:
    """A node as Slurm counts it. ``usable_cpus`` and ``memory`` (MB) are what jobs can get.

    ``sockets`` is 0 where slurm.conf gives CPUs alone: those may be cores or threads.
    ``shards``: the parts of its GPUs that a job can ask for in place of a whole one, by type.
    """

    name: str
    sockets: int
    cores: int
    threads: int
    cpus: int
    usable_cpus: int
    memory: int
    gpus: Gpus = ()
    shards: Gpus = ()
    features: frozenset[str] = field(default_factory=frozenset)
    partitions: tuple[str, ...] = ()

    @property
    def cpus_per_core(self) -> int:
        """How many CPUs Slurm counts per core: the hardware threads, or 1 where a CPU is a core."""
        return max(1, self.cpus // self.cores)


def nodes_of(text: str) -> list[Node]:
    """Return the nodes of ``scontrol show node``, without those that are only planned (FUTURE)."""
    found = [_node(fields) for fields in records(text, "NodeName") if not _state(fields) & {"FUTURE"}]
    return [node for node in found if node is not None]


def _state(fields: Fields) -> set[str]:
    return set(re.split(r"\W+", fields.get("State", "")))


def _node(fields: Fields) -> Node | None:
    sockets, cores = number_of(fields.get("Sockets")), number_of(fields.get("CoresPerSocket"))
    cpus, memory = number_of(fields.get("CPUTot")), number_of(fields.get("RealMemory"))
    if not (sockets and cores and cpus and memory):
        return None
    reserved = number_of(fields.get("MemSpecLimit")) or 0
    threads = number_of(fields.get("ThreadsPerCore")) or 1
    known_sockets, all_cores = _cores_of(sockets, cores, threads, cpus)
    return Node(
        name=fields["NodeName"],
        sockets=known_sockets,
        cores=all_cores,
        threads=threads,
        cpus=cpus,
        usable_cpus=_usable_cpus(fields, cpus, all_cores),
        memory=max(1, memory - reserved),
        gpus=gpus_of(fields.get("Gres", "")),
        shards=gpus_of(fields.get("Gres", ""), "shard"),
        features=frozenset(split_list(fields.get("AvailableFeatures") or fields.get("Features", ""))),
        partitions=tuple(split_list(fields.get("Partitions", ""))),
    )


def _cores_of(sockets: int, per_socket: int, threads: int, cpus: int) -> tuple[int, int]:
    """Return (sockets, cores) of a node; no sockets where slurm.conf gives CPUs alone, each a socket of its own then.

    So AWS ParallelCluster writes its nodes, whose CPUs are hardware threads (slurm.conf manual, CPUs and Sockets).
    """
    if cpus > 1 and sockets == cpus and per_socket == 1:
        return 0, max(1, cpus // threads)
    return sockets, sockets * per_socket


def _usable_cpus(fields: Fields, cpus: int, cores: int) -> int:
    """Return the CPUs that jobs can get: CPUEfctv from Slurm 22.05 on, before that all but CoreSpecCount's cores."""
    effective, reserved = number_of(fields.get("CPUEfctv")), number_of(fields.get("CoreSpecCount")) or 0
    return min(cpus, effective) if effective else max(1, cpus - reserved * max(1, cpus // cores))


def nodes_of_sinfo(text: str) -> list[Node]:
    """Return the nodes of ``sinfo --Node --format=SINFO_FORMAT``, for clusters where users may not list the nodes."""
    rows: dict[str, list[str]] = {}
    partitions: dict[str, list[str]] = {}
    for line in clean(text).split("\n"):
        words = line.split("|")
        if len(words) != 9:
            continue
        rows.setdefault(words[0], words)
        partitions.setdefault(words[0], []).append(words[1])
    found = []
    for name, (_, _, sockets, cores, threads, cpus, memory, gres, features) in rows.items():
        counts = [number_of(word) for word in (sockets, cores, cpus, memory)]
        if not all(counts):
            continue
        socket_count, cores_per_socket, all_cpus, megabytes = (number or 0 for number in counts)
        known_sockets, all_cores = _cores_of(socket_count, cores_per_socket, number_of(threads) or 1, all_cpus)
        found.append(
            Node(
                name=name,
                sockets=known_sockets,
                cores=all_cores,
                threads=number_of(threads) or 1,
                cpus=all_cpus,
                usable_cpus=all_cpus,
                memory=megabytes,
                gpus=gpus_of(gres),
                shards=gpus_of(gres, "shard"),
                features=frozenset(split_list(features)),
                partitions=tuple(partitions[name]),
            )
        )
    return found


def gpus_of(gres: str, resource: str = "gpu") -> Gpus:
    """Return the GPUs of a GRES text such as ``gpu:a100:4(S:0-1),lustre:1``; without a number it is one GPU.

    ``resource``: what is counted in their place, as ``shard``.
    """
    found: dict[str, int] = {}
    for part in re.split(r",(?![^()]*\))", gres):
        name, *words = re.sub(r"\([^()]*\)", "", part).strip().split(":")
        if name != resource:
            continue
        words = [word for word in words if word not in ("no_consume", "")]
        number = whole_number(words[-1]) if words else None
        count = 1 if number is None else number
        gpu_type = ":".join(words if number is None else words[:-1])
        found[gpu_type] = found.get(gpu_type, 0) + count
    return tuple((gpu_type, count) for gpu_type, count in found.items() if count)


def mpi_types(text: str) -> list[str]:
    """Return the types of ``srun --mpi=list``; before Slurm 21.08 every line begins with ``srun:``."""
    found = []
    for line in clean(text).split("\n"):
        word = _MPI_TYPE.fullmatch(line.strip())
        if word:
            found.append(word[1])
    versions = re.search(r"versions available:\s*(\S+)", text)
    return list(dict.fromkeys([*found, *(split_list(versions[1]) if versions else [])]))


def gpu_files(text: str) -> list[str]:
    """Return the device files of the GPUs in a gres.conf; none where Slurm detects the GPUs itself."""
    lines = [line.partition("#")[0] for line in clean(text).split("\n")]
    gpus = [line for line in lines if re.search(r"\bName=gpu\b", line, re.IGNORECASE)]
    return [found[1] for line in gpus if (found := re.search(r"\bFile=(\S+)", line, re.IGNORECASE))]
