"""Small complete values for tests: a site, a job, a context, and the spec of the three."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from hpclaunch.config.catalog import Catalog, bundled
from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Job, load_job
from hpclaunch.config.limits import Limits
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Defaults, GpuRequest, LauncherOptions, Launchers, NodeType, Site, load_site
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import LIBRARY, Context, JobSpec, Request
from hpclaunch.launchers import LAUNCHERS, NO_LAUNCHER
from hpclaunch.render import LIBRARY_PARTS, library, render
from hpclaunch.resolve import spec_of
from hpclaunch.resolve.case import Case
from hpclaunch.runs import Run

HOUR = 3600
NOWHERE = Path("/nonexistent")
BUNDLED = Catalog(project=NOWHERE, user=NOWHERE)
ROOTS = [("bundled", bundled("templates"))]

CONTEXT = Context(
    now="2026-01-02T03:04:05Z",
    cwd="/home/ada/project",
    run_dir="/home/ada/project/runs/train-20260102-030405-abcd",
    python="/opt/hpc/bin/python",
    version="1.2.3",
    cpus=8,
    user_folder="/home/ada/.config/hpclaunch",
    environment=MappingProxyType({"HOME": "/home/ada"}),
)

_GPU = NodeType(title="a node with four GPUs", nodes=8, cores_per_node=16, threads_per_core=2, gpus_per_node=4)
_CPU = NodeType(title="a node without GPUs", nodes=16, cores_per_node=32)
_SITE = Site(
    name="cluster",
    title="a cluster",
    scheduler="slurm",
    defaults=Defaults(node_type="gpu", partition="batch", walltime=HOUR),
    node_types={"gpu": _GPU, "cpu": _CPU},
    partitions={
        "batch": Limits(max_nodes=8, max_walltime=24 * HOUR),
        "debug": Limits(max_nodes=2, max_walltime=HOUR // 2),
    },
    gpus=GpuRequest(directive="gpus-per-node"),
    launchers=Launchers(
        default="srun",
        options={"srun": LauncherOptions(mpi="pmix"), "mpirun": LauncherOptions(), "horovodrun": LauncherOptions()},
    ),
)
_DESK = Site(
    name="desk",
    title="this machine",
    scheduler="local",
    defaults=Defaults(node_type="box"),
    node_types={"box": NodeType(title="it", cores_per_node=1)},
    launchers=Launchers(default="horovodrun", options={"horovodrun": LauncherOptions(), "mpirun": LauncherOptions()}),
    environment=Environment(python="current"),
)
_PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts={accounts} {deny}AllowQos={qos} AllocNodes=ALL "
    "Default={default} QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO "
    "MaxNodes={most} MaxTime={longest} MinNodes={least} LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] "
    "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE "
    "PreemptMode=REQUEUE State={state} TotalCPUs=32 TotalNodes={total} SelectTypeParameters=NONE JobDefaults=(null) "
    "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=32000M,node=4,billing=32{tres}"
)


def a_site(**changes: Any) -> Site:
    """A Slurm site with GPU and CPU nodes and two partitions."""
    return replace(_SITE, **changes)


def everywhere() -> Site:
    """A Slurm site with every launcher, where nodes may be entered by ssh."""
    names = [name for name in LAUNCHERS if name != NO_LAUNCHER]
    return a_site(launchers=Launchers(default="srun", options={name: LauncherOptions(ssh=True) for name in names}))


def a_desk(**changes: Any) -> Site:
    """A site without a scheduler."""
    return replace(_DESK, **changes)


def a_job(**changes: Any) -> Job:
    """A job with one script; ``command=`` takes the script's place."""
    script = None if changes.get("command") else "train.py"
    return Job(**{"name": "train", "folder": "/jobs/train", "summary": "trains", "script": script, **changes})


@cache
def bundled_site(name: str) -> Site:
    return load_site(BUNDLED, name)


@cache
def bundled_job(name: str) -> Job:
    return load_job(BUNDLED, name, NOWHERE)


def a_context(**changes: Any) -> Context:
    """CONTEXT, changed; ``environment`` is added to what is there."""
    if "environment" in changes:
        changes["environment"] = MappingProxyType({**CONTEXT.environment, **changes["environment"]})
    return replace(CONTEXT, **changes)


def a_case(
    site: Site | None = None,
    job: Job | None = None,
    users: Settings | None = None,
    context: Context = CONTEXT,
    **typed: Any,
) -> Case:
    """The case of what was ``typed``, with the ``users`` own settings."""
    request = Request(**{"target": "train", **typed})
    return Case(
        site=site or a_site(), job=job or a_job(), request=request, settings=users or Settings(), context=context
    )


def planned(
    site: Site | None = None,
    job: Job | None = None,
    users: Settings | None = None,
    context: Context = CONTEXT,
    **typed: Any,
) -> JobSpec:
    """The spec of what was ``typed``, with the ``users`` own settings."""
    return spec_of(a_case(site, job, users, context, **typed))


def refused(
    site: Site | None = None,
    job: Job | None = None,
    users: Settings | None = None,
    context: Context = CONTEXT,
    **typed: Any,
) -> list[Fault]:
    """The faults for which planning refuses what was ``typed``."""
    with pytest.raises(Refused) as caught:
        planned(site, job, users, context, **typed)
    return list(caught.value.faults)


def origin_of(spec: JobSpec, key: str) -> tuple[str, str]:
    """Who chose ``key``: (value, origin)."""
    return next((choice.value, choice.origin) for choice in spec.choices if choice.key == key)


def ready_script(spec: JobSpec) -> Path:
    """The script of the spec in its run directory, with the library beside it, and no claim of an earlier start."""
    folder = Path(spec.run_dir)
    for name, text in (("job.sh", render(spec, ROOTS)), (LIBRARY, library(spec, ROOTS))):
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    shutil.rmtree(folder / "claims", ignore_errors=True)
    return folder / "job.sh"


def source_library() -> str:
    """The lines of bash that read every part of the library."""
    return "\n".join(f"source {shlex.quote(str(ROOTS[-1][1] / 'library' / part))}.sh" for part in LIBRARY_PARTS)


def with_library(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What bash makes of some lines that may call the library's functions, with these variables and PATH alone."""
    lines = f"{source_library()}\n{text}"
    environment = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(["bash", "-c", lines], env=environment, capture_output=True, text=True, check=False)


def a_run(folder: Path, job_id: str = "", state: str = "PENDING") -> Run:
    """A run at a Slurm site, with its directory."""
    path = folder / f"run-{job_id}"
    path.mkdir(exist_ok=True)
    return Run(path=path, name="train", site="x", scheduler="slurm", created="", job_id=job_id, state=state)


def leave_proof(run_dir: Path, start: str) -> None:
    """Leave what the script of a start leaves when every rank has ended with 0."""
    folder = run_dir / "attempts" / start
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "completed").write_text(f"{start} 1\n")
    (folder / "exit-code").write_text("0\n")


def partition_line(name: str, **changes: Any) -> str:
    """A line of ``scontrol show partition --oneliner``, as Slurm 22.05 writes it."""
    values = {"accounts": "ALL", "deny": "", "qos": "ALL", "default": "NO", "most": "UNLIMITED", "longest": "UNLIMITED"}
    values |= {"least": 0, "total": 4, "state": "UP", "tres": ",gres/gpu=16"}
    return _PARTITION.format(name=name, **{**values, **changes})


def local_run(path: Path) -> Run:
    """Return a run of the local site on this machine, in an existing folder."""
    for folder in ("logs", "attempts"):
        (path / folder).mkdir()
    return Run(
        path=path, name="x", site="local", scheduler="local", created="", state="RUNNING", host=socket.gethostname()
    )
