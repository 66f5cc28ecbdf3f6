"""Which replicas a rank holds, where ranks of multiworker listen, and which options need Horovod."""

from __future__ import annotations

import argparse
import json
import socket
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hpclaunch.core.spec import STRATEGIES
from hpclaunch.training.input import shards
from hpclaunch.training.rank import placement, strategies
from hpclaunch.training.rank.failure import AgreedError, TrainingError
from hpclaunch.training.rank.world import World

FOUR = "node1:10100,node1:10101,node2:10102,node2:10103"


def world(rank: int, size: int, replicas: int | None = None) -> World:
    distribute = None if replicas is None else SimpleNamespace(num_replicas_in_sync=replicas)
    return World(rank, size, 0, 1, "node1", "", 1, "/run", distribute)


def test_under_horovod_a_rank_is_one_replica() -> None:
    assert [(one.replicas, list(one.own_replicas)) for one in (world(0, 1), world(2, 4))] == [(1, [0]), (4, [2])]


def test_under_a_strategy_each_process_holds_its_part_of_the_replicas() -> None:
    assert list(world(0, 1, 4).own_replicas) == [0, 1, 2, 3]
    assert [list(world(rank, 2, 4).own_replicas) for rank in range(2)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["mirrored", "central-storage", "one-device"])
def test_one_process_on_several_ranks_is_refused_once(name: str) -> None:
    spoken = []
    for rank in range(4):
        with pytest.raises(AgreedError, match=f"{name} is one process .* 4 ranks were started") as refused:
            strategies.begin(name, rank, 4, rank)
        spoken.append(refused.value.speaks)
    assert spoken == [True, False, False, False]


def test_tf_config_names_all_workers_and_this_one() -> None:
    found = json.loads(strategies.tf_config(strategies.workers_of(FOUR, 4), 2))
    assert found == {"cluster": {"worker": FOUR.split(",")}, "task": {"type": "worker", "index": 2}}


def test_no_proxy_stands_between_the_ranks() -> None:
    environ = {"http_proxy": "http://proxy:3128", "no_grpc_proxy": "elsewhere"}
    strategies.tell_tensorflow(environ, strategies.workers_of(FOUR, 4), 2)
    assert environ["no_grpc_proxy"] == "node1,node2"
    assert json.loads(environ["TF_CONFIG"])["task"]["index"] == 2


@pytest.mark.parametrize(
    "told", ["", "node1:10100", "node1:1,node1:1", "node1:1,node2", "node1:1,node2:x", "a b:1,c:2"]
)
def test_workers_that_are_not_one_for_each_rank_are_refused(told: str) -> None:
    with pytest.raises(TrainingError, match="HPCLAUNCH_WORKERS"):
        strategies.workers_of(told, 2)


def test_ranks_that_were_placed_in_another_order_are_refused() -> None:
    workers = strategies.workers_of(FOUR, 4)
    for rank, local in enumerate((0, 1, 0, 1)):
        strategies.check_place(workers, rank, local, "another-name")
    with pytest.raises(TrainingError, match=r"rank 1 is local rank 0 .* says local rank 1 on node1"):
        strategies.check_place(workers, 1, 0, "node1")


def test_hosts_in_another_order_are_refused_with_one_rank_on_each_too() -> None:
    workers = strategies.workers_of("n1.cluster:10100,n2.cluster:10101", 2)
    for rank, host in enumerate(("n1", "n2.other")):
        strategies.check_place(workers, rank, 0, host)
    with pytest.raises(TrainingError, match=r"rank 0 is on n2, .* says that it is on n1\.cluster"):
        strategies.check_place(workers, 0, 0, "n2")


def test_a_port_that_another_program_has_is_named() -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(TrainingError, match=rf"port {port} of .* cannot be used"):
            strategies.check_port(f"localhost:{port}")
    strategies.check_port(f"localhost:{port}")


@pytest.mark.parametrize(
    ("visible", "local_rank", "local_size", "indices"),
    [(0, 0, 1, []), (1, 0, 1, [0]), (4, 0, 1, [0, 1, 2, 3]), (4, 1, 2, [2, 3]), (4, 3, 4, [3]), (5, 1, 2, [2, 3])],
)
def test_a_process_takes_as_many_gpus_as_go_round(
    visible: int, local_rank: int, local_size: int, indices: list[int]
) -> None:
    assert list(placement.choose_gpus(visible, local_rank, local_size).indices) == indices


def test_too_few_gpus_are_not_shared() -> None:
    with pytest.raises(TrainingError, match="would share a GPU"):
        placement.choose_gpus(2, 0, 4)


def asked(**changes: Any) -> SimpleNamespace:
    plain = {"accumulation": 1, "xla": False, "adasum": False, "compression": "none", "precision": "float32"}
    plain |= {"shard_optimizer": False, "batch_norm": "local", "gradient_lag": False, "update_groups": 1}
    return SimpleNamespace(**{"strategy": "mirrored", "scale_learning_rate": "linear", **plain, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"accumulation": 2},
        {"xla": True},
        {"adasum": True},
        {"shard_optimizer": True},
        {"compression": "fp16"},
        {"gradient_lag": True},
        {"ema_decay": 0.9},
        {"update_groups": 2},
        {"batch_norm": "ghost"},
        {"batch_norm": "synchronized"},
    ],
)
def test_what_works_on_horovods_gradients_needs_horovod(changes: dict[str, Any]) -> None:
    assert strategies.faults(asked()) == []
    (fault,) = strategies.faults(asked(**changes))
    assert fault.endswith("needs --strategy=horovod")
    assert strategies.faults(SimpleNamespace(**{**vars(asked(**changes)), "strategy": "horovod"})) == []


def test_mixed_precision_is_refused_where_keras_has_none() -> None:
    for precision in ("float16", "bfloat16"):
        assert strategies.faults(asked(precision=precision)) == []
        (fault,) = strategies.faults(asked(precision=precision, strategy="central-storage"))
        assert "no mixed precision for --strategy=central-storage" in fault


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("parameter-server", "asynchronously and over gRPC"),
        ("parameter_servers", "asynchronously and over gRPC"),
        ("PS", "asynchronously and over gRPC"),
        ("ParameterServerStrategy", "use horovod, or central-storage"),
        ("tf.distribute.experimental.ParameterServerStrategyV2", "asynchronously"),
        ("tpu", "no TPUs at sites with Slurm"),
        ("TPUStrategy", "use horovod"),
        ("mirored", "invalid choice"),
    ],
)
def test_what_cannot_be_a_strategy_here_is_refused_with_the_reason(
    name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    strategies.add_option(parser)
    assert parser.parse_args(["--strategy=one-device"]).strategy == "one-device"
    with pytest.raises(SystemExit):
        parser.parse_args([f"--strategy={name}"])
    assert why in capsys.readouterr().err


def test_both_sides_have_the_same_strategies() -> None:
    assert strategies.NAMES == STRATEGIES


def test_joined_shards_hold_all_samples_and_the_repeated_ones_last() -> None:
    order = np.arange(100, 107)
    joined = shards.joined([shards.training_shard(order, rank, 4) for rank in (2, 3)])
    assert joined.samples == 3
    assert joined.indices.tolist() == [102, 106, 103, 103]
