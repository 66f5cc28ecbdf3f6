"""What averages gradients: Horovod unless somebody types a strategy of TensorFlow, and what that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.core.spec import JobSpec
from hpclaunch.render import render
from tests.builders import ROOTS, a_job, a_site, bundled_job, bundled_site, planned, refused

JOB = a_job(strategies=("mirrored", "multiworker", "central-storage", "one-device"))


def script_of(spec: JobSpec) -> str:
    return render(spec, ROOTS)


def test_horovod_is_the_default_and_typing_it_changes_nothing() -> None:
    plain, typed = planned(job=JOB), planned(job=JOB, strategy="horovod")
    assert (plain.strategy, typed.strategy) == ("horovod", "horovod")
    assert script_of(plain) == script_of(typed)
    assert planned().strategy == ""


@pytest.mark.parametrize("name", ["mirrored", "central-storage"])
def test_one_task_takes_all_gpus_and_cpus_of_one_node(name: str) -> None:
    spec = planned(job=JOB, strategy=name)
    layout = spec.layout
    assert (layout.nodes, layout.tasks_per_node, layout.gpus_per_node, layout.cpus_per_task) == (1, 1, 4, 32)
    assert spec.command[-1] == f"--strategy={name}"
    assert not [text for text in spec.warnings if "idle" in text or "asked for" in text or "gRPC" in text]


def test_one_device_is_one_task_that_leaves_the_other_gpus_of_a_whole_node_idle() -> None:
    spec = planned(job=JOB, strategy="one-device")
    assert (spec.layout.nodes, spec.layout.tasks_per_node) == (1, 1)
    assert spec.command[-1] == "--strategy=one-device"
    assert [text for text in spec.warnings if text.startswith("3 of the 4 GPUs of every node")]


@pytest.mark.parametrize("name", ["mirrored", "central-storage"])
def test_without_gpus_there_is_a_warning_of_the_one_replica(name: str) -> None:
    spec = planned(job=JOB, strategy=name, gpus_per_node=0)
    (warning,) = [text for text in spec.warnings if f"{name} has one replica" in text]
    assert warning.startswith("no GPU is requested")


def test_multiworker_has_horovods_layout_and_the_guidelines_warning() -> None:
    spec = planned(job=JOB, strategy="multiworker", nodes=2)
    assert spec.layout == planned(job=JOB, nodes=2).layout
    assert spec.command[-1] == "--strategy=multiworker"
    (warning,) = [text for text in spec.warnings if "gRPC" in text]
    assert "never on HPC" in warning and "guidelines" in warning


@pytest.mark.parametrize(
    ("job", "typed", "words"),
    [
        (a_job(), {"strategy": "mirrored"}, "offers no choice of strategy"),
        (JOB, {"strategy": "mirorred"}, "did you mean 'mirrored'?"),
        (JOB, {"strategy": "mpi"}, "horovod, mirrored, multiworker, central-storage, one-device"),
        (JOB, {"strategy": "parameter-server"}, "their variables are updated asynchronously"),
        (JOB, {"strategy": "ParameterServerStrategy"}, "gradients are stale and runs cannot be reproduced"),
        (JOB, {"strategy": "tf.distribute.experimental.ParameterServerStrategyV2"}, "--strategy central-storage"),
        (a_job(), {"strategy": "parameter-server"}, "over gRPC, without the interconnect's RDMA"),
        (a_job(), {"strategy": "parameter_servers"}, "their variables are updated asynchronously"),
        (a_job(), {"strategy": "PS"}, "their variables are updated asynchronously"),
        (JOB, {"strategy": "tpu"}, "TPUs, which no site with Slurm has"),
        (JOB, {"strategy": "TPUStrategy"}, "leave --strategy out: Horovod trains"),
        (JOB, {"strategy": "MirroredStrategy"}, "it is called mirrored here"),
        (JOB, {"strategy": "MultiWorkerMirroredStrategy"}, "it is called multiworker here"),
        (JOB, {"strategy": "CentralStorageStrategy"}, "it is called central-storage here"),
        (JOB, {"strategy": "OneDeviceStrategy"}, "it is called one-device here"),
        (JOB, {"strategy": "one-device", "nodes": 2}, "one-device runs one task on one node, with one GPU"),
        (JOB, {"strategy": "central-storage", "tasks_per_node": 4}, "with all its GPUs, not 1 node x 4 tasks"),
        (JOB, {"strategy": "mirrored", "nodes": 2}, "mirrored runs one task on one node"),
        (JOB, {"strategy": "mirrored", "tasks_per_node": 4}, "mirrored runs one task on one node"),
        (a_job(strategies=("mirrored",)), {"strategy": "multiworker"}, "allowed='horovod, mirrored'"),
        (JOB, {"strategy": "multiworker", "launcher": "torchrun"}, "launcher torchrun cannot start ranks for"),
    ],
)
def test_what_cannot_be_is_refused(job: Any, typed: dict[str, Any], words: str) -> None:
    assert words in str(refused(job=job, **typed))


def test_one_rank_and_mirrored_are_told_of_no_workers() -> None:
    for typed in ({"strategy": "mirrored"}, {"strategy": "multiworker", "tasks_per_node": 1}, {"strategy": "horovod"}):
        assert "set_workers" not in script_of(planned(job=JOB, **typed))


def test_mpirun_carries_the_workers() -> None:
    launch = planned(job=JOB, strategy="multiworker", nodes=2, launcher="mpirun").launch
    assert launch[launch.index("HPCLAUNCH_WORKERS") - 1] == "-x"


def of(site: str, **typed: Any) -> JobSpec:
    typed = {"target": "cifar", "account": "m1234", "accept_unverified": True, **typed}
    return planned(bundled_site(site), bundled_job("cifar"), **typed)


def test_a_task_with_several_gpus_is_bound_to_none_of_them() -> None:
    assert "--gpu-bind=none" in of("frontier", strategy="mirrored").launch
    assert of("lumi", strategy="mirrored").rank_setup == ("check_gpus AMD 8 || return 78",)


def test_a_site_that_gives_gpus_by_the_task_gives_the_one_all() -> None:
    site = a_site(gpus=replace(a_site().gpus, directive="gpus-per-task"))
    assert ("gpus-per-task", "4") in planned(site, job=JOB, strategy="mirrored").directives
