"""Where the ranks of a strategy of TensorFlow listen, as the script tells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpclaunch.core.spec import JobSpec
from hpclaunch.render import render
from tests.builders import ROOTS, a_desk, a_job, planned, with_library

JOB = a_job(strategies=("mirrored", "multiworker"))


def workers_told(spec: JobSpec, job: str, hosts: str) -> str:
    """HPCLAUNCH_WORKERS as the script makes it, with a stand-in for scontrol."""
    (line,) = [line for line in render(spec, ROOTS).splitlines() if line.startswith("set_workers ")]
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
