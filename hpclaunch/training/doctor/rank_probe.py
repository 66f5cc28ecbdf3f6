"""Reports one rank's place, CPUs, GPUs, variables, TensorFlow and Horovod's world to RUN/doctor/rank-N.json.

It judges nothing: hpclaunch doctor does that on the machine that submitted the job. Every step is written before the
next begins, so that the file shows where a rank ended in an abort of MPI, or hung.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import socket
import sys
import traceback
from typing import Any, Mapping, NoReturn, Sequence

RANK = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "RANK")
"""A rank's number, as launchers name it. torchrun starts one task per node: there SLURM_PROCID is a node's number."""
LOCAL_RANK = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "LOCAL_RANK")
GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ASSIGNED = (*GPUS, "SLURM_CPUS_PER_TASK", "SLURM_MPI_TYPE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "OMP_NUM_THREADS")
STRAYS = ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "HPCLAUNCH_DOCTOR_MARK")
"""Variables that no rank should see; the last one is only set in the submitting shell."""
PATIENCE_S = 240
"""Seconds after which a hanging rank reports its step: TensorFlow may load slowly from a shared file system."""


class Teller:
    """Writes the facts so far to one file, which is complete at every moment."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}

    def tell(self, step: str, **news: Any) -> None:
        """Add new facts; ``step`` is the step that comes next."""
        self.facts.update(news, step=step)
        with open(self.path + ".new", "w") as file:
            json.dump(self.facts, file, indent=1, sort_keys=True)
        os.replace(self.path + ".new", self.path)


def launched_by(environ: Mapping[str, str], names: Sequence[str]) -> Sequence[str]:
    """Return the names to look for: under torchrun only its own, which are the last ones."""
    return names[-1:] if "TORCHELASTIC_RUN_ID" in environ else names


def first(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The value of the first of these variables that is a number; launchers name them differently."""
    found = [environ[name] for name in names if environ.get(name, "").isdigit()]
    return int(found[0]) if found else None


def place(environ: Mapping[str, str], promised: Sequence[str]) -> dict[str, Any]:
    """The place that the launcher gave this process; ``promised`` are the variables that the script sets."""
    return {
        "rank": first(environ, launched_by(environ, RANK)),
        "local_rank": first(environ, launched_by(environ, LOCAL_RANK)),
        "host": socket.gethostname(),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "node_cpus": os.cpu_count(),
        "gpu_devices": sorted(name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+|kfd", name)),
        "assigned": {name: environ[name] for name in ASSIGNED if name in environ},
        "variables": {name: environ.get(name) for name in promised},
        "strays": [name for name in STRAYS if name in environ],
    }


def tensorflow_facts() -> dict[str, Any]:
    """Version and build of TensorFlow, and the GPUs that it sees; it allocates none of their memory."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    return {
        "version": tf.__version__,
        "cuda": bool(build.get("is_cuda_build")),
        "rocm": bool(build.get("is_rocm_build")),
        "gpus": len(tf.config.list_physical_devices("GPU")),
    }


def horovod_facts() -> dict[str, Any]:
    """Version and build of Horovod, which is not started."""
    import horovod
    import horovod.tensorflow as hvd

    built = {name: bool(getattr(hvd, name + "_built")()) for name in ("mpi", "gloo", "nccl")}
    return {"version": horovod.__version__, **built}


def world_facts() -> dict[str, Any]:
    """Horovod's world as this rank sees it, and a sum over it. A collective: every rank of the world must call it."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
    return {
        "size": hvd.size(),
        "rank": hvd.rank(),
        "local_rank": hvd.local_rank(),
        "local_size": hvd.local_size(),
        "sum": float(total),
        "libraries": mpi_libraries(),
    }


def mpi_libraries() -> list[str]:
    """The files of MPI and PMIx that this process has loaded."""
    with open("/proc/self/maps") as file:
        paths = {line.split()[-1] for line in file if re.search(r"/lib(mpi|mpich|pmix|pmi2?)[^/]*\.so", line)}
    return sorted(paths)


def main() -> int:
    """Report all facts step by step; return 1 if a step failed, so that other ranks do not wait for this one."""
    run = os.environ["HPCLAUNCH_RUN_DIR"]
    with open(os.path.join(run, "spec.json")) as file:
        promised = [name for name, _ in json.load(file)["environment"]]
    folder = os.path.join(run, "doctor")
    os.makedirs(folder, exist_ok=True)
    known = place(os.environ, promised)
    number = known["rank"] if known["rank"] is not None else 0
    teller = Teller(os.path.join(folder, "rank-{}.json".format(number)))
    teller.tell("tensorflow", **known)
    print("doctor: rank {} on {}".format(number, known["host"]), flush=True)

    def give_up(signum: int, frame: Any) -> NoReturn:
        raise TimeoutError("it did not end within {} s".format(PATIENCE_S))

    signal.signal(signal.SIGALRM, give_up)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    steps = (("tensorflow", tensorflow_facts), ("horovod", horovod_facts), ("world", world_facts))
    for (name, facts), after in zip(steps, ("horovod", "world", "done")):
        signal.alarm(PATIENCE_S)
        try:
            teller.tell(after, **{name: facts()})
        except BaseException as error:  # a library built for another version may raise any kind of error
            words = " ".join("{}: {}".format(type(error).__name__, error).split())
            teller.tell(name, problem=words[:500])
            traceback.print_exc()
            return 1
    signal.alarm(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
