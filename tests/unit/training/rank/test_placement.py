"""GPU, threads, world size and Keras: tables of what is chosen and what is refused."""

from __future__ import annotations

import pytest

try:
    import numpy  # noqa: F401
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.rank import placement
from hpclaunch.training.rank.failure import TrainingError


@pytest.mark.parametrize(
    ("visible", "local_rank", "local_size", "index"),
    [
        (0, 0, 1, None),
        (0, 3, 4, None),
        (1, 0, 1, 0),
        (4, 0, 4, 0),
        (4, 3, 4, 3),
        (4, 1, 2, 1),
        (8, 0, 1, 0),
    ],
)
def test_gpu_choice(visible: int, local_rank: int, local_size: int, index: int | None) -> None:
    assert placement.choose_gpu(visible, local_rank, local_size).index == index


@pytest.mark.parametrize("local_rank", [0, 3, 6])
def test_one_visible_gpu_is_a_ranks_own_only_if_something_says_so(local_rank: int) -> None:
    assert placement.choose_gpu(1, local_rank, 7, bound=True).index == 0
    for choose in (placement.choose_gpu, placement.choose_gpus):
        with pytest.raises(TrainingError, match="7 ranks run on this host, and this one sees a single GPU"):
            choose(1, local_rank, 7)


@pytest.mark.parametrize(
    ("environ", "is_bound"),
    [
        ({}, False),
        ({"HPCLAUNCH_GPU_VIEW": "one"}, True),
        ({"SLURM_GPUS_PER_TASK": "1"}, True),
        ({"SLURM_GPUS_PER_TASK": "1", "SLURM_GPU_BIND": "none"}, False),
        ({"ROCR_VISIBLE_DEVICES": "3"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False),  # on rank 3: the GPU of all ranks, or its own in a cgroup
        ({"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2,MIG-3,MIG-4"}, False),  # of which a process sees the first
    ],
)
def test_what_says_that_a_gpu_is_a_ranks_own(environ: dict[str, str], is_bound: bool) -> None:
    assert placement.is_bound(environ, 3) is is_bound


@pytest.mark.parametrize(("visible", "local_size"), [(2, 4), (3, 4), (4, 8)])
def test_sharing_a_gpu_unasked_is_refused(visible: int, local_size: int) -> None:
    with pytest.raises(TrainingError, match=f"Start at most {visible} tasks per node"):
        placement.choose_gpu(visible, 0, local_size)


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({"OMP_NUM_THREADS": "4", "SLURM_CPUS_PER_TASK": "8"}, 4),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"SLURM_CPUS_PER_TASK": "8"}, 8),
        ({"OMP_NUM_THREADS": "", "SLURM_CPUS_PER_TASK": "x"}, 4),
        ({"OMP_NUM_THREADS": "0"}, 4),
        ({}, 4),
    ],
)
def test_threads(environ: dict[str, str], threads: int) -> None:
    assert placement.threads_per_rank(environ, cpus=16, local_size=4, host_cpus=64) == threads


def test_more_ranks_than_cores_have_one_thread() -> None:
    assert placement.threads_per_rank({}, cpus=2, local_size=8, host_cpus=2) == 1


@pytest.mark.parametrize(("local_size", "threads"), [(1, 2), (2, 1), (8, 1)])
def test_the_ranks_of_a_host_have_no_more_threads_than_it_has_cpus(local_size: int, threads: int) -> None:
    """A scheduler may be configured with more CPUs than there are, as that of tests/cluster is."""
    pretended = {"OMP_NUM_THREADS": "8"}
    assert placement.threads_per_rank(pretended, cpus=2, local_size=local_size, host_cpus=2) == threads


def test_world_size_as_asked_passes() -> None:
    placement.check_world_size(8, 8, True)
    placement.check_world_size(None, 1, True)


@pytest.mark.parametrize(
    ("size", "mpi_built", "cause"),
    [(1, True, "--mpi type"), (1, False, "built without MPI"), (6, True, "another number of tasks")],
)
def test_another_world_size_names_the_likely_cause(size: int, mpi_built: bool, cause: str) -> None:
    with pytest.raises(TrainingError, match=f"8 were requested .*{cause}"):
        placement.check_world_size(8, size, mpi_built)


def test_expected_world_size() -> None:
    assert placement.expected_world_size({"HPCLAUNCH_WORLD_SIZE": "8", "OMPI_COMM_WORLD_SIZE": "2"}) == 8
    assert placement.expected_world_size({"OMPI_COMM_WORLD_SIZE": "2"}) == 2
    assert placement.expected_world_size({"HPCLAUNCH_WORLD_SIZE": ""}) is None
    with pytest.raises(TrainingError, match="'many' is not a world size"):
        placement.expected_world_size({"HPCLAUNCH_WORLD_SIZE": "many"})
