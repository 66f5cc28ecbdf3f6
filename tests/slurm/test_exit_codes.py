"""How a run ends is what Slurm is told, and nodes are free at once (rows 4, 6, 18, 20, 28)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.slurm.desk import Desk, Submitted, until

pytestmark = pytest.mark.timeout(600)
LAUNCHERS = ("srun", "mpirun")


@pytest.fixture(autouse=True)
def no_site_of_another_test(desk: Desk) -> Iterator[None]:
    """A site file of the folder comes before the bundled one: it is removed, for the tests come in any order."""
    yield
    for file in (desk.folder / "site_configs").glob("*.yaml"):
        file.unlink()


RANK = (
    'import os, signal, sys, time\nrank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"])\n'
)
ALL_RUN = (
    RANK
    + """
mark = os.environ["HPCLAUNCH_RUN_DIR"] + "/rank-"
open(mark + str(rank), "w").close()
while not all(os.path.exists(mark + str(one)) for one in range(int(os.environ["HPCLAUNCH_WORLD_SIZE"]))):
    time.sleep(0.1)
"""
)
# The others would go on for longer than any test waits.
ONE_EXITS_7 = ALL_RUN + "if rank == 5:\n    sys.exit(7)\ntime.sleep(3600)\n"
ONE_IS_KILLED = ALL_RUN + "if rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(3600)\n"
# The others learn of it a little later, and end before it does.
ONE_IS_FOLLOWED = (
    RANK
    + """
ended = os.environ["HPCLAUNCH_RUN_DIR"] + "/ended"
if rank == 1:
    while not os.path.exists(ended):
        time.sleep(0.1)
    sys.exit(7)
open(ended, "w").close()
sys.exit(1)
"""
)
# What the script of such a rank waits with, 3 s: here until the other one has left its code, as its node may be slow.
SLEEP = """#!/bin/bash
if [ "$1" = 3 ]; then
  until [ -s "$HPCLAUNCH_EXIT_FILE" ]; do /bin/sleep 0.1; done
else
  exec /bin/sleep "$@"
fi
"""
# A script of a person's own, which knows nothing of hpclaunch.
HOROVOD = """
import sys, time
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
print("rank", hvd.rank(), "of", hvd.size(), flush=True)
for step in range(1000):
    hvd.allreduce(tf.ones([1000]), name="sum")
    if step == 20 and hvd.rank() == 1:
        sys.exit(7)
    time.sleep(0.02)
"""
# The bundled jobs' first lines.
CONTRACT = """
from hpclaunch.training.rank import failure
from hpclaunch.training.rank.start import start

with failure.reported():
    start("contract", seed=1)
    print("nobody stopped it")
"""


def need_horovod() -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")


def all_nodes_are_idle(desk: Desk) -> bool:
    return set(desk.slurm("sinfo", "--noheader", "--Node", "--format=%T").split()) == {"idle"}


@dataclass(frozen=True, slots=True)
class Jobs:
    """Small ones, submitted all at once."""

    killed: dict[str, Submitted]
    followed: dict[str, Submitted]
    three: Submitted
    after_three: str
    no_module: Submitted
    no_python: Submitted
    bad_setup: Submitted


@pytest.fixture(scope="module")
def jobs(desk: Desk) -> Jobs:
    desk.job("killed", ONE_IS_KILLED)
    setup = {"python": "/usr/bin/python3"}
    desk.job("followed", ONE_IS_FOLLOWED, environment={**setup, "setup": [desk.program("sleep", SLEEP)]})
    desk.job("three", "raise SystemExit(3)")
    desk.job("no-module", environment={**setup, "modules": ["tensorflow/2.9.0"]})
    desk.job("no-python", environment={"python": "/no/such/python"})
    desk.job("bad-setup", environment={**setup, "setup": ["mkdir /proc/nowhere", "touch $HPCLAUNCH_RUN_DIR/went-on"]})
    three = desk.submit("three", "--sbatch=--hold")  # until the job that depends on it is queued
    after = (
        "sbatch",
        "--parsable",
        f"--dependency=afterok:{three.job_id}",
        "--kill-on-invalid-dep=yes",
        "--output=/dev/null",
    )
    after_three = desk.slurm(*after, "--wrap=true").strip()
    desk.slurm("scontrol", "release", three.job_id)
    return Jobs(
        three=three,
        after_three=after_three,
        killed={
            name: desk.submit("killed", "--nodes", "2", "--tasks-per-node", "1", "--launcher", name)
            for name in LAUNCHERS
        },
        followed={
            name: desk.submit("followed", "--nodes", "2", "--tasks-per-node", "1", "--launcher", name)
            for name in LAUNCHERS
        },
        no_module=desk.submit("no-module", "--tasks-per-node", "1"),
        no_python=desk.submit("no-python", "--tasks-per-node", "1"),
        bad_setup=desk.submit("bad-setup", "--tasks-per-node", "1"),
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_06_exit_code_7_ends_the_run_at_once(desk: Desk, launcher: str) -> None:
    desk.job("seven", ONE_EXITS_7)
    done = desk.run("submit", "seven", "--nodes", "4", "--tasks-per-node", "2", "--launcher", launcher, "--wait")
    until(lambda: all_nodes_are_idle(desk), "all nodes idle")
    assert "First task exited" not in done.stderr  # srun's words where it waited for the others instead of ending them
    assert done.returncode == 1
    assert "FAILED (exit code 7:0)" in done.stderr
    assert desk.ended(desk.newest()) == "FAILED 7:0"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_06_a_killed_rank_ends_the_run_at_once(desk: Desk, jobs: Jobs, launcher: str) -> None:
    desk.wait(jobs.killed[launcher])
    assert "First task exited" not in jobs.killed[launcher].log()
    assert desk.ended(jobs.killed[launcher]) == "FAILED 9:0", jobs.killed[launcher].log()  # sacct takes 128 away
    assert desk.field(jobs.killed[launcher], "ExitCode") == "137:0"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_06_the_code_is_that_of_the_rank_that_the_others_follow(desk: Desk, jobs: Jobs, launcher: str) -> None:
    desk.wait(jobs.followed[launcher])
    assert desk.ended(jobs.followed[launcher]) == "FAILED 7:0", jobs.followed[launcher].log()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_row_06_with_horovod_ranks_of_a_script_of_ones_own(desk: Desk, launcher: str) -> None:
    need_horovod()
    (desk.folder / "own.py").write_text(HOROVOD)
    small = ("--nodes", "2", "--tasks-per-node", "1", "--cpus-per-task", "1", "--gpus-per-node", "0")
    run = desk.submit("./own.py", *small, "--launcher", launcher)
    desk.wait(run)
    assert "of 2" in run.log()
    assert desk.ended(run) == "FAILED 7:0", run.log()


def test_row_04_a_wrong_mpi_type_is_a_clear_stop(desk: Desk) -> None:
    need_horovod()
    desk.site("wrongmpi", launchers__options__srun={"mpi": "none"})
    (desk.folder / "contract.py").write_text(CONTRACT)
    small = ("--nodes", "2", "--tasks-per-node", "1", "--cpus-per-task", "1", "--gpus-per-node", "0")
    run = desk.submit("./contract.py", "--site", "wrongmpi", *small)
    desk.wait(run)
    assert desk.ended(run).startswith("FAILED ")
    assert "nobody stopped it" not in run.log()
    # Debian's Open MPI refuses to start without PMIx; where it does not, the world-size check speaks.
    assert "PMI" in run.log() or "the world has 1 rank, but 2 were requested" in run.log()


def test_row_28_a_promised_gpu_that_is_not_there_stops_all_ranks(desk: Desk) -> None:
    need_horovod()
    desk.site("realgpus", node_types__gpu__stand_in_gpus=False)
    (desk.folder / "contract.py").write_text(CONTRACT)
    run = desk.submit(
        "./contract.py", "--site", "realgpus", "--nodes", "2", "--tasks-per-node", "1", "--cpus-per-task", "1"
    )
    desk.wait(run)
    assert desk.ended(run) == "FAILED 1:0", run.log()
    assert run.log().count("the site promises GPUs") == 1, run.log()
    assert "nobody stopped it" not in run.log()


def test_row_18_the_programs_exit_code_is_the_jobs(desk: Desk, jobs: Jobs) -> None:
    desk.wait(jobs.three)
    assert desk.ended(jobs.three) == "FAILED 3:0", jobs.three.log()


def test_row_18_what_waits_for_success_does_not_run(desk: Desk, jobs: Jobs) -> None:
    after = Submitted(path=desk.folder, job_id=jobs.after_three)
    desk.wait(jobs.three, after)
    assert desk.ended(after).startswith("CANCELLED")


def test_row_20_a_missing_module_stops_the_job_and_is_named(desk: Desk, jobs: Jobs) -> None:
    desk.wait(jobs.no_module)
    assert desk.ended(jobs.no_module) == "FAILED 78:0", jobs.no_module.log()
    assert "hpclaunch: module load tensorflow/2.9.0: failed" in jobs.no_module.log()
    assert not (jobs.no_module.path / "seen").exists()


def test_row_20_a_missing_interpreter_stops_the_job_and_is_named(desk: Desk, jobs: Jobs) -> None:
    desk.wait(jobs.no_python)
    assert desk.ended(jobs.no_python) == "FAILED 78:0", jobs.no_python.log()
    assert "hpclaunch: there is no program /no/such/python on node" in jobs.no_python.log()


def test_row_20_a_line_of_setup_that_fails_stops_the_job(desk: Desk, jobs: Jobs) -> None:
    desk.wait(jobs.bad_setup)
    assert desk.ended(jobs.bad_setup) == "FAILED 78:0", jobs.bad_setup.log()
    assert "hpclaunch: mkdir /proc/nowhere: failed" in jobs.bad_setup.log()
    assert not (jobs.bad_setup.path / "went-on").exists()
