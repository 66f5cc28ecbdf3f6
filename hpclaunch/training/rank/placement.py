"""Chooses the GPU and the threads of a rank, and checks the world size; it touches no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from hpclaunch.training.rank.failure import TrainingError

_ONE_GPU = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True)
class GpuChoice:
    """`index` among the GPUs visible to this rank, or None for the CPU; `why` in words.

    count: the number of GPUs from there on; more than one only under a strategy of TensorFlow.
    """

    index: int | None
    why: str
    count: int = 1

    @property
    def indices(self) -> range:
        """The indices of all GPUs; none for the CPU."""
        return range(0) if self.index is None else range(self.index, self.index + self.count)


def is_bound(environ: Mapping[str, str], local_rank: int) -> bool:
    """Whether something says that the only GPU that this rank sees is its own, and not that of all ranks of the node.

    hpclaunch's script says it (docs/contract.md); so does Slurm, for GPUs by the task; so does a variable that names
    the GPU of this rank's number.
    """
    by_task = "SLURM_GPUS_PER_TASK" in environ and environ.get("SLURM_GPU_BIND") != "none"
    by_number = any(environ.get(name) == str(local_rank) for name in _ONE_GPU)
    return environ.get("HPCLAUNCH_GPU_VIEW") == "one" or by_task or by_number


def choose_gpu(visible: int, local_rank: int, local_size: int, bound: bool = False) -> GpuChoice:
    """Choose a rank's GPU.

    visible: how many GPUs its framework sees in this rank. local_rank of local_size ranks on this host. bound: the
    only visible one is known to be this rank's own (is_bound).
    Raises TrainingError if GPUs are visible, but too few: ranks would share a GPU without any message.
    """
    if visible == 0:
        return GpuChoice(None, "CPU (no GPU is visible)")
    if visible == 1:
        if local_size == 1:
            return GpuChoice(0, "GPU 0 (the only one)")
        if bound:
            return GpuChoice(0, "GPU 0 (the only visible one: the launcher has bound it)")
        raise TrainingError(
            "{} ranks run on this host, and this one sees a single GPU. Nothing says that it is not the GPU of all of "
            "them, as with a GPU that is divided into MIG devices, of which a process sees only one. Start one task "
            "per node; or, if each rank has a GPU of its own, set HPCLAUNCH_GPU_VIEW=one.".format(local_size)
        )
    if visible >= local_size:
        return GpuChoice(local_rank, "GPU {} (of {}, by local rank)".format(local_rank, visible))
    raise TrainingError(
        "{} ranks run on this host and see {} GPUs each: ranks would share a GPU. "
        "Start at most {} tasks per node.".format(local_size, visible, visible)
    )


def choose_gpus(visible: int, local_rank: int, local_size: int, bound: bool = False) -> GpuChoice:
    """Choose a rank's equal share of the GPUs, if it may use several. Arguments and errors as for choose_gpu."""
    each = visible // local_size
    if each < 2:
        return choose_gpu(visible, local_rank, local_size, bound)
    first = local_rank * each
    why = "GPUs {} to {} (of {}, by local rank)".format(first, first + each - 1, visible)
    return GpuChoice(first, why, each)


def threads_per_rank(environ: Mapping[str, str], cpus: int, local_size: int, host_cpus: int) -> int:
    """The threads of a rank's operations: OMP_NUM_THREADS, else SLURM_CPUS_PER_TASK, else an equal share of `cpus`.

    By default every rank would start as many threads as the node has cores. All ranks of a host together have at most
    as many threads as it has CPUs: a scheduler may be configured with more CPUs than there are.
    cpus: those this process may use; host_cpus: all of the host.
    """
    most = max(1, host_cpus // max(1, local_size))
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        first = environ.get(name, "").split(",")[0].strip()  # OMP_NUM_THREADS=4,2 is nested parallelism
        if first.isdigit() and int(first) > 0:
            return min(int(first), most)
    return max(1, cpus // max(1, local_size))


def expected_world_size(environ: Mapping[str, str]) -> int | None:
    """The requested world size: HPCLAUNCH_WORLD_SIZE, else the number of tasks of mpirun, else None."""
    for name in ("HPCLAUNCH_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
        text = environ.get(name, "").strip()
        if text:
            if not text.isdigit() or int(text) < 1:
                raise TrainingError("{}={!r} is not a world size, a whole number of at least 1.".format(name, text))
            return int(text)
    return None


def check_world_size(expected: int | None, size: int, mpi_built: bool) -> None:
    """Raise TrainingError if Horovod's world size is not the expected one; mpi_built: this Horovod can use MPI."""
    if expected is None or expected == size:
        return
    causes = []
    if size == 1 and not mpi_built:
        causes.append(
            "this Horovod is built without MPI, so it cannot find the ranks of srun or mpirun: "
            "use the launcher horovodrun, or build Horovod with HOROVOD_WITH_MPI=1"
        )
    elif size == 1:
        causes.append(
            "each rank started as a separate job of one rank; usually srun's --mpi type does not match the MPI that "
            "Horovod was built with: set `mpi` in the site file (`srun --mpi=list` shows the types; Open MPI: pmix)"
        )
    else:
        causes.append("the launcher started another number of tasks than nodes x tasks per node")
    raise TrainingError(
        "the world has {} {}, but {} were requested (HPCLAUNCH_WORLD_SIZE). Likely cause: {}.".format(
            size, "rank" if size == 1 else "ranks", expected, "; ".join(causes)
        )
    )
