"""What the test cluster is made of: its options and configuration texts; it starts and changes nothing."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
MAX_NODES = 64
MAX_SLOTS = 40
SLURMCTLD_PORT = 26817
SLURMD_PORT = 26818
SLURMDBD_PORT = 26819
DEBUG_LIMIT = "00:30:00"
LIMIT = "04:00:00"
PREEMPT = "preempt"
# With the usual fence (over a ring for data, else over a tree) a rank may leave MPI_Init before another is in it, whose
# Open MPI then dies of the first message (address nil): 2 of 100 starts of 8 ranks on an overloaded machine.
MPI_CONF = "PMIxCollFence=ring\n"
# Newer ones look for control groups as they start, and end without; older ones do not know the value.
CGROUPS_CAN_BE_DISABLED = (23, 2)


class ClusterError(Exception):
    """An expected failure; its text is what the user reads."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What `start` was asked for; `memory` is in MB per node, `cpus` and `gpus` are per node."""

    root: str = "/var/tmp/hpclaunch-cluster"
    cluster_name: str = "hpctest"
    nodes: int = 4
    gpus: int = 4
    shards: int = 0  # the parts of all GPUs of a node that jobs may ask for in place of whole ones
    cpus: int = 8
    memory: int = 8000
    partitions: tuple[str, ...] = ("batch", "debug")
    accounting: bool = True
    accounting_of: str = ""  # the root of a running cluster whose slurmdbd serves this one too: then -M reaches both
    preempt: bool = True
    enforce: str = ""  # what AccountingStorageEnforce names; memory and GPUs of a type are counted then, too
    max_array_size: int = 100_001
    first_job_id: int = 1001
    slot: int = 1  # clusters beside each other differ in root, name and slot: each slot has its own network and ports
    share: str = ""  # a folder below /tmp that the nodes shall see all the same, such as this checkout

    def faults(self) -> list[str]:
        """Everything that is wrong with the options, all at once."""
        found = []
        if not 1 <= self.nodes <= MAX_NODES:
            found.append(f"--nodes {self.nodes}: allowed are 1 to {MAX_NODES}")
        if not 1 <= self.slot <= MAX_SLOTS:
            found.append(f"--slot {self.slot}: allowed are 1 to {MAX_SLOTS}")
        if self.shards and (not self.gpus or self.shards % self.gpus):
            found.append(f"--shards {self.shards}: must be a multiple of --gpus {self.gpus}")
        if self.gpus < 0 or self.cpus < 1 or self.memory < 1:
            found.append("--gpus must be 0 or more, --cpus and --memory 1 or more")
        if not self.partitions or not all(self.partitions):
            found.append("--partitions: name at least one, as in --partitions batch,debug")
        if self.preempt and PREEMPT in self.partitions:
            found.append(f"--partitions: '{PREEMPT}' is always added, leave it out (or add --no-preempt)")
        root = Path(self.root)
        if not root.is_absolute() or any(base in root.parents for base in (Path("/tmp"), Path("/dev/shm"))):
            found.append(f"--root {root}: must lie outside /tmp and /dev/shm, which are private on each node")
        if any(character.isspace() for character in self.root) or len(self.root) > 70:
            found.append(f"--root {root}: must have no spaces and at most 70 characters (sockets lie in it)")
        if self.share and Path("/tmp") not in Path(self.share).parents:
            found.append(f"--share {self.share}: only a folder below /tmp needs sharing; the nodes see all the rest")
        return found

    @property
    def has_slurmdbd(self) -> bool:
        """Whether it has an accounting daemon of its own."""
        return self.accounting and not self.accounting_of

    @property
    def node_names(self) -> list[str]:
        return [f"node{number}" for number in range(1, self.nodes + 1)]


def checkout_below_tmp() -> str:
    """This checkout if it lies below /tmp, which every node has for itself, else nothing."""
    checkout = HERE.parents[1]
    return str(checkout) if Path("/tmp") in checkout.parents else ""


def host_name() -> str:
    return socket.gethostname().split(".")[0]


def bridge(slot: int) -> str:
    """The network device that joins a slot's nodes."""
    return f"hpcl{slot - 1}"


def subnet(slot: int) -> str:
    """The first three numbers of a slot's addresses."""
    return f"10.213.{76 + slot}"


def host_address(slot: int) -> str:
    """The address of this machine in a slot's network."""
    return f"{subnet(slot)}.254"


def node_address(slot: int, number: int) -> str:
    """The address of node `number`, counted from 1."""
    return f"{subnet(slot)}.{number}"


def config_files(options: Options, version: tuple[int, int]) -> dict[str, str]:
    """File name below ROOT/etc -> text, all that the daemons of this version of Slurm read."""
    values = _values(options)
    files = {
        "slurm.conf": _render("slurm.conf.in", values),
        "gres.conf": _gres(options),
        "mpi.conf": MPI_CONF,
        "hosts": _hosts(options),
    }
    if version >= CGROUPS_CAN_BE_DISABLED:
        files["cgroup.conf"] = "CgroupPlugin=disabled\n"
    if options.has_slurmdbd:
        files["slurmdbd.conf"] = _render("slurmdbd.conf.in", values)
        files["mariadb.cnf"] = _render("mariadb.cnf.in", values)
    return files


def _render(template: str, values: dict[str, str | int]) -> str:
    return Template((HERE / template).read_text(encoding="utf-8")).substitute(values)


def _values(options: Options) -> dict[str, str | int]:
    return {
        "cluster_name": options.cluster_name,
        "host": host_name(),
        "host_address": host_address(options.slot),
        "slurmctld_port": _port(SLURMCTLD_PORT, options),
        "slurmd_port": _port(SLURMD_PORT, options),
        "slurmdbd_port": _port(SLURMDBD_PORT, options),
        "root": options.root,
        "nodes": options.nodes,
        "node_addresses": f"{subnet(options.slot)}.[1-{options.nodes}]",
        "processors": _processors(options.cpus),
        "memory": options.memory,
        "max_array_size": options.max_array_size,
        "first_job_id": options.first_job_id,
        "gres_types": "gpu,shard" if options.shards else "gpu",
        "gres": _gres_of_node(options),
        "preemption": _preemption(options.preempt),
        "select": "CR_Core_Memory\nDefMemPerCPU=500" if options.enforce else "CR_Core",
        "accounting": _accounting(options),
        "partitions": _partitions(options),
    }


def _gres_of_node(options: Options) -> str:
    if not options.gpus:
        return ""
    return f"Gres=gpu:a100:{options.gpus}" + (f",shard:{options.shards}" if options.shards else "")


def _port(first: int, options: Options) -> int:
    return first + 10 * (options.slot - 1)


def _processors(cpus: int) -> str:
    sockets = 2 if cpus % 2 == 0 else 1
    return f"CPUs={cpus} Sockets={sockets} CoresPerSocket={cpus // sockets} ThreadsPerCore=1"


def _preemption(wanted: bool) -> str:
    return "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n" if wanted else ""


def _accounting(options: Options) -> str:
    if not options.accounting:
        return "AccountingStorageType=accounting_storage/none"
    serving = options
    if options.accounting_of:
        slot = json.loads((Path(options.accounting_of) / "cluster.json").read_text(encoding="utf-8"))["slot"]
        serving = dataclasses.replace(options, slot=slot)
    lines = (
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={host_address(serving.slot)}",
        f"AccountingStoragePort={_port(SLURMDBD_PORT, serving)}",
        '# With MUNGE the "password" is the socket\'s name.',
        f"AccountingStoragePass={options.root}/run/munge.socket",
        *_enforced(options.enforce),
    )
    return "\n".join(lines)


def _enforced(words: str) -> tuple[str, str]:
    if words:
        return "AccountingStorageTRES=gres/gpu,gres/gpu:a100", f"AccountingStorageEnforce={words}"
    remark = "# No AccountingStorageEnforce: unknown accounts and QOS are accepted, as on many real sites."
    return "AccountingStorageTRES=gres/gpu", remark


def _partitions(options: Options) -> str:
    lines = []
    for position, name in enumerate(options.partitions):
        default = "YES" if position == 0 else "NO"
        limit = DEBUG_LIMIT if name == "debug" else LIMIT
        lines.append(f"PartitionName={name} Nodes=ALL Default={default} MaxTime={limit} State=UP PriorityTier=10")
    if options.preempt:
        lines.append(
            f"PartitionName={PREEMPT} Nodes=ALL Default=NO MaxTime={LIMIT} State=UP PriorityTier=1"
            " PreemptMode=REQUEUE GraceTime=15"
        )
    return "\n".join(lines)


def _gres(options: Options) -> str:
    if not options.gpus:
        return "AutoDetect=off\n"
    last = options.gpus - 1
    devices = f"[0-{last}]" if last else "0"
    gpus = f"AutoDetect=off\nName=gpu Type=a100 File={options.root}/dev/nvidia{devices}\n"
    return gpus + (f"Name=shard Count={options.shards}\n" if options.shards else "")


def _hosts(options: Options) -> str:
    lines = ["127.0.0.1 localhost", f"{host_address(options.slot)} {host_name()}"]
    lines += [f"{node_address(options.slot, number)} {name}" for number, name in enumerate(options.node_names, start=1)]
    return "\n".join(lines) + "\n"
