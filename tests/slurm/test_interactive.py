"""``shell`` and ``submit --here`` on a real cluster and a real terminal: whatever ends them, nothing is left."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.desk import HPCLAUNCH, Desk, until
from tests.slurm.test_sites import TORCHRUN

pytestmark = pytest.mark.timeout(300)
OPEN = "shell --nodes 2 --tasks-per-node 2 --walltime 10m --gpus-per-node"
TELLS = (
    "import os\nwords = ['rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], os.uname().nodename]\n"
    "os.write(1, (' '.join(words) + '\\n').encode())\n"
)
WAITS = """
import os, signal, sys, time
def note(number, frame):
    told = "rank " + os.environ["RANK"] + " got " + signal.Signals(number).name
    with open(os.environ["HPCLAUNCH_RUN_DIR"] + "/notes", "a") as notes:  # the terminal may be gone
        notes.write(told + "\\n")
    os.write(1, (told + "\\n").encode())  # as one piece: ranks share a terminal
    sys.exit(9)
signal.signal(signal.SIGTERM, note)
os.write(1, ("rank " + os.environ["RANK"] + " is ready\\n").encode())
time.sleep(600)
"""

FAILS = "import os, sys, time\nsys.exit(7) if os.environ['RANK'] == '3' else time.sleep(600)\n"


class Terminal:
    """A shell at a terminal of its own; ``seen`` is what stood on it. Leaving it hangs up."""

    def __init__(self, desk: Desk) -> None:
        self.seen = ""
        self.process, self._keyboard = pty.fork()
        if self.process == 0:
            os.chdir(desk.folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {**desk.shell(), "TERM": "dumb"})
        self._is_left = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Read until the shell has ended, or this side leaves: nobody may wait in a read of what is to be closed."""
        while not self._is_left:
            if not select.select([self._keyboard], [], [], 0.1)[0]:
                continue
            try:
                block = os.read(self._keyboard, 4096)
            except OSError:
                return
            if not block:
                return
            self.seen += block.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def wait_for(self, form: str) -> re.Match[str]:
        until(lambda: re.search(form, self.seen) is not None, f"{form!r} on the terminal, which shows:\n{self.seen}")
        found = re.search(form, self.seen)
        assert found
        return found

    def hang_up(self) -> None:
        if not self._is_left:
            self._is_left = True
            self._reader.join()
            os.close(self._keyboard)


@pytest.fixture
def terminal(desk: Desk) -> Iterator[Terminal]:
    opened = Terminal(desk)
    yield opened
    opened.hang_up()
    os.waitpid(opened.process, 0)


def open_shell(desk: Desk, terminal: Terminal, gpus: int = 2) -> str:
    """Open a shell in an allocation, and return the job's ID."""
    terminal.type(f"{HPCLAUNCH} {OPEN} {gpus}\n")
    job_id = terminal.wait_for(r"hpclaunch: this is job (\d+) on node\d")[1]
    own = os.environ.get("PYTHONPATH")  # the code that is tested, where that is not the one that is installed
    terminal.type(f"export PYTHONPATH={own}\n" if own else "true\n")
    return job_id


def start_waiting(
    desk: Desk, terminal: Terminal, target: str = "./waits.py --python /usr/bin/python3"
) -> dict[str, Any]:
    """Start a run in the allocation whose four ranks wait; return its record."""
    (desk.folder / "waits.py").write_text(WAITS)
    terminal.seen = ""
    terminal.type(f"hpclaunch submit {target} --here --tasks-per-node 2\n")
    for rank in range(4):
        terminal.wait_for(f"rank {rank} is ready")
    (found, *_) = json.loads(desk.run("status", "--json").stdout)["runs"]
    assert found["state"] == "RUNNING"  # as seen from another host
    return dict(found)


def is_gone(desk: Desk, job_id: str) -> bool:
    """Whether Slurm has no such job, and no process of this machine, which has all nodes, is of it."""
    known = desk.slurm("squeue", "--noheader", "--format=%i").split()
    return job_id not in known and not processes_with(f"SLURM_JOB_ID={job_id}")


def processes_with(text: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(text.encode()) for variable in variables):
            found.append(folder.name)
    return found


def steps_of(desk: Desk, job_id: str) -> list[str]:
    return desk.slurm("squeue", "--noheader", "--steps", f"--jobs={job_id}", "--format=%i").split()


def state_of(desk: Desk, run: dict[str, Any]) -> str:
    (found,) = json.loads(desk.run("status", run["run"], "--json").stdout)["runs"]
    return str(found["state"])


def test_a_shell_has_the_jobs_environment_runs_a_job_at_once_and_exit_leaves_nothing(
    desk: Desk, terminal: Terminal
) -> None:
    (desk.folder / "tells.py").write_text(TELLS)
    job_id = open_shell(desk, terminal)
    terminal.type("echo world $HPCLAUNCH_WORLD_SIZE threads $OMP_NUM_THREADS on $HOSTNAME in $PWD.\n")
    terminal.wait_for(rf"world 4 threads \d+ on node\d in {desk.folder}\.")
    terminal.type("hpclaunch submit ./tells.py --here --python /usr/bin/python3; echo code $?.\n")
    terminal.wait_for(r"code 0\.")
    said = set(re.findall(r"rank (\d) of 4 (node\d)", terminal.seen))
    assert {rank for rank, _ in said} == {"0", "1", "2", "3"} and len({node for _, node in said}) == 2
    (run, *_) = json.loads(desk.run("status", "--json").stdout)["runs"]
    assert (run["state"], run["allocation"]) == ("COMPLETED", job_id)
    terminal.type("exit\n")
    until(lambda: is_gone(desk, job_id), f"the end of {job_id}")
    terminal.type("echo still here.\n")
    terminal.wait_for(r"still here\.\r\n")


def interrupt(desk: Desk, terminal: Terminal, run: dict[str, Any]) -> None:
    """Press Ctrl-C: every rank gets SIGTERM, the run is cancelled, and none of its processes is left."""
    terminal.type("\x03")
    for rank in range(4):
        terminal.wait_for(f"rank {rank} got SIGTERM")
    terminal.type("echo code $?.\n")
    terminal.wait_for(r"code 130\.")
    assert state_of(desk, run) == "CANCELLED"
    assert not processes_with(f"HPCLAUNCH_EXIT_FILE={run['run_dir']}/")


def test_ctrl_c_ends_the_ranks_of_a_run_and_neither_the_shell_nor_the_allocation(
    desk: Desk, terminal: Terminal
) -> None:
    job_id = open_shell(desk, terminal, gpus=0)  # without GPUs, scontrol ends the lines of steps with their process
    run = start_waiting(desk, terminal)
    interrupt(desk, terminal, run)
    assert desk.slurm("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip() == "RUNNING"
    assert f"{job_id}.0" not in steps_of(desk, job_id)

    again = start_waiting(desk, terminal)
    cancelled = desk.run("cancel", again["run"])  # from another host
    assert (cancelled.returncode, "CANCELLED" in cancelled.stdout) == (0, True), cancelled.stderr
    assert desk.slurm("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip() == "RUNNING"
    terminal.type("exit\n")
    until(lambda: is_gone(desk, job_id), f"the end of {job_id}")


def test_the_exit_code_of_a_rank_is_kept_under_mpirun_and_nothing_is_left(desk: Desk, terminal: Terminal) -> None:
    (desk.folder / "fails.py").write_text(FAILS)
    job_id = open_shell(desk, terminal)
    command = "hpclaunch submit ./fails.py --here --launcher mpirun --python /usr/bin/python3"
    terminal.type(f"{command}; echo code $?.\n")
    terminal.wait_for(r"code 7\.")
    (run, *_) = json.loads(desk.run("status", "--json").stdout)["runs"]
    assert (run["state"], run["exit_code"]) == ("FAILED", "7:0")
    assert not processes_with(f"HPCLAUNCH_EXIT_FILE={run['run_dir']}/")
    assert steps_of(desk, job_id) == [f"{job_id}.interactive"]


def test_ctrl_c_reaches_the_ranks_of_torchrun(desk: Desk, terminal: Terminal) -> None:
    environment = {"python": "/usr/bin/python3", "setup": [desk.program("torchrun", TORCHRUN)]}
    desk.job("torch", WAITS, environment=environment)
    job_id = open_shell(desk, terminal)
    run = start_waiting(desk, terminal, "torch --launcher torchrun")
    interrupt(desk, terminal, run)
    assert steps_of(desk, job_id) == [f"{job_id}.interactive"]


def test_a_lost_terminal_ends_the_run_the_shell_and_the_allocation(desk: Desk, terminal: Terminal) -> None:
    job_id = open_shell(desk, terminal)
    run = start_waiting(desk, terminal)
    terminal.hang_up()
    until(lambda: is_gone(desk, job_id), f"the end of {job_id}")
    assert not processes_with(f"HPCLAUNCH_EXIT_FILE={run['run_dir']}/")
    # Either Slurm ends the allocation, or hpclaunch the run: whichever hears of it first sends the signal.
    asked = sorted(set((Path(run["run_dir"]) / "notes").read_text().splitlines()))
    assert asked == [f"rank {rank} got SIGTERM" for rank in range(4)]
    until(lambda: state_of(desk, run) == "CANCELLED", "the end of the run in its record")


def test_a_run_in_a_heterogeneous_allocation_has_the_first_component(desk: Desk) -> None:
    (desk.folder / "tells.py").write_text(TELLS)
    parts = ["--nodes=1", "--cpus-per-task=4", ":", "--nodes=2", "--cpus-per-task=1"]
    run = [HPCLAUNCH, "submit", "./tells.py", "--here", "--tasks-per-node", "2", "--python", "/usr/bin/python3"]
    desk.slurm("salloc", *parts, "srun", "--interactive", "--preserve-env", *run)
    said = re.findall(r"rank (\d) of 2 (node\d)", desk.newest().log())
    assert sorted(rank for rank, _ in said) == ["0", "1"] and len({node for _, node in said}) == 1


@pytest.mark.parametrize("way", ["Ctrl-C", "a lost terminal"])
def test_a_shell_that_still_waits_for_its_nodes_leaves_no_job(desk: Desk, terminal: Terminal, way: str) -> None:
    terminal.type(f"{HPCLAUNCH} {OPEN} 2 --sbatch=--begin=now+1hour\n")
    job_id = terminal.wait_for(r"job allocation (\d+)")[1]
    assert job_id in desk.slurm("squeue", "--noheader", "--format=%i").split()
    if way == "Ctrl-C":
        terminal.type("\x03")
    else:
        terminal.hang_up()
    until(lambda: is_gone(desk, job_id), f"the end of {job_id}")
