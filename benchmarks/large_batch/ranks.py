"""Starts a program as ranks under mpirun on this machine and watches what memory and cores they use together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
# More ranks than cores: a rank that waits lets the others work.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--bind-to"]
# What a surrounding job or a person's shell may have set; the study decides it itself.
OWN = ("HPCLAUNCH_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "OMP_", "TF_")
SECONDS_BETWEEN_LOOKS = 2.0


@dataclass(frozen=True)
class Look:
    """What all ranks used together, `at` seconds after their start: PSS in bytes, and cores since the look before."""

    at: float
    pss: int
    cores: float


@dataclass(frozen=True)
class Ended:
    """Exit code, wall time in seconds, the largest sum of PSS (bytes) over all ranks at one time, and all looks."""

    code: int
    seconds: float
    peak_pss: int
    looks: tuple[Look, ...] = ()


def run(
    program: str,
    arguments: list[str],
    ranks: int,
    folder: Path,
    data_dir: str,
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    pinned: bool = False,
) -> Ended:
    """Run `program` (a path in the checkout) as `ranks` ranks; its files and its log go to `folder`.

    One thread a rank, or an equal part of the cores where there are more cores than ranks. `more`: variables of theirs.
    pinned: one thread a rank, on a core of its own as far as there are enough. Without mpirun one rank starts alone.
    """
    alone = ranks == 1 and not pinned and shutil.which(MPIRUN[0]) is None
    threads = 1 if pinned else max(1, len(os.sched_getaffinity(0)) // ranks)
    binding = "core:overload-allowed" if pinned else "none"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    environment = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "HPCLAUNCH_RUN_DIR": str(folder),
        "HPCLAUNCH_DATA_DIR": data_dir,
        "CUDA_VISIBLE_DEVICES": "-1",
        "OMP_NUM_THREADS": str(threads),
        **more,
    }
    launcher = [] if alone else [*MPIRUN, binding, "-np", str(ranks)]
    command = [*launcher, sys.executable, str(ROOT / program), *arguments]
    began = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            looks = watch(process, alone)
        finally:
            process.terminate()  # mpirun ends its ranks; nothing to do if it has ended
            process.wait()
    return Ended(process.returncode, time.monotonic() - began, max(look.pss for look in looks), looks)


def watch(process: subprocess.Popen[bytes], alone: bool = False) -> tuple[Look, ...]:
    """Wait for mpirun and look at its children every two seconds. alone: the process is the one rank."""
    began = before = time.monotonic()
    used: dict[Path, float] = {}
    looks: list[Look] = []
    while True:
        members = [Path("/proc", str(process.pid))] if alone else children(process.pid)
        now, times = time.monotonic(), {member: processor_seconds(member) for member in members}
        worked = sum(max(0.0, seconds - used.get(member, 0.0)) for member, seconds in times.items())
        looks.append(Look(now - began, sum(map(pss, members)), worked / (now - before) if looks else 0.0))
        before, used = now, times
        try:
            process.wait(SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            continue
        return tuple(looks)


def children(parent: int) -> list[Path]:
    """The folders in /proc of a process's children."""
    folders = Path("/proc").glob("[0-9]*")
    return [folder for folder in folders if (fields := after_name(folder)) and int(fields[1]) == parent]


def after_name(process: Path) -> list[str]:
    """The fields of a process's stat after its name, which may hold blanks; none if it has ended (proc(5))."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def processor_seconds(process: Path) -> float:
    """The processor time of a process and its threads so far, its own and the kernel's; 0 if it has ended."""
    fields = after_name(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def pss(process: Path) -> int:
    """Proportional set size in bytes: shared pages count in equal parts; 0 if the process has ended."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
