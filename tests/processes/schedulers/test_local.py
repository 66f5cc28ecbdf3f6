"""A script that the local site has started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from submitit.local.local import LocalExecutor

from hpclaunch.core.errors import SchedulerError
from hpclaunch.runs import Jobs, Run, identity_of
from hpclaunch.schedulers import Status, local
from tests.builders import local_run

UNSEEN = Status(state="UNKNOWN", reason="no process of it is seen from here, and it wrote no exit code")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return local_run(tmp_path)


def state(run: Run) -> Status:
    return local.states(Jobs([run]))[identity_of(run)]


def test_a_script_is_started_in_a_session_of_its_own(run: Run) -> None:
    attempt = f"{run.path}/attempts/$SUBMITIT_LOCAL_JOB_ID.0"
    line = f"ps -o sid= -p $$ > {run.path}/sid; until [ -e {run.path}/seen ]; do sleep 0.1; done\n"
    line += f"mkdir -p {attempt}; echo 5 > {attempt}/exit-code\n"
    run.script.write_text(line)
    started = replace(run, job_id=local.submit(run, "", 60).job_id)
    assert state(started) == Status(state="RUNNING")
    (run.path / "seen").touch()
    deadline = time.monotonic() + 100
    while state(started).state == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert state(started) == Status(state="FAILED", exit_code="5:0")
    assert int((run.path / "sid").read_text()) != os.getsid(0)
    local.cancel([started])


@pytest.fixture
def waiting_run(run: Run) -> Iterator[Run]:
    """A run whose script waits until the end of the test."""
    run.script.write_text("until [ -e seen ]; do sleep 0.1; done\n")
    started = replace(run, job_id=local.submit(run, "", 60).job_id)
    yield started
    local.cancel([started])


def test_a_run_holds_no_stream_of_the_command_that_submitted_it(waiting_run: Run) -> None:
    """Else ``hpclaunch submit | cat`` would last as long as the run."""
    streams = [os.readlink(f"/proc/{waiting_run.job_id}/fd/{number}") for number in (0, 1, 2)]
    assert streams == ["/dev/null"] * 3


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and is still listed, without a command line."""
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_a_process_without_a_command_line_hides_no_run_after_it(zombie: int, waiting_run: Run) -> None:
    assert state(waiting_run) == Status(state="RUNNING")


Starts = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def starts() -> Iterator[Starts]:
    """Start a process that sleeps, with further arguments and variables; it ends with the test."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **variables: str) -> subprocess.Popen[bytes]:
        command = ["bash", "-c", "while :; do sleep 0.1; done", *words]
        process = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **variables})
        made.append(process)
        # Popen returns when the kernel begins to exchange the program; the variables are there a moment later.
        while b"PATH=" not in Path(f"/proc/{process.pid}/environ").read_bytes():
            time.sleep(0.01)
        return process

    yield begin
    for process in made:
        process.kill()
        process.wait()


@pytest.mark.parametrize("began", ["1", "9" * 15])
def test_a_process_that_got_the_number_of_an_ended_run_is_neither_the_run_nor_ended(
    run: Run, starts: Starts, began: str
) -> None:
    stranger = starts(str(run.path / "logs"))
    old = replace(run, job_id=str(stranger.pid))
    (run.path / "process").write_text(
        f"{stranger.pid} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {began}\n"
    )
    assert state(old) == UNSEEN
    assert local.cancel([old]) == []
    assert stranger.poll() is None


@pytest.mark.parametrize(
    ("word", "is_controller"), [("logs", True), ("logs/1.out", False), ("logs2", False), ("", False)]
)
def test_only_a_process_with_the_whole_path_of_the_logs_is_the_controller_of_an_older_run(
    run: Run, starts: Starts, word: str, is_controller: bool
) -> None:
    """Its beginning is not recorded; somebody may look at the run's files with a program that has got its number."""
    process = starts(str(run.path / word))
    assert (state(replace(run, job_id=str(process.pid))).state == "RUNNING") is is_controller


def test_the_processes_of_another_run_with_the_same_number_are_left_alone(run: Run, starts: Starts) -> None:
    """Its ranks have the number in a variable, as those of the old run had."""
    other = run.path.parent / "other"
    mine = f"{run.path}/attempts/999999999.0/first-failure"
    theirs = f"{other}/attempts/999999999.0/first-failure"
    stranger = starts(SUBMITIT_LOCAL_JOB_ID="999999999", HPCLAUNCH_EXIT_FILE=theirs)
    old = replace(run, job_id="999999999")
    assert state(old) == UNSEEN
    rank = starts(SUBMITIT_LOCAL_JOB_ID="999999999", HPCLAUNCH_EXIT_FILE=mine)
    assert state(old) == Status(state="RUNNING")
    assert local.cancel([old]) == [identity_of(old)]
    assert rank.wait(60) != 0
    assert stranger.poll() is None


def test_a_start_by_hand_is_known_by_the_beginning_in_its_claim(run: Run, starts: Starts) -> None:
    process = starts()
    by_hand = replace(run, job_id=f"by-hand-{process.pid}")
    began = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    (run.path / "claims").mkdir()
    claim = run.path / "claims/1"
    claim.write_text(f"{by_hand.job_id}.0 {run.host} {process.pid} {int(began) - 1}\n")
    assert (state(by_hand), local.cancel([by_hand])) == (UNSEEN, [])
    claim.write_text(f"{by_hand.job_id}.0 {run.host} {process.pid} {began}\n")
    assert (state(by_hand), local.cancel([by_hand])) == (Status(state="RUNNING"), [identity_of(by_hand)])
    assert process.wait(60) != 0


def killed(run: Run) -> Run:
    """A run whose script and controller were killed, as by the kernel when memory is short."""
    run.script.write_text("until [ -e seen ]; do sleep 0.1; done\n")
    started = replace(run, job_id=local.submit(run, "", 60).job_id)
    while members := local._members(started):
        for process in members:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    return started


def test_a_run_whose_script_was_killed_has_failed(run: Run) -> None:
    """Nothing else will ever tell of it."""
    told = state(killed(run))
    assert (told.state, told.exit_code) == ("FAILED", "")
    assert "its script was killed, or could not write" in told.reason


@pytest.mark.parametrize("lines", ["", "{number} boot 1\n", "{number} boot 1\npid:[1]\n", "1 boot 1\n{here}\n"])
def test_a_run_that_another_container_may_have_started_is_unknown(run: Run, lines: str) -> None:
    """Its processes have other numbers there; so have those of an older hpclaunch, which wrote no second line."""
    started = killed(run)
    here = os.readlink("/proc/self/ns/pid")
    (run.path / "process").write_text(lines.format(number=started.job_id, here=here))
    assert state(started) == UNSEEN


def test_cancel_asks_the_controller_which_ends_its_ranks_itself(run: Run) -> None:
    number, asked, ready = (run.path / name for name in ("number", "rank-was-asked", "ready"))
    rank_script = f"trap 'touch {asked}' TERM; touch {ready}; while :; do sleep 0.1; done"
    # The rank began before its controller, and has the controller's number in a variable.
    start = f"{run.path}/attempts/$(cat {number}).0"
    waiting = f"until [ -s {number} ]; do sleep 0.1; done; export HPCLAUNCH_EXIT_FILE={start}/x"
    rank = subprocess.Popen(["bash", "-c", f'{waiting}; exec bash -c "$1"', "x", rank_script])
    end_of_rank = f"trap 'sleep 1; kill -KILL {rank.pid}; exit' TERM; while :; do sleep 0.1; done"
    controller = subprocess.Popen(["bash", "-c", end_of_rank, "x", str(run.path / "logs")])
    number.write_text(f"{controller.pid}\n")
    while not ready.exists():
        time.sleep(0.05)
    started = replace(run, job_id=str(controller.pid))
    assert local.cancel([started]) == [identity_of(started)]
    assert (rank.wait(60), controller.wait(60), asked.exists()) == (-9, 0, False)


@pytest.mark.parametrize(("walltime", "minutes"), [(3600, 70), (90, 11.5), (0, 365 * 24 * 60)])
def test_submitit_ends_a_script_that_does_not_end_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walltime: int, minutes: float
) -> None:
    (tmp_path / "a run; x").mkdir()
    run, given = local_run(tmp_path / "a run; x"), list[object]()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalExecutor, "update_parameters", lambda self, **words: given.append(words))
    monkeypatch.setattr(
        LocalExecutor, "_submit_command", lambda self, command: given.append(command) or SimpleNamespace(job_id=7)
    )
    assert local._start(run, walltime) == "7"
    options, command = given
    assert options == {"timeout_min": minutes, "tasks_per_node": 1, "stderr_to_stdout": True}
    assert str(command).endswith(f"bash {shlex.quote(str(run.script))}")
    assert Path.cwd() == run.path, "no module of the project is imported"


def test_why_a_run_did_not_start_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, command: str) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(LocalExecutor, "_submit_command", fail)
    with pytest.raises(SchedulerError) as caught:
        local.submit(run, "", 60)
    (fault,) = caught.value.faults
    assert (fault.where, fault.what) == ("submitit", "the local executor did not start: no room")
    assert not (run.path / "process").exists()


def test_of_several_runs_the_slowest_is_waited_for(tmp_path: Path) -> None:
    """It saves its state after the others have ended."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = local_run(tmp_path / "one"), local_run(tmp_path / "two")
    quick = f"touch {one.path}/ready; while :; do sleep 0.05; done"
    first = subprocess.Popen(["bash", "-c", quick, "x", str(one.path / "logs")])
    gone = f"while kill -0 {first.pid} 2> /dev/null; do sleep 0.05; done; sleep 0.5"
    slow = f"trap '{gone}; touch {two.path}/saved; exit' TERM; touch {two.path}/ready; while :; do sleep 0.05; done"
    second = subprocess.Popen(["bash", "-c", slow, "x", str(two.path / "logs")])
    reaper = threading.Thread(target=first.wait)
    reaper.start()
    while not ((one.path / "ready").exists() and (two.path / "ready").exists()):
        time.sleep(0.02)
    found = [replace(run, job_id=str(process.pid)) for run, process in ((one, first), (two, second))]
    assert local.cancel(found) == [identity_of(run) for run in found]
    reaper.join(60)
    assert (second.wait(60), (two.path / "saved").exists()) == (0, True)


def test_a_submission_leaves_no_child_of_hpclaunch(request: pytest.FixtureRequest) -> None:
    """A service that submits thousands of runs would have as many zombies."""
    before = _ended_children()  # what other tests of this process left
    request.getfixturevalue("waiting_run")
    assert _ended_children() <= before


def _ended_children() -> set[str]:
    files = Path("/proc").glob("[0-9]*/stat")
    return {file.parent.name for file in files if _parent_and_state(file) == (os.getpid(), "Z")}


def _parent_and_state(file: Path) -> tuple[int, str]:
    try:
        state, parent = file.read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return 0, ""
    return int(parent), state


def test_a_rank_that_ignores_sigterm_is_killed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_SECONDS_TO_END", 0.3)
    mark = {"HPCLAUNCH_EXIT_FILE": f"{run.path}/attempts/999999999.0/first-failure", "PATH": os.environ["PATH"]}
    text = f"trap '' TERM; : > {run.path}/ready; while :; do sleep 0.05; done"
    with subprocess.Popen(["bash", "-c", text], env=mark) as rank:
        while not (run.path / "ready").exists():
            time.sleep(0.02)
        old = replace(run, job_id="999999999")
        assert local.cancel([old]) == [identity_of(old)]
        assert rank.wait(60) == -signal.SIGKILL
