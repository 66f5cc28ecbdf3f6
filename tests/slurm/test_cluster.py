"""The test cluster itself behaves as a real one: nodes, MPI, GPUs, accounting, preemption, a clean environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.timeout(600)
CLUSTER_PY = Path(__file__).resolve().parents[1] / "cluster" / "cluster.py"

MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum; char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("%s rank=%d size=%d sum=%d\n", host, rank, size, sum);
    return MPI_Finalize();
}
"""
EIGHT_RANKS = {f"rank={rank} size=8 sum=28" for rank in range(8)}
# Others may use the same cluster at the same time.
PATIENCE_S = 90


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def submit(workdir: Path, script: str, *options: str) -> str:
    (workdir / "job.sh").write_text(script, encoding="utf-8")
    return run("sbatch", "--parsable", "--output=job.out", *options, "job.sh", cwd=workdir).strip()


def job_field(job: str, field: str) -> str:
    found = re.search(rf"\b{field}=(\S+)", run("scontrol", "--oneliner", "show", "job", job))
    assert found, f"scontrol shows no {field} of job {job}"
    return found[1]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def wait_for_state(job: str, *states: str, seconds: float = PATIENCE_S) -> None:
    wait_until(lambda: job_field(job, "JobState") in states, f"job {job} {' or '.join(states)}", seconds)


@pytest.fixture(scope="module")
def mpi_program(cluster: Cluster) -> Path:
    source = cluster.root / "work" / f"ranks-{os.geteuid()}.c"
    source.write_text(MPI_PROGRAM, encoding="utf-8")
    run("mpicc", "-o", str(source.with_suffix("")), str(source))
    return source.with_suffix("")


def assert_eight_ranks_on_all_nodes(output: str, cluster: Cluster) -> None:
    hosts, ranks = zip(*(line.split(" ", 1) for line in output.splitlines()), strict=True)
    assert set(hosts) == set(cluster.nodes)
    assert set(ranks) == EIGHT_RANKS


def test_all_nodes_are_up(cluster: Cluster) -> None:
    states = dict(line.split() for line in run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines())
    assert set(states) == set(cluster.nodes)
    assert set(states.values()) <= {"idle", "mixed", "allocated", "completing"}


def test_status_and_env_describe_the_running_cluster(cluster: Cluster) -> None:
    root = f"--root={cluster.root}"
    assert run(sys.executable, str(CLUSTER_PY), "status", root).split()[::2] == list(cluster.nodes)
    assert f"export SLURM_CONF={cluster.conf}\n" in run(sys.executable, str(CLUSTER_PY), "env", root)


def test_partitions_and_their_limits(cluster: Cluster) -> None:
    limits = dict(line.split() for line in run("sinfo", "--noheader", "--summarize", "--format=%P %l").splitlines())
    assert limits == {"batch*": "4:00:00", "debug": "30:00", "preempt": "4:00:00"}


def test_srun_reaches_every_node(cluster: Cluster) -> None:
    hosts = run("srun", f"--nodes={len(cluster.nodes)}", "--mpi=pmix", "hostname").split()
    assert sorted(hosts) == sorted(cluster.nodes)


def test_nodes_have_their_own_tmp_and_shm_but_share_the_work_directory(cluster: Cluster, workdir: Path) -> None:
    nodes = len(cluster.nodes)
    all_have = f"until [ $(ls | grep -c '^mark-') = {nodes} ]; do sleep 0.1; done"
    command = f"h=$(hostname); touch /tmp/$h /dev/shm/$h mark-$h; {all_have}; ls /tmp /dev/shm | grep -c '^node'"
    counts = run("srun", f"--nodes={nodes}", "sh", "-c", command, cwd=workdir).split()
    assert counts == ["2"] * len(cluster.nodes)
    assert {mark.name for mark in workdir.iterdir()} == {f"mark-{node}" for node in cluster.nodes}


def test_open_mpi_ranks_under_srun(cluster: Cluster, mpi_program: Path) -> None:
    output = run("srun", "--nodes=4", "--ntasks-per-node=2", "--mpi=pmix", str(mpi_program))
    assert_eight_ranks_on_all_nodes(output, cluster)


def test_open_mpi_ranks_under_mpirun_in_a_job(cluster: Cluster, mpi_program: Path, workdir: Path) -> None:
    script = f"#!/bin/bash\nexec mpirun --allow-run-as-root --bind-to none -np 8 {mpi_program}\n"
    job = submit(workdir, script, "--nodes=4", "--ntasks-per-node=2")
    wait_for_state(job, "COMPLETED", "FAILED")
    assert_eight_ranks_on_all_nodes((workdir / "job.out").read_text(encoding="utf-8"), cluster)


def test_gpus_are_allocated_on_each_node(cluster: Cluster) -> None:
    command = "echo $(hostname) $CUDA_VISIBLE_DEVICES"
    lines = run("srun", "--nodes=4", "--exclusive", "--gpus-per-node=4", "sh", "-c", command).splitlines()
    assert sorted(lines) == [f"{node} 0,1,2,3" for node in cluster.nodes]


def test_too_many_gpus_are_refused(cluster: Cluster) -> None:
    done = subprocess.run(["srun", f"--gpus-per-node={cluster.gpus + 1}", "true"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Requested node configuration is not available" in done.stderr


def test_two_jobs_without_mem_share_a_node(cluster: Cluster, workdir: Path) -> None:
    sleep = "#!/bin/bash\nsleep 3600\n"
    jobs = [submit(workdir, sleep, "--nodelist=node1", "--ntasks=2") for _ in range(2)]
    try:
        for job in jobs:
            wait_for_state(job, "RUNNING")
    finally:
        run("scancel", *jobs)


def test_sacct_keeps_the_exit_code(cluster: Cluster, workdir: Path) -> None:
    job = submit(workdir, "#!/bin/bash\nexit 7\n", "--account=physics")
    wait_for_state(job, "FAILED")
    query = ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State,ExitCode,Account")
    wait_until(lambda: run(*query).strip() == "FAILED|7:0|physics", "the failed job in sacct")


def test_job_without_the_submitters_environment(
    cluster: Cluster, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK", "from the submitting shell")
    job = submit(workdir, "#!/bin/bash\nenv\nscontrol ping\n", "--export=NONE")
    wait_for_state(job, "COMPLETED", "FAILED")
    output = (workdir / "job.out").read_text(encoding="utf-8")
    assert job_field(job, "ExitCode") == "0:0", output
    assert "LEAK" not in output
    assert re.search(r"^PATH=.*/usr/bin", output, re.MULTILINE)
    assert re.search(r"^HOME=/", output, re.MULTILINE)
    assert "is UP" in output
    assert job_field(job, "Restarts") == "0"  # Slurm requeues a job whose environment it did not get in time.


def test_preempted_job_is_requeued_and_runs_again(cluster: Cluster, workdir: Path) -> None:
    everything = (f"--nodes={len(cluster.nodes)}", "--exclusive")
    script = "#!/bin/bash\necho attempt ${SLURM_RESTART_COUNT:-0}\nsleep 3600\n"
    log = workdir / "job.out"

    def has_said(text: str) -> bool:
        return log.exists() and text in log.read_text(encoding="utf-8")

    victim = submit(workdir, script, "--partition=preempt", "--requeue", "--open-mode=append", *everything)
    try:
        wait_until(lambda: has_said("attempt 0"), "the first attempt's log line")
        urgent = submit(workdir, "#!/bin/bash\ntrue\n", "--partition=batch", "--output=urgent.out", *everything)
        wait_for_state(urgent, "COMPLETED")
        assert job_field(victim, "Restarts") == "1"
        wait_for_state(victim, "RUNNING")
        wait_until(lambda: has_said("attempt 1"), "the second attempt's log line")
    finally:
        run("scancel", victim)
    assert log.read_text(encoding="utf-8").startswith("attempt 0\n")
