"""The GPUs that the ranks see, against those that were requested."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.actions.clusters.diagnosis import diagnose
from tests.unit.actions.diagnosis.probes import SPEC, a_rank, a_spec, evidence, failed, with_ranks


@pytest.mark.parametrize("stand_in", [False, True])
def test_no_gpu_from_slurm_is_named_as_the_gpu_request(stand_in: bool) -> None:
    told = {"SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    tensorflow = {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 0}
    found = evidence(spec=a_spec(stand_in_gpus=stand_in), ranks=with_ranks(assigned=told, tensorflow=tensorflow))
    (check,) = failed(found)
    assert check.name == "GPUs"
    assert "4 of 4 ranks have no GPU (rank 0 on n0: Slurm gave none)" in check.what
    assert "'gpus' and gpu_type" in check.next


def test_a_tensorflow_for_cpus_on_real_gpus_is_named() -> None:
    build = {"version": "2.15.1", "cuda": False, "rocm": False, "gpus": 0}
    (check,) = failed(evidence(ranks=with_ranks(tensorflow=build)))
    assert check.name == "GPUs"
    assert "TensorFlow sees none" in check.what and "built for CPUs" in check.next


def test_ranks_that_would_share_a_gpu_are_named() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": "16"}
    spec = a_spec(tasks_per_node=4, nodes=1)
    ranks = [a_rank(n, host="n0", assigned=told) for n in range(4)]
    assert "4 ranks on n0 see 2 GPUs: they would share" in [
        check.what for check in failed(evidence(spec=spec, ranks=ranks))
    ]


def test_fewer_gpus_than_were_asked_for_are_a_warning_where_every_rank_has_one() -> None:
    spec = a_spec(tasks_per_node=1, nodes=4, gpus_per_node=4)
    for visible, verdict in (("0,1", "WARN"), ("0,1,2,3", "PASS")):
        told = {"CUDA_VISIBLE_DEVICES": visible, "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
        checks = diagnose(evidence(spec=spec, ranks=[a_rank(n, host=f"n{n}", assigned=told) for n in range(4)]))
        (check,) = [check for check in checks if check.name == "GPUs"]
        assert check.verdict == verdict
        assert verdict == "PASS" or check.what == "n0 shows 2 GPUs, but 4 per node were requested"


def test_one_gpu_bound_to_every_rank_is_enough() -> None:
    told = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    build = {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 1}
    assert not failed(evidence(ranks=with_ranks(assigned=told, tensorflow=build)))


def test_gpus_without_a_variable_count_by_what_tensorflow_sees() -> None:
    told = {"SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])}
    assert not failed(evidence(ranks=with_ranks(assigned=told)))


def test_the_scheduler_that_gave_no_gpu_is_named_with_its_own_command() -> None:
    tensorflow = {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 0}
    hints = {}
    for scheduler in ("slurm", "local"):
        found = evidence(
            spec={**a_spec(), "scheduler": scheduler}, ranks=with_ranks(assigned={}, tensorflow=tensorflow)
        )
        (check,) = [check for check in failed(found) if check.name == "GPUs"]
        hints[scheduler] = check.next
    assert "sinfo --format='%P %G' shows the GPUs that Slurm has" in hints["slurm"]
    assert "sinfo" not in hints["local"]


def of_this_machine(expected: str, **layout: int) -> dict[str, Any]:
    spec = a_spec(**layout)
    environment = {**dict(spec["environment"]), "HPCLAUNCH_EXPECT_GPU": expected}
    return {**spec, "scheduler": "local", "launcher": "horovodrun", "environment": list(environment.items())}


def test_gpus_that_nobody_asked_for_are_named_on_a_machine_without_a_scheduler() -> None:
    topology = {"gpus": [{"model": "NVIDIA H200"}] * 2}
    spec = of_this_machine("0", gpus_per_node=0)
    (check,) = [one for one in diagnose(evidence(spec=spec, ranks=with_ranks(topology=topology))) if one.name == "GPUs"]
    assert (check.verdict, check.what) == ("WARN", "none requested, but n0 has 2 GPUs (NVIDIA H200)")
    on_a_cluster = evidence(spec=a_spec(gpus_per_node=0), ranks=with_ranks(topology=topology))
    assert [one.what for one in diagnose(on_a_cluster) if one.name == "GPUs"] == ["none requested"]


@pytest.mark.parametrize(("expected", "verdict"), [("found", "WARN"), ("1", "FAIL")])
def test_a_framework_without_the_gpus_that_were_found_is_a_warning(expected: str, verdict: str) -> None:
    build = {"version": "2.15.1", "cuda": False, "rocm": False, "gpus": 0}
    ranks = with_ranks(tensorflow=build, assigned={})
    checks = diagnose(evidence(spec=of_this_machine(expected), ranks=ranks))
    (check,) = [one for one in checks if one.name == "GPUs"]
    assert check.verdict == verdict and "TensorFlow sees none" in check.what and "built for CPUs" in check.next
