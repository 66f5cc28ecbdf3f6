"""Reports one rank's place, node, libraries, world, all-reduce times and device's speed to RUN/doctor/rank-N.json.

It judges nothing: hpclaunch doctor does that on the machine that submitted the job. Every step is written before the
next begins, so that the file shows where a rank ended in an abort of MPI, or hung.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from typing import Any, Callable, Mapping, NoReturn, Sequence

from hpclaunch.training.doctor import all_reduce, device_speed, process_sets, topology

RANK = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK", "RANK")
"""A rank's number, as launchers name it. torchrun starts one task per node: there SLURM_PROCID is a node's number."""
LOCAL_RANK = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "LOCAL_RANK")
GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ASSIGNED = (*GPUS, "SLURM_CPUS_PER_TASK", "SLURM_MPI_TYPE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "OMP_NUM_THREADS")
STRAYS = ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "HPCLAUNCH_DOCTOR_MARK")
"""Variables that no rank should see; the last one is only set in the submitting shell."""
PATIENCE_S = 240
"""Seconds after which a hanging rank reports its step: TensorFlow may load slowly from a shared file system."""
NVIDIA_SMI_S = 30
"""Seconds for an answer of nvidia-smi; a driver that is not kept loaded starts slowly."""
PYTORCH, JAX = "pytorch", "jax"


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


def node_facts(
    root: str, environ: Mapping[str, str], local_rank: int | None, ask: Callable[..., str]
) -> dict[str, Any]:
    """The topology of this node, with the PCI address of the rank's own GPU (None: not known); it never fails.

    ask: the answer of nvidia-smi to some arguments.
    """
    try:
        found = topology.gpus(root)
        vendor, usable = "AMD", [(address, "") for address in topology.amd_gpus(root).values()]
        links = topology.amd_links(root)
        of_nvidia = [(gpu["address"], "") for gpu in found if gpu["vendor"] == "NVIDIA"]
        if of_nvidia:
            listing = ask("--query-gpu=pci.bus_id,uuid", "--format=csv,noheader")
            # Without nvidia-smi, /sys shows all GPUs, but CUDA numbers only those of the job.
            unlisted = of_nvidia if len(of_nvidia) == 1 else []
            vendor, usable = "NVIDIA", topology.nvidia_gpus(listing) or unlisted
            # The same on every rank of a node, and slow.
            matrix = ask("topo", "-m") if not local_rank else ""
            links = topology.nvidia_links(matrix, [address for address, _ in usable])
        return {
            "numa": topology.numa_nodes(root),
            "gpus": found,
            "links": links,
            "cards": topology.network_cards(root),
            "gpu": topology.gpu_of_rank(usable, vendor, environ, local_rank),
        }
    except (OSError, ValueError, LookupError) as error:
        return {"problem": "{}: {}".format(type(error).__name__, error)}


def nvidia_smi(*arguments: str) -> str:
    """The answer of nvidia-smi; empty if there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=NVIDIA_SMI_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else ""


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

    os.environ[process_sets.DYNAMIC] = "1"
    hvd.init()
    pin_gpu(tf, hvd.local_rank())
    total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
    return {
        "size": hvd.size(),
        "rank": hvd.rank(),
        "local_rank": hvd.local_rank(),
        "local_size": hvd.local_size(),
        "sum": float(total),
        "libraries": mpi_libraries(),
    }


def pin_gpu(tf: Any, local_rank: int) -> None:
    """Let this rank use one GPU, as training/rank does: NCCL refuses two ranks on one GPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        own = gpus[local_rank % len(gpus)]
        tf.config.set_visible_devices(own, "GPU")
        tf.config.experimental.set_memory_growth(own, True)


def all_reduce_facts() -> dict[str, Any]:
    """The times of Horovod's all-reduces, if there are several ranks. A collective."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    return all_reduce.by_horovod(tf, hvd) if hvd.size() > 1 else {}


def process_set_facts() -> dict[str, Any]:
    """Horovod's process sets of ranks that share a model, and their all-reduces. A collective."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    return process_sets.by_horovod(tf, hvd)


def tensorflow_speed_facts() -> dict[str, Any]:
    """The matrix product and the copy rate of this rank's device; why they are not known, if that fails."""
    import tensorflow as tf

    return speed_or_problem(lambda: device_speed.by_tensorflow(tf))


def speed_or_problem(measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The measured speed of a device. A job can run without it, so that no fault of it is one of the rank."""
    try:
        return measured()
    except Exception as error:  # a library may raise any kind of error, such as one of memory
        return {"problem": " ".join("{}: {}".format(type(error).__name__, error).split())[:500]}


def pytorch_facts() -> dict[str, Any]:
    """Version and build of PyTorch, and the GPUs that it sees."""
    import torch

    version = torch.version
    return {
        "version": torch.__version__,
        "cuda": version.cuda is not None,
        "rocm": getattr(version, "hip", None) is not None,
        "gpus": torch.cuda.device_count(),
    }


class TorchWorld:
    """The ranks of torch.distributed, which are started once for two steps."""

    device: Any = None

    def facts(self) -> dict[str, Any]:
        """The world as this rank sees it, and a sum over it. A collective."""
        import torch
        import torch.distributed as dist

        from hpclaunch.training.rank import torch_ranks

        world = torch_ranks.start("doctor", 0)
        self.device = world.torch_device
        total = torch.ones(1, device=self.device)
        if world.size > 1:
            dist.all_reduce(total)
        place = {name: getattr(world, name) for name in ("size", "rank", "local_rank", "local_size")}
        return {**place, "sum": float(total[0]), "libraries": []}

    def all_reduce_facts(self) -> dict[str, Any]:
        """The times of all-reduces, if there are several ranks. A collective."""
        import torch
        import torch.distributed as dist

        return all_reduce.by_torch(torch, dist, self.device) if dist.is_initialized() else {}

    def speed_facts(self) -> dict[str, Any]:
        """The matrix product and the copy rate of this rank's device; why they are not known, if that fails."""
        import torch

        return speed_or_problem(lambda: device_speed.by_torch(torch, self.device))


def jax_facts() -> dict[str, Any]:
    """Version of JAX, and the makers of GPUs that its plug-ins are for; no device is touched."""
    from importlib import metadata

    import jax

    names = [str(one.metadata["Name"]).lower().replace("_", "-") for one in metadata.distributions()]
    return {
        "version": jax.__version__,
        "cuda": any(name.startswith("jax-cuda") for name in names),
        "rocm": any(name.startswith("jax-rocm") for name in names),
    }


def jax_world_facts() -> dict[str, Any]:
    """The world of jax.distributed as this rank sees it, with its GPUs, and a sum over it. A collective."""
    import jax
    import numpy as np
    from jax.experimental.multihost_utils import process_allgather

    from hpclaunch.training.rank import jax_ranks

    world = jax_ranks.start("doctor", 0)
    total = np.asarray(process_allgather(np.ones(1, np.float32))).sum() if world.size > 1 else 1.0
    place = {name: getattr(world, name) for name in ("size", "rank", "local_rank", "local_size")}
    gpus = sum(device.platform != "cpu" for device in jax.local_devices())
    return {**place, "sum": float(total), "gpus": gpus, "libraries": []}


def steps_of(spec: Mapping[str, Any]) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """The steps that load the libraries and join the ranks: of the framework that was typed, else of Horovod."""
    chosen = [choice["value"] for choice in spec.get("choices", ()) if choice["key"] == "framework"]
    if PYTORCH in chosen:
        world = TorchWorld()
        torch_steps = [(PYTORCH, pytorch_facts), ("world", world.facts), ("all_reduce", world.all_reduce_facts)]
        return [*torch_steps, ("device", world.speed_facts)]
    if JAX in chosen:
        return [(JAX, jax_facts), ("world", jax_world_facts)]
    libraries: list[tuple[str, Callable[[], dict[str, Any]]]]
    libraries = [("tensorflow", tensorflow_facts), ("horovod", horovod_facts)]
    libraries += [("world", world_facts), ("all_reduce", all_reduce_facts)]
    return [*libraries, ("process_sets", process_set_facts), ("device", tensorflow_speed_facts)]


def mpi_libraries() -> list[str]:
    """The files of MPI and PMIx that this process has loaded."""
    with open("/proc/self/maps") as file:
        paths = {line.split()[-1] for line in file if re.search(r"/lib(mpi|mpich|pmix|pmi2?)[^/]*\.so", line)}
    return sorted(paths)


def main() -> int:
    """Report all facts step by step; return 1 if a step failed, so that other ranks do not wait for this one."""
    run = os.environ["HPCLAUNCH_RUN_DIR"]
    with open(os.path.join(run, "spec.json")) as file:
        spec = json.load(file)
    folder = os.path.join(run, "doctor")
    os.makedirs(folder, exist_ok=True)
    known = place(os.environ, [name for name, _ in spec["environment"]])
    number = known["rank"] if known["rank"] is not None else 0
    teller = Teller(os.path.join(folder, "rank-{}.json".format(number)))
    teller.tell("topology", **known)
    print("doctor: rank {} on {}".format(number, known["host"]), flush=True)

    def give_up(signum: int, frame: Any) -> NoReturn:
        raise TimeoutError("it did not end within {} s".format(PATIENCE_S))

    signal.signal(signal.SIGALRM, give_up)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    steps = steps_of(spec)
    following = [name for name, _ in steps[1:]] + ["done"]
    teller.tell(steps[0][0], topology=node_facts("/", os.environ, known["local_rank"], nvidia_smi))
    for (name, facts), after in zip(steps, following):
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
