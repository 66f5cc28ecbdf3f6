"""Every cell of the guidelines' decision table, the ranks that share a layer, and the framework and the updates."""

from __future__ import annotations

import pytest

from hpclaunch.guidelines.framework import choose_framework, choose_updates
from hpclaunch.guidelines.parallelism import Room, choose_parallelism, dataset_fits_node, tensor_sizes

GB = 1e9
ROOM = Room(gpu_bytes=40 * GB, gpus_per_node=4, node_bytes=256 * GB)


@pytest.mark.parametrize(
    ("gpus", "dataset", "strategy", "extent"),
    [
        (1, 100 * GB, "data", "one GPU"),
        (1, 900 * GB, "data", "one GPU"),
        (4, 100 * GB, "data", "one node"),
        (4, 900 * GB, "data", "one node"),
        (12, 100 * GB, "model", "several nodes"),
        (12, 900 * GB, "model-data", "several nodes"),
        # a data set of unknown size is treated as a large one
        (1, None, "data", "one GPU"),
        (4, None, "data", "one node"),
        (12, None, "model-data", "several nodes"),
    ],
)
def test_every_cell(gpus: int, dataset: float | None, strategy: str, extent: str) -> None:
    found = choose_parallelism(gpus, 20 * GB, ROOM, dataset)
    assert (found.strategy, found.extent, found.gpus_per_replica) == (strategy, extent, gpus)
    assert found.leaves_node == bool(found.reason.warning) == (extent == "several nodes")
    assert found.shards_dataset == (strategy != "model")
    assert strategy in found.reason.verdict and "guidelines" in found.reason.source


def test_the_ranks_that_share_a_layer_divide_a_node() -> None:
    assert tensor_sizes(1) == ()
    assert tensor_sizes(4) == (2, 4)
    assert tensor_sizes(6) == (2, 3, 6)


@pytest.mark.parametrize(
    ("size", "storage", "fits"),
    [(0.6 * 256, 0, True), (0.61 * 256, 0, False), (800, 960, True), (961, 960, False)],
)
def test_a_data_set_fits_memory_or_local_storage(size: float, storage: float, fits: bool) -> None:
    room = Room(gpu_bytes=GB, gpus_per_node=1, node_bytes=256 * GB, local_storage_bytes=storage * GB)
    assert dataset_fits_node(size * GB, room) is fits


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
