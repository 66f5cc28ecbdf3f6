"""What averages gradients: Horovod unless somebody types a strategy of TensorFlow, and what that changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.spec import JobSpec
from hpclaunch.render import render
from tests.builders import ROOTS, a_desk, a_job, a_site, bundled_job, bundled_site, planned, refused, with_library

JOB = a_job(strategies=("mirrored", "multiworker"))


def script_of(spec: JobSpec) -> str:
    return render(spec, ROOTS)


def test_horovod_is_the_default_and_typing_it_changes_nothing() -> None:
    plain, typed = planned(job=JOB), planned(job=JOB, strategy="horovod")
    assert (plain.strategy, typed.strategy) == ("horovod", "horovod")
    assert script_of(plain) == script_of(typed)
    assert planned().strategy == ""


def test_mirrored_is_one_task_with_all_gpus_and_cpus_of_one_node() -> None:
    spec = planned(job=JOB, strategy="mirrored")
    layout = spec.layout
    assert (layout.nodes, layout.tasks_per_node, layout.gpus_per_node, layout.cpus_per_task) == (1, 1, 4, 32)
    assert spec.command[-1] == "--strategy=mirrored"
    assert not [text for text in spec.warnings if "idle" in text or "asked for" in text or "gRPC" in text]


def test_mirrored_without_gpus_is_warned_of_its_one_replica() -> None:
    spec = planned(job=JOB, strategy="mirrored", gpus_per_node=0)
    (warning,) = [text for text in spec.warnings if "one replica" in text]
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
        (JOB, {"strategy": "parameter-server"}, "horovod, mirrored, multiworker"),
        (JOB, {"strategy": "mirrored", "nodes": 2}, "mirrored runs one task on one node"),
        (JOB, {"strategy": "mirrored", "tasks_per_node": 4}, "mirrored runs one task on one node"),
        (a_job(strategies=("mirrored",)), {"strategy": "multiworker"}, "allowed='horovod, mirrored'"),
        (JOB, {"strategy": "multiworker", "launcher": "torchrun"}, "launcher torchrun cannot start ranks for"),
    ],
)
def test_what_cannot_be_is_refused(job: Any, typed: dict[str, Any], words: str) -> None:
    assert words in str(refused(job=job, **typed))


def workers_told(spec: JobSpec, job: str, hosts: str) -> str:
    """HPCLAUNCH_WORKERS as the script makes it, with a stand-in for scontrol."""
    (line,) = [line for line in script_of(spec).splitlines() if line.startswith("set_workers ")]
    stand_in = f"scontrol() {{ printf '%s\\n' {hosts}; }}\nscheduler={spec.scheduler} job={job} SLURM_JOB_NODELIST=x"
    done = with_library(f"set -u\n{stand_in}\n{line}\nenv", HPCLAUNCH_RUN_DIR="/nonexistent")
    (told,) = [told for told in done.stdout.splitlines() if told.startswith("HPCLAUNCH_WORKERS=")]
    return told.partition("=")[2]


def test_the_script_says_where_each_rank_listens() -> None:
    spec = planned(job=JOB, strategy="multiworker", nodes=2, tasks_per_node=2)
    assert workers_told(spec, "1007", "n1 n2") == "n1:10700,n1:10701,n2:10702,n2:10703"
    assert workers_told(spec, "1008_09", "n1 n2").startswith("n1:10900,")  # an array's task; 100809 is no octal number
    assert workers_told(spec, "by-hand-0399", "n1 n2").startswith("n1:29900,")


def test_ports_of_many_ranks_stay_below_those_that_the_system_gives_out() -> None:
    spec = planned(job=JOB, strategy="multiworker", nodes=2, tasks_per_node=2)
    many = replace(spec, before_launch=("set_workers 400",))
    ports = [int(worker.split(":")[1]) for worker in workers_told(many, "12345678199", "n1 n2").split(",")]
    assert len(set(ports)) == 800
    assert (min(ports), max(ports)) == (10000, 29999)


def test_without_a_scheduler_ranks_are_here_or_on_the_hosts_of_the_file(tmp_path: Path) -> None:
    here = planned(a_desk(), job=JOB, strategy="multiworker", tasks_per_node=2)
    assert workers_told(here, "1", "").split(",") == ["localhost:10100", "localhost:10101"]
    (tmp_path / "hosts").write_text("a slots=2\nb slots=2\n")
    assert with_library("local_hosts", HPCLAUNCH_RUN_DIR=str(tmp_path)).stdout == "a\nb\n"


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
    assert "--gpu-bind=closest" in of("frontier", nodes=1).launch
    assert "--gpu-bind=none" in of("frontier", strategy="mirrored").launch
    assert "--gpu-bind=closest" in of("frontier", nodes=1, strategy="multiworker").launch
    assert of("lumi", nodes=1).rank_setup == ("export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID",)
    assert of("lumi", strategy="mirrored").rank_setup == ()


def test_a_site_that_gives_gpus_by_the_task_gives_the_one_all() -> None:
    site = a_site(gpus=replace(a_site().gpus, directive="gpus-per-task"))
    assert ("gpus-per-task", "4") in planned(site, job=JOB, strategy="mirrored").directives
