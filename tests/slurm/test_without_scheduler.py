"""mpirun on one machine, without a scheduler: two ranks, and the exit code of the one that fails."""

from __future__ import annotations

import shutil

import pytest

from tests.slurm.desk import Desk, Submitted, until

pytestmark = pytest.mark.timeout(300)
RANK = 'import os, sys, time\nrank = int(os.environ["OMPI_COMM_WORLD_RANK"])\n'
ONE_EXITS_7 = """
other_runs = os.environ["HPCLAUNCH_RUN_DIR"] + "/other-runs"
if rank == 1:
    while not os.path.exists(other_runs):
        time.sleep(0.1)
    sys.exit(7)
open(other_runs, "w").close()
time.sleep(600)
"""


@pytest.fixture
def as_root(desk: Desk) -> dict[str, str]:
    if shutil.which("mpirun") is None:
        pytest.skip("group mpirun: needs Open MPI (openmpi-bin)")
    return desk.shell(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", HPCLAUNCH_SITE="local")


def local(desk: Desk, shell: dict[str, str], job: str, *arguments: str) -> tuple[int, str, Submitted]:
    done = desk.run("submit", job, "--launcher", "mpirun", "--tasks-per-node", "2", "--wait", *arguments, env=shell)
    return done.returncode, done.stderr, desk.newest()


def test_two_ranks_and_their_arguments(desk: Desk, as_root: dict[str, str]) -> None:
    desk.job("probe", resources={})
    code, said, run = local(desk, as_root, "probe", "--", "two words", "$HOME")
    assert code == 0, said
    assert [rank["argv"] for rank in run.ranks()] == [["two words", "$HOME"]] * 2


def test_a_hosts_file(desk: Desk, as_root: dict[str, str]) -> None:
    desk.job("probe", resources={})
    (desk.folder / "hosts").write_text("localhost # this machine\n")
    code, said, run = local(desk, as_root, "probe", "--hosts", "hosts", "--nodes", "1", "--cpus-per-task", "1")
    assert code == 0, said
    assert len(run.ranks()) == 2
    assert (run.path / "hosts").read_text() == "localhost slots=2\n"


def test_row_06_exit_code_7_is_kept_and_nothing_goes_on(desk: Desk, as_root: dict[str, str]) -> None:
    desk.job("seven", RANK + ONE_EXITS_7, resources={})
    code, said, run = local(desk, as_root, "seven")
    assert code == 1
    assert "FAILED (exit code 7:0)" in said
    until(lambda: not still_running(str(run.path)), "the end of every rank")


def test_row_25_cancelling_ends_every_rank(desk: Desk, as_root: dict[str, str]) -> None:
    desk.job("sleeps", RANK + "print('ready', flush=True)\ntime.sleep(600)\n", resources={})
    run = desk.submit("sleeps", "--launcher", "mpirun", "--tasks-per-node", "2", env=as_root)
    desk.wait_for_line(run, "ready", 2)
    assert still_running(str(run.path))
    done = desk.run("cancel", run.job_id, env=as_root)
    assert done.returncode == 0, done.stderr
    assert "CANCELLED" in done.stdout
    until(lambda: not still_running(str(run.path)), "the end of every rank")


def still_running(folder: str) -> list[str]:
    from pathlib import Path

    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/code" in command:
            found.append(command)
    return found
