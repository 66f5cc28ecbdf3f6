"""Every limit of QOS, partition QOS, associations and accounts: hpclaunch's answer beside that of a real Slurm.

The same request is examined by hpclaunch and given to sbatch. Slurm's answer is ``refused`` (by sbatch), ``pending``
(with the reason of a limit: for ever, as nothing else runs) or ``started``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec
from hpclaunch.schedulers import Objections
from hpclaunch.schedulers.slurm.limits import objections
from tests.builders import a_site, planned
from tests.slurm.conftest import Cluster
from tests.slurm.desk import until
from tests.slurm.second import second_cluster
from tests.slurm.users import TESTER, as_root

pytestmark = pytest.mark.timeout(600)
REFUSED, PENDING, STARTED = "refused", "pending", "started"
DENY = "Flags=DenyOnLimit"
NODE = replace(a_site().node_types["gpu"], cores_per_node=8, threads_per_core=1, nodes=4, gpu_type="a100", memory_gb=8)
SITES = {
    kind: a_site(
        node_types={"gpu": replace(NODE, gpu_type=kind or None), "cpu": replace(NODE, gpus_per_node=0)}, partitions={}
    )
    for kind in ("a100", "")
}
USUAL = {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 1, "gpus_per_node": 1, "walltime": 600}
WAITING_FOR_OTHERS = {"None", "Priority", "Resources", "(null)", ""}


@record
class Row:
    """A limit as sacctmgr takes it, and a request; ``by_number``: its GPUs are asked for without their type.

    ``of``: whose limit it is. ``also``: that of a QOS which the job has beside it. ``sbatch``: further options.
    """

    limit: str
    asks: dict[str, Any]
    slurm: str
    says: str = ""
    of: str = "qos"
    also: str = ""
    by_number: bool = False
    sbatch: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.of}{ROWS.index(self)}"


def both(limit: str, asks: dict[str, Any], says: str, **more: Any) -> list[Row]:
    """A limit without DenyOnLimit, and with it."""
    return [
        Row(limit=f"{limit} {flag}", asks=asks, slurm=slurm, says=says, **more)
        for flag, slurm in ((" ", PENDING), (DENY, REFUSED))
    ]


def alone(limit: str, asks: dict[str, Any], says: str) -> list[Row]:
    """A job that has its nodes alone; such a limit never refuses it at its submission."""
    return [
        Row(limit=f"{limit} {flag}", asks=asks, slurm=PENDING, says=says, sbatch=("--exclusive",))
        for flag in (" ", DENY)
    ]


def each(limits: str, asks: dict[str, Any], says: str, of: tuple[str, ...]) -> list[Row]:
    return [Row(limit=limits, asks=asks, slurm=PENDING, says=says, of=one) for one in of]


GPUS3, CPUS3, LONG = {"gpus_per_node": 3, "tasks_per_node": 3}, {"cpus_per_task": 3}, {"walltime": 1200}
TWO, G2 = {"nodes": 2}, {"memory": 2048}
ROWS: list[Row] = [
    # what one job may have
    *both("MaxTRES=gres/gpu:a100=2", GPUS3, "3 a100 GPUs requested; allowed: at most 2 a100 GPUs"),
    *both("MaxTRES=gres/gpu=2", GPUS3, "3 GPUs requested; allowed: at most 2 GPUs"),
    *both("MaxTRES=mem=1G", G2, "2G of memory requested; allowed: at most 1G of memory"),
    *both("MaxTRES=cpu=2", CPUS3, "3 CPUs requested; allowed: at most 2 CPUs"),
    *both("MaxTRES=node=1", TWO, "2 nodes requested; allowed: at most 1 node"),
    *both("MaxTRES=gres/gpu=0", {}, "1 GPU requested; allowed: at most 0 GPUs"),
    *both("MaxTRES=mem=1G", CPUS3, "1500M of memory requested; allowed: at most 1G of memory"),  # DefMemPerCPU=500
    *both("MaxTRESPerNode=gres/gpu:a100=2", {**GPUS3, **TWO}, "3 a100 GPUs per node requested"),
    *both("MaxTRESPerNode=cpu=2", {**CPUS3, **TWO}, "3 CPUs per node requested; allowed: at most 2 CPUs per node"),
    *both("MaxTRESPerNode=mem=1G", {**G2, **TWO}, "2G of memory per node requested"),
    *both("MaxTRESMins=cpu=30", {**CPUS3, **LONG}, "walltime 00:20:00 requested; allowed: at most 00:10:00"),
    *both("MaxWall=00:10:00", LONG, "walltime 00:20:00 requested; allowed: at most 00:10:00"),
    *both("MinTRES=gres/gpu=2", {}, "1 GPU requested; allowed: at least 2 GPUs"),
    *both("MinTRES=cpu=4", CPUS3, "3 CPUs requested; allowed: at least 4 CPUs"),
    *both("MinTRES=mem=4G", G2, "2G of memory requested; allowed: at least 4G of memory"),
    *both("MinTRES=node=2", {}, "1 node requested; allowed: at least 2 nodes"),
    *both("MinTRES=gres/gpu:a100=2", GPUS3, "0 a100 GPUs requested; allowed: at least 2 a100 GPUs", by_number=True),
    # what a user, an account or all jobs may have at a time
    *both("MaxTRESPerUser=gres/gpu:a100=2", GPUS3, "3 a100 GPUs requested; allowed: at most 2 a100 GPUs"),
    *both("MaxTRESPerAccount=mem=1G", G2, "2G of memory requested; allowed: at most 1G of memory"),
    *both("GrpTRES=cpu=2", CPUS3, "3 CPUs requested; allowed: at most 2 CPUs"),
    *both("GrpTRES=node=1", TWO, "2 nodes requested; allowed: at most 1 node"),
    *both("GrpTRESRunMins=cpu=30", {**CPUS3, **LONG}, "walltime 00:20:00 requested; allowed: at most 00:10:00"),
    # the number of jobs
    *(
        Row(
            limit=f"{name}=2",
            asks={"sweep": (("lr", "1,2,3"),)},
            slurm=REFUSED,
            says="3 jobs submitted; allowed: 2 jobs",
        )
        for name in ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmitJobs")
    ),
    *(
        Row(limit=f"{name}=0", asks={}, slurm=PENDING, says="no job of it ever starts")
        for name in ("MaxJobsPerUser", "GrpJobs")
    ),
    Row(limit="MaxSubmitJobsPerUser=0", asks={}, slurm=REFUSED, says="1 job submitted; allowed: 0 jobs of yours"),
    # what is admitted: the limit itself, a type that the request does not name, and what is granted without "safe"
    *(
        Row(limit=limit, asks=GPUS3, slurm=STARTED)
        for limit in ("MaxTRES=gres/gpu:a100=3,mem=4G,cpu=3,node=1", "MaxWall=10", "MaxTRESMins=cpu=30")
    ),
    Row(limit=f"MaxTRES=gres/gpu:a100=2 {DENY}", asks=GPUS3, slurm=STARTED, by_number=True),
    Row(limit="GrpTRESMins=cpu=5", asks=LONG, slurm=STARTED),
    Row(
        limit=f"GrpTRESMins=cpu=5 {DENY}",
        asks=LONG,
        slurm=REFUSED,
        says="walltime 00:20:00 requested; allowed: at most 00:05:00",
    ),
    Row(limit="MaxTRES=billing=1 Flags=DenyOnLimit", asks={}, slurm=STARTED),
    # whole nodes: their 8 CPUs, 4 GPUs and the memory of 8 CPUs count, whatever is asked for; sbatch does not know them
    *alone("MaxTRES=cpu=4", {}, "8 CPUs requested with whole nodes; allowed: at most 4 CPUs"),
    *alone("MaxTRES=cpu=12", TWO, "16 CPUs requested with whole nodes; allowed: at most 12 CPUs"),
    *alone("MaxTRESPerNode=cpu=4", {}, "8 CPUs per node requested with whole nodes"),
    *alone("MaxTRESPerUser=cpu=4", {}, "8 CPUs requested with whole nodes"),
    *alone("GrpTRES=gres/gpu=2", {}, "4 GPUs requested with whole nodes; allowed: at most 2 GPUs"),
    *alone("MaxTRES=gres/gpu:a100=2", {}, "4 a100 GPUs requested with whole nodes"),
    *alone("MaxTRESMins=cpu=40", {}, "walltime 00:10:00 requested; allowed: at most 00:05:00"),
    *alone("MaxTRES=mem=3G", {}, "4000M of memory requested with whole nodes; allowed: at most 3G"),
    Row(limit="MaxTRES=mem=3G,cpu=8,gres/gpu=4", asks=G2, slurm=STARTED, sbatch=("--exclusive",)),
    Row(limit="MaxTRES=cpu=8", asks={"gpus_per_node": 0}, slurm=STARTED, sbatch=("--exclusive",)),
    Row(limit="MinTRES=cpu=4", asks={}, slurm=STARTED, sbatch=("--exclusive",)),
    Row(limit=f"MinTRES=cpu=4 {DENY}", asks={}, slurm=REFUSED, says="1 CPU requested", sbatch=("--exclusive",)),
    # partition QOS, and which of two counts
    Row(limit="MaxTRES=gres/gpu:a100=2", asks=GPUS3, slurm=PENDING, says="3 a100 GPUs requested", of="partition"),
    Row(limit=f"MaxTRES=mem=1G {DENY}", asks=G2, slurm=REFUSED, says="2G of memory requested", of="partition"),
    # associations
    *each("MaxTRES=gres/gpu:a100=2", GPUS3, "3 a100 GPUs requested", ("user", "account")),
    *each("MaxTRES=mem=1G", G2, "2G of memory requested", ("user", "account")),
    *each("MaxTRESPerNode=cpu=2", CPUS3, "3 CPUs per node requested", ("user", "account")),
    *each("GrpTRES=cpu=2", CPUS3, "3 CPUs requested", ("user", "account", "parent")),
    *each("GrpTRESRunMins=cpu=30", {**CPUS3, **LONG}, "walltime 00:20:00 requested", ("user", "account", "parent")),
    *each("MaxTRESMins=cpu=30", {**CPUS3, **LONG}, "walltime 00:20:00 requested", ("user", "account")),
    *each("MaxWall=10", LONG, "walltime 00:20:00 requested; allowed: at most 00:10:00", ("user", "account", "parent")),
    *each("MaxJobs=0", {}, "no job of it ever starts", ("user", "account")),
    *each("GrpJobs=0", {}, "no job of it ever starts", ("user", "account", "parent")),
    *(
        Row(
            limit=f"{name}=2",
            asks={"sweep": (("lr", "1,2,3"),)},
            slurm=REFUSED,
            says="3 jobs submitted; allowed: 2 jobs",
            of=of,
        )
        for name, of in (("MaxSubmitJobs", "account"), ("GrpSubmitJobs", "parent"))
    ),
    Row(limit="GrpTRES=cpu=3", asks=CPUS3, slurm=STARTED, of="parent"),
    # which of two counts: for each limit and resource the partition's QOS, the job's, the association
    Row(limit="MaxTRES=cpu=2", also="MaxTRES=cpu=4", asks=CPUS3, slurm=PENDING, says="3 CPUs", of="partition"),
    Row(limit="MaxTRES=cpu=4", also="MaxTRES=cpu=2", asks=CPUS3, slurm=STARTED, of="partition"),
    Row(limit="MaxTRES=cpu=2", also="MaxTRES=cpu=4 Flags=OverPartQOS", asks=CPUS3, slurm=STARTED, of="partition"),
    Row(limit="MaxTRES=cpu=4", also="MaxTRES=mem=1G", asks=G2, slurm=PENDING, says="2G of memory", of="partition"),
    Row(limit="MaxTRES=cpu=4", also="MaxTRESPerUser=cpu=2", asks=CPUS3, slurm=PENDING, says="3 CPUs", of="partition"),
    Row(limit="MaxTRES=cpu=2", also=f"MaxTRES=cpu=4 {DENY}", asks=CPUS3, slurm=STARTED, of="user"),
    Row(limit="MaxTRES=cpu=2", also=DENY, asks=CPUS3, slurm=REFUSED, says="3 CPUs", of="user"),
    Row(limit="GrpTRES=cpu=2", also="LimitFactor=2", asks=CPUS3, slurm=STARTED, of="account"),
    Row(
        limit="MaxTRES=cpu=4", also="MaxTRES=cpu=2 Flags=NoReserve", asks=CPUS3, slurm=PENDING, says="3 CPUs", of="user"
    ),
]


def slurm(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, input=text, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def sacctmgr(*words: str) -> None:
    slurm("sacctmgr", "-i", *words)


@pytest.fixture(scope="module")
def limited(cluster: Cluster) -> Iterator[Path]:
    """A cluster that enforces limits, with the QOS, partitions and accounts of the rows."""
    if not cluster.accounting:
        pytest.skip("group accounting: this cluster has none, and so no QOS")
    with (
        second_cluster(cluster, "--enforce", "limits,qos", "--no-preempt") as conf,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLURM_CONF", str(conf))
        with as_root():
            _make_rows()
        yield conf


def _make_rows() -> None:
    """Add what the rows need with one sacctmgr: each start of it costs a second on a busy machine."""
    lines = []
    for row in ROWS:
        if row.also:
            lines.append(f"add qos {row.name}-also {row.also}")
        if row.of in ("qos", "partition"):
            lines.append(f"add qos {row.name} {row.limit}")
            continue
        if row.of == "parent":
            lines.append(f"add account above-{row.name} {row.limit}")
        parent = f"above-{row.name}" if row.of == "parent" else "root"
        lines.append(f"add account {row.name} parent={parent} {row.limit if row.of == 'account' else ''}")
        lines.append(f"add user {TESTER} account={row.name} {row.limit if row.of == 'user' else ''}")
        if row.also:
            lines.append(f"modify account where account={row.name} set QOS+={row.name}-also")
    names = [row.name for row in ROWS if row.of in ("qos", "partition")]
    names += [f"{row.name}-also" for row in ROWS if row.also]
    lines.append(f"modify account where account=research set QOS+={','.join(names)}")
    slurm("sacctmgr", "-i", text="\n".join([*lines, ""]))
    until(
        lambda: f"{ROWS[-1].name} " in slurm("scontrol", "-o", "show", "assoc_mgr", f"users={TESTER}"), "associations"
    )
    for row in ROWS:
        if row.of == "partition":
            slurm("scontrol", "create", f"PartitionName={row.name}", "Nodes=ALL", f"QOS={row.name}", "MaxTime=60")


def request(row: Row, **more: Any) -> JobSpec:
    own = row.name if row.of == "qos" else None
    place = {
        "qos": f"{row.name}-also" if row.also else own,
        "partition": row.name if row.of == "partition" else "batch",
    }
    account = row.name if row.of in ("user", "account", "parent") else "research"
    return planned(
        SITES["" if row.by_number else "a100"],
        **{**USUAL, **place, "account": account, "sbatch": row.sbatch, **row.asks, **more},
    )


def sbatch(spec: JobSpec, command: str = "true") -> str:
    """Give the directives of a script to sbatch; return the job, or nothing if it refuses."""
    own = ("chdir", "output", "open-mode")
    lines = [f"#SBATCH --{name}" + (f"={value}" if value else "") for name, value in spec.directives if name not in own]
    text = "\n".join(["#!/bin/sh", *lines, "#SBATCH --output=/dev/null --chdir=/", command, ""])
    done = subprocess.run(["sbatch", "--parsable"], input=text, capture_output=True, text=True, timeout=120)
    if done.returncode:
        assert "Job violates accounting/QOS policy" in done.stderr, done.stderr
        return ""
    return done.stdout.strip()


def reason_of(job: str) -> str:
    """Return why a job waits; empty once it has started."""
    rows = [line.split("|") for line in slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r").splitlines()]
    return next((reason for state, reason in rows if state == "PENDING"), "") if rows else ""


def answer_of(job: str, expected: str = PENDING) -> str:
    """Wait until Slurm has looked at a job, and return its answer; a job that is to start may need free nodes first."""
    if not job:
        return REFUSED
    if expected == STARTED:
        until(lambda: not reason_of(job), f"start of job {job}")
        return STARTED
    until(lambda: reason_of(job) not in WAITING_FOR_OTHERS - {""}, f"a reason of job {job}")
    return PENDING if reason_of(job) else STARTED


def texts(found: Objections) -> list[str]:
    return [str(fault).partition("\n")[0] for fault in found.faults]


@pytest.fixture(scope="module")
def answers(limited: Path) -> dict[str, str]:
    """What Slurm does with all requests, which are none of one another's business."""
    jobs = {row.name: (sbatch(request(row)), row.slurm) for row in ROWS}
    try:
        return {name: answer_of(*job) for name, job in jobs.items()}
    finally:
        slurm("scancel", f"--user={TESTER}")


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.of} {row.limit} {row.also} {row.asks or ''}".replace("  ", " ")
)
def test_hpclaunch_says_before_the_queue_what_slurm_does(answers: dict[str, str], row: Row) -> None:
    found = texts(objections(request(row)))
    answer = answers[row.name]
    assert answer == row.slurm
    assert bool(found) is (answer != STARTED), (found, answer)
    assert (row.says in " ".join(found)) if row.says else not found, found


# --- what other jobs decide

BUSY = [
    ("MaxTRESPerUser=gres/gpu:a100=3", GPUS3, "3 a100 GPUs of 3 a100 GPUs are in use by jobs of yours"),
    ("MaxTRESPerAccount=mem=3G", G2, "2G of memory of 3G of memory are in use by jobs of the account"),
    ("GrpTRES=cpu=5", CPUS3, "3 CPUs of 5 CPUs are in use by all its jobs"),
    ("MaxJobsPerUser=1", {}, "1 jobs of yours run, so this one waits"),
    ("GrpJobs=1", {}, "1 jobs of all its users run, so this one waits"),
]


@pytest.mark.parametrize(("limit", "asks", "says"), BUSY)
def test_a_limit_that_other_jobs_fill_is_a_warning_and_the_job_waits(
    limited: Path, limit: str, asks: dict[str, Any], says: str
) -> None:
    row = Row(limit=limit, asks={**asks, "qos": "filled"}, slurm=PENDING)
    with as_root():
        sacctmgr("add", "qos", "filled", limit)
        sacctmgr("modify", "account", "where", "account=research", "set", "QOS+=filled")
    spec = planned(SITES["a100"], **{**USUAL, "partition": "batch", "account": "research", **row.asks})
    try:
        assert objections(spec) == Objections()
        first = sbatch(spec, "sleep 100")
        until(lambda: "RUNNING" in slurm("squeue", "-h", "-j", first, "-o", "%T"), "the first job")
        found = objections(spec)
        second = sbatch(spec)
        assert answer_of(second) == PENDING
        assert not found.faults and says in " ".join(found.delays), found
    finally:
        slurm("scancel", f"--user={TESTER}")
        until(lambda: not slurm("squeue", "-h", "-q", "filled").strip(), "no job")
        with as_root():
            sacctmgr("delete", "qos", "filled")
