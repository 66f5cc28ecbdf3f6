"""Every cell of the guidelines' decision table, how a replica is split, and which framework and updates are chosen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.core.errors import Refused
from hpclaunch.guidelines.framework import choose_framework, choose_updates
from hpclaunch.guidelines.parallelism import (
    USABLE_MEMORY,
    Need,
    Parallelism,
    Room,
    choose_parallelism,
    dataset_fits_node,
    replicas,
)

GB = 1e9
ROOM = Room(gpu_bytes=40 * GB, gpus_per_node=4, node_bytes=256 * GB)
SMALL, MEDIUM, LARGE = 20 * GB, 100 * GB, 400 * GB
"""Models that fit one GPU, one node of four, and neither."""


def chosen(model: float, dataset: float | None, *, room: Room = ROOM, replicated: float = 0.0) -> Parallelism:
    return choose_parallelism(Need(shardable_bytes=model, replicated_bytes=replicated), room, dataset)


@pytest.mark.parametrize(
    ("model", "dataset", "strategy", "extent", "gpus"),
    [
        (SMALL, 100 * GB, "data", "one GPU", 1),
        (SMALL, 900 * GB, "data", "one GPU", 1),
        (MEDIUM, 100 * GB, "data", "one node", 4),
        (MEDIUM, 900 * GB, "data", "one node", 4),
        (LARGE, 100 * GB, "model", "several nodes", 12),
        (LARGE, 900 * GB, "model-data", "several nodes", 12),
        # a data set of unknown size is treated as a large one
        (SMALL, None, "data", "one GPU", 1),
        (MEDIUM, None, "data", "one node", 4),
        (LARGE, None, "model-data", "several nodes", 12),
    ],
)
def test_every_cell(model: float, dataset: float | None, strategy: str, extent: str, gpus: int) -> None:
    found = chosen(model, dataset)
    assert (found.strategy, found.extent, found.gpus_per_replica) == (strategy, extent, gpus)
    assert found.leaves_node == bool(found.reason.warning) == (extent == "several nodes")
    assert found.shards_dataset == (strategy != "model")
    assert bool(found.try_first) == (gpus > 1)
    assert strategy in found.reason.verdict and "guidelines" in found.reason.source


def test_two_gpus_suffice_where_they_do() -> None:
    assert chosen(60 * GB, None).gpus_per_replica == 2


def test_a_node_of_six_gpus_is_split_into_parts_that_divide_it() -> None:
    room = Room(gpu_bytes=16 * GB, gpus_per_node=6, node_bytes=512 * GB)
    assert [chosen(size * GB, None, room=room).gpus_per_replica for size in (10, 29, 45, 88, 89)] == [1, 2, 6, 6, 12]


def test_the_limit_itself_still_fits() -> None:
    assert chosen(USABLE_MEMORY * ROOM.gpu_bytes, None).gpus_per_replica == 1
    assert chosen(USABLE_MEMORY * ROOM.gpu_bytes * 4, None).gpus_per_replica == 4


def test_what_every_gpu_must_hold_and_cannot_is_refused_with_what_to_try() -> None:
    with pytest.raises(Refused, match="mixed precision"):
        chosen(GB, None, replicated=37 * GB)


@pytest.mark.parametrize(
    ("size", "storage", "fits"),
    [(0.6 * 256, 0, True), (0.61 * 256, 0, False), (800, 960, True), (961, 960, False)],
)
def test_a_data_set_fits_memory_or_local_storage(size: float, storage: float, fits: bool) -> None:
    room = Room(gpu_bytes=GB, gpus_per_node=1, node_bytes=256 * GB, local_storage_bytes=storage * GB)
    assert dataset_fits_node(size * GB, room) is fits


def test_replicas() -> None:
    assert replicas(chosen(SMALL, None), 2, 4) == 8
    assert replicas(chosen(60 * GB, None), 2, 4) == 4
    assert replicas(chosen(LARGE, None), 6, 4) == 2
    assert replicas(chosen(LARGE, GB), 6, 4) == 1
    with pytest.raises(ValueError, match="12 GPUs, but there are 8"):
        replicas(chosen(LARGE, None), 2, 4)


@given(st.floats(1e6, 1e13), st.floats(0, 30e9), st.integers(1, 16))
def test_the_replica_fits_its_gpus_and_never_half_as_many(model: float, replicated: float, per_node: int) -> None:
    room = Room(gpu_bytes=40 * GB, gpus_per_node=per_node, node_bytes=256 * GB)
    need = Need(shardable_bytes=model, replicated_bytes=replicated)
    gpus = choose_parallelism(need, room, None).gpus_per_replica
    usable = USABLE_MEMORY * room.gpu_bytes * (1 + 1e-9)
    assert need.on_each(gpus) <= usable
    assert gpus <= per_node or gpus % per_node == 0
    assert gpus <= per_node or need.on_each(gpus - per_node) > USABLE_MEMORY * room.gpu_bytes * (1 - 1e-9)


def test_horovod_on_mpi_always_and_why_nothing_else() -> None:
    found = choose_framework()
    why = {one.name: one.why for one in found.declined}
    assert found.name == "Horovod on MPI"
    assert set(why) == {"Cray PE DL plugin", "gRPC", "Horovod-MLSL"}
    assert "never on HPC" in why["gRPC"] and "TensorFlow 2.11" in why["Cray PE DL plugin"]


def test_updates_are_synchronous_and_the_others_are_declined_with_a_reason() -> None:
    found = choose_updates()
    assert found.name == "synchronous SGD"
    assert [one.name for one in found.declined] == ["asynchronous", "lag-synchronous", "hybrid", "pipelined"]
    assert all(one.why and one.source for one in found.declined)
