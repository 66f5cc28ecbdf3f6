"""What a rank knows from its script (docs/contract.md): its place without Horovod, threads, folder; starts nothing."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Mapping

from hpclaunch.training.rank import fence, placement
from hpclaunch.training.rank.failure import TrainingError


def place(environ: Mapping[str, str], job: str) -> dict[str, Any]:
    """The fields of a World by RANK, WORLD_SIZE and their like; a process without them is alone.

    Where a rank sees one GPU, LOCAL_RANK is 0 on all of them, and HPCLAUNCH_LOCAL_RANK is its number on its node.

    job: the name of the output folder of a run without a launcher. Raises TrainingError if a number is wrong.
    """
    prefix = "HPCLAUNCH_" if environ.get("HPCLAUNCH_LOCAL_RANK") else ""
    local_size = _number(environ, prefix + "LOCAL_WORLD_SIZE", 1)
    return {
        "rank": _number(environ, "RANK", 0),
        "size": _number(environ, "WORLD_SIZE", 1),
        "local_rank": _number(environ, prefix + "LOCAL_RANK", 0),
        "local_size": local_size,
        "host": socket.gethostname(),
        "threads": threads(environ, local_size),
        "run_dir": run_dir(environ, job),
    }


def threads(environ: Mapping[str, str], local_size: int) -> int:
    """The threads of a rank's operations on this host (placement.threads_per_rank)."""
    return placement.threads_per_rank(environ, len(os.sched_getaffinity(0)), local_size, os.cpu_count() or 1)


def run_dir(environ: Mapping[str, str], job: str) -> str:
    """The run directory; without a launcher a folder of the job's name in the working folder.

    Raises TrainingError if the variable is set, but empty: the files of a run would be written to another folder.
    """
    named = environ.get(fence.RUN_VARIABLE)
    if named == "":
        raise TrainingError(
            "{0}, which names the run directory, is empty. A script of hpclaunch sets it; to run this program by hand, "
            "type: unset {0}".format(fence.RUN_VARIABLE)
        )
    return named or os.path.join(os.getcwd(), job + "-output")


def check_gpus(environ: Mapping[str, str], gpus: int, framework: str, version: str = "") -> None:
    """Raise TrainingError if the site promises GPUs, and the framework sees none.

    GPUs that were only found on this machine are no promise: the first rank of a node warns, and computes on the CPU.
    """
    expected = environ.get("HPCLAUNCH_EXPECT_GPU")
    if not gpus and expected == "found" and environ.get("LOCAL_RANK", "0") == "0":
        print(
            "warning: {} has GPUs, but {} sees none: this run computes on CPUs. Install a GPU build of {} and its "
            "libraries, or type --gpus-per-node 0 to leave the GPUs out.".format(
                socket.gethostname(), " ".join(filter(None, (framework, version))), framework
            ),
            file=sys.stderr,
            flush=True,
        )
    if not gpus and expected == "1":
        raise TrainingError(
            "the site promises GPUs, but {} on {} sees none (CUDA_VISIBLE_DEVICES={}). Check that the job requests "
            "GPUs, that this {} is a GPU build, and that its CUDA libraries are loaded.".format(
                " ".join(filter(None, (framework, version))),
                socket.gethostname(),
                environ.get("CUDA_VISIBLE_DEVICES", "(unset)"),
                framework,
            )
        )


def _number(environ: Mapping[str, str], name: str, alone: int) -> int:
    text = environ.get(name, str(alone))
    if not text.isdigit():
        raise TrainingError("{}={!r} is no whole number; start this program with hpclaunch".format(name, text))
    return int(text)
