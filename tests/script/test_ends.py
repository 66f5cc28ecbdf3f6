"""How a script and its ranks end: what is written and waited for, what is ended, and from when restarts count."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import with_library
from tests.cli.conftest import wait_for
from tests.script.test_fencing import kill_all, processes_of


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "job.sh").touch()
    os.utime(tmp_path / "job.sh", (0, 0))
    yield tmp_path
    kill_all(tmp_path, signal.SIGKILL)


def local(run: Path, text: str, **known: str) -> subprocess.CompletedProcess[str]:
    """A script without a scheduler, whose start is 7.0."""
    return with_library(f"cd {run}\n{text}", HPCLAUNCH_RUN_DIR=str(run), SUBMITIT_LOCAL_JOB_ID="7", **known)


def mark(run: Path, name: str) -> str | None:
    file = run / "attempts/7.0" / name
    return file.read_text() if file.exists() else None


def test_what_the_ranks_left_behind_is_ended_without_a_scheduler(run: Path) -> None:
    leave = "(trap 'echo told >> told; exit' TERM; while :; do sleep 0.05; done) & (trap '' TERM; exec sleep 1000) & :"
    text = 'begin local\nrank() { bash -c "$LEAVE"; }\nlaunch\nsleep() { command sleep 0.02; }\nfinish'
    done = local(run, text, LEAVE=leave)
    assert done.returncode == 0, done.stderr
    assert (run / "told").read_text() == "told\n", "SIGTERM first: it can write its last lines"
    assert not processes_of(run)


def test_at_the_end_of_its_walltime_a_script_without_a_scheduler_ends_its_ranks(run: Path) -> None:
    text = "begin local walltime=1 signal_to=group\nrank() { exec sleep 1000; }\nlaunch\nfinish"
    done = local(run, text)
    assert (done.returncode, mark(run, "exit-code"), mark(run, "terminated")) == (124, "124\n", None), done.stderr
    assert not processes_of(run)


def test_ranks_that_ignore_the_end_of_the_walltime_are_killed_half_a_minute_later(run: Path) -> None:
    quick = 'eval "real_$(declare -f start_clock)"; start_clock() { echo "$1" >> clocks; real_start_clock 1; }'
    text = "begin local walltime=900 signal_to=group\nrank() { trap '' TERM; sleep 1000; }\nlaunch\nfinish"
    done = local(run, f"{quick}\n{text}")
    assert (done.returncode, (run / "clocks").read_text()) == (124, "900\n30\n"), done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


def test_the_watch_of_a_rank_ends_with_it(run: Path) -> None:
    text = "begin slurm watch_every=4711\nrank() { :; }\nlaunch\nexit 0"
    done = with_library(f"cd {run}\n{text}", HPCLAUNCH_RUN_DIR=str(run), SLURM_JOB_ID="7")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: not processes_of(run), "the end of all processes")


@pytest.mark.parametrize("settings", ["walltime=4711", "watch_every=4711"])
def test_no_clock_of_a_script_outlives_it(run: Path, settings: str) -> None:
    """Its variables are none of a rank's, so nothing else would end it; it may send ALRM to another process later."""
    note = 'start_apart() { set -m; "$@" < /dev/null & set +m; echo $! >> groups; }'
    done = local(run, f"{note}\nbegin local {settings}\nrank() {{ :; }}\nlaunch\nfinish")
    assert done.returncode == 0, done.stderr
    groups = (run / "groups").read_text().split()
    assert len(groups) == 2 + ("walltime" in settings), "the clock, the watch and the launcher"
    wait_for(lambda: not set(groups) & living_groups(), "the end of all processes")


def living_groups() -> set[str]:
    """The process groups that have a living process (/proc/PID/stat)."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                state, _, group = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:3]
                if state != "Z":
                    found.add(group)
    return found


def test_the_marks_of_a_start_are_sent_to_the_disk(run: Path) -> None:
    note = 'dd() { echo "$*" >> asked; command dd "$@"; }'
    done = local(run, f"{note}\nbegin local\nrank() {{ :; }}\nlaunch\nfinish")
    assert done.returncode == 0, done.stderr
    folder = run / "attempts/7.0"
    written = [f"of={folder}/{name} conv=fsync" for name in ("started", "completed", "exit-code")]
    assert (run / "asked").read_text().splitlines() == written
    assert (mark(run, "completed"), mark(run, "exit-code")) == ("7.0 1\n", "0\n")
    assert (mark(run, "started") or "").endswith("Z\n")


@pytest.mark.parametrize("terminated", [False, True])
def test_copies_are_removed_by_the_script_unless_its_job_is_being_ended(run: Path, terminated: bool) -> None:
    """There it can start nothing more, and the ranks have done it."""
    stand_ins = 'slurm_on_nodes() { echo "$*" >> asked; }; slurm_lost_node() { :; }; slurm_preempted() { false; }'
    end = 'echo 3 > "$attempt/terminated"' if terminated else ":"
    text = f"{stand_ins}\nbegin slurm\ncopies=(/a /b) HPCLAUNCH_BROADCAST=/n/copy code=3\n{end}\nfinish"
    done = with_library(f"cd {run}\n{text}", HPCLAUNCH_RUN_DIR=str(run), SLURM_JOB_ID="7")
    assert done.returncode == 3, done.stderr
    assert (run / "asked").exists() is not terminated
    if not terminated:
        assert (run / "asked").read_text().startswith("rm -rf /n/copy /n/copy.env.tar ")


def test_the_code_of_the_first_rank_that_failed_is_that_of_the_script(run: Path) -> None:
    done = local(run, 'begin local\nrank() { :; }\nlaunch\necho 9 > "$HPCLAUNCH_EXIT_FILE"\nfinish')
    assert (done.returncode, mark(run, "exit-code"), mark(run, "completed")) == (9, "9\n", None)
    failed = local(run, "begin local\nlauncher() { return 5; }\nrank() { :; }\nlaunch launcher\nfinish")
    assert failed.returncode == 5, "without it that of the launcher"


@pytest.mark.parametrize(
    ("code", "world", "is_first", "waits"),
    [(1, 2, True, True), (14, 2, True, True), (1, 1, True, False), (1, 2, False, False), (7, 2, True, False)],
)
def test_only_a_code_that_the_end_of_another_rank_may_cause_waits_for_that_one(
    run: Path, code: int, world: int, is_first: bool, waits: bool
) -> None:
    file = run / "first-failure"
    if not is_first:
        file.write_text("137\n")
    text = f'sleep() {{ echo "$*" >> slept; }}\nrank() {{ return {code}; }}\nrun_rank'
    known = {"HPCLAUNCH_EXIT_FILE": str(file), "HPCLAUNCH_WORLD_SIZE": str(world)}
    done = with_library(f"cd {run}\n{text}", HPCLAUNCH_RUN_DIR=str(run), **known)
    assert done.returncode == code, done.stderr
    assert (run / "slept").exists() is waits
    assert file.read_text() == (f"{code}\n" if is_first else "137\n")


def test_a_rank_that_ended_well_leaves_no_first_failure_and_one_without_a_folder_no_file(run: Path) -> None:
    known = {"HPCLAUNCH_EXIT_FILE": str(run / "first-failure"), "HPCLAUNCH_RUN_DIR": str(run)}
    assert with_library("rank() { :; }\nrun_rank", **known).returncode == 0
    assert sorted(path.name for path in run.iterdir()) == ["job.sh"]
    (run / "ranks").mkdir()
    assert with_library("rank() { :; }\nrun_rank", **known).returncode == 0
    assert (run / "ranks/0").read_text() == "0\n"


@pytest.mark.parametrize("owner", ["run", "code", "nobody"])
def test_a_run_directory_or_code_of_another_user_starts_nothing(run: Path, owner: str) -> None:
    (run / "code").mkdir()
    theirs = {"run": run, "code": run / "code", "nobody": "/nowhere"}[owner]
    stat = f'stat() {{ [ "${{!#}}" = {theirs} ] && echo 4711 || echo "$UID"; }}'
    done = local(run, f"{stat}\nbegin local\necho begun")
    if owner == "nobody":
        assert done.stdout == "begun\n"
    else:
        assert (done.returncode, done.stdout) == (78, "")
        assert f"{theirs} belongs to the user with uid 4711 and not to you" in done.stderr
        assert not (run / "claims").exists()


def test_a_file_of_root_is_nobody_elses(run: Path) -> None:
    done = local(run, "stat() { echo 0; }\nown_directory .\necho fine")
    assert done.stdout == "fine\n"


def test_a_claim_that_cannot_be_written_stops_the_script(run: Path) -> None:
    """As over a quota of files: neither a link nor a new file can be made."""
    count = 'echo >> tried; [ "$(wc -l < tried)" -lt 9 ] || exit 5; return 1'
    fails = f'ln() {{ {count}; }}; cat() {{ rm -f "$claims/1"; return 1; }}'
    done = local(run, f"{fails}\nscheduler=local job=7 restart=0\nclaim")
    assert (done.returncode, "cannot be written" in done.stderr) == (78, True)


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}, "7 2"),
        ({"SLURM_JOB_ID": "7"}, "7 0"),
        ({"SLURM_JOB_ID": "9", "HPCLAUNCH_ALLOCATION": "9"}, "by-hand-PID 0"),
        ({}, "by-hand-PID 0"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "ARRAY": "1"}, "5_3 0"),
    ],
)
def test_the_name_of_slurms_job(variables: dict[str, str], job: str) -> None:
    array = "HPCLAUNCH_ARRAY_DIR=/a; " if variables.get("ARRAY") else ""
    done = with_library(f'{array}slurm_job; echo "${{job/$$/PID}} $restart ${{HPCLAUNCH_ALLOCATION-}}"', **variables)
    assert done.stdout == f"{job} \n"


def test_a_zombie_has_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert with_library(f"began_at {process.pid}").stdout == ""
    assert with_library("began_at 4194305").stdout == ""
    assert with_library("began_at $$").stdout.isdigit()


@pytest.mark.parametrize(
    ("index", "first", "found"),
    [
        ("1", (), "0001 lr=2 k=b"),
        ("0", ("2",), "0002 lr=3 k=c"),
        ("", (), "SLURM_ARRAY_TASK_ID (the run's index) is not set"),
        ("3", (), "line 4 of ARRAY/values does not belong to run 0003"),
        ("4", (), "line 5 of ARRAY/values does not belong to run 0004"),
    ],
)
def test_a_task_finds_its_run_by_its_index(tmp_path: Path, index: str, first: tuple[str, ...], found: str) -> None:
    (tmp_path / "values").write_text("0000\tlr=1\tk=a\n0001\tlr=2\tk=b\n0002\tlr=3\tk=c\n0009\tx\n0004x\tx\n")
    show = 'echo "${HPCLAUNCH_RUN_DIR#"$HPCLAUNCH_ARRAY_DIR/"} ${HPCLAUNCH_SWEPT//$\'\\t\'/ }"'
    text = f"HPCLAUNCH_ARRAY_DIR={tmp_path}\narray_task 4 SLURM_ARRAY_TASK_ID {' '.join(first)}\n{show}"
    done = with_library(text, SLURM_ARRAY_TASK_ID=index)
    if done.returncode:
        assert (done.returncode, found.replace("ARRAY/", f"{tmp_path}/") in done.stderr) == (78, True), done.stderr
    else:
        assert done.stdout == f"{found}\n"


@pytest.mark.parametrize(("resumed", "again"), [(None, False), (50, True), (5, False)])
def test_the_restarts_of_a_run_of_an_array_count_from_its_resumption(
    tmp_path: Path, resumed: int | None, again: bool
) -> None:
    run = tmp_path / "0001"
    for number, when in enumerate((10, 20)):
        folder = run / f"attempts/5_1.{number}"
        folder.mkdir(parents=True)
        (folder / "started").touch()
        os.utime(folder / "started", (when, when))
    files = {tmp_path / "job.sh": 1, run / "job.sh": 90}  # the second is none of a run of an array
    if resumed is not None:
        files[run / "resumed"] = resumed
    for file, when in files.items():
        file.touch()
        os.utime(file, (when, when))
    stand_ins = 'squeue() { echo RUNNING; }; scontrol() { [[ $* == *show* ]] || echo "$*"; }; restart=0'
    known = f"scheduler=slurm restarts=1 restart_by=requeue job=5_1 attempt=/x HPCLAUNCH_ARRAY_DIR={tmp_path}"
    done = with_library(f"{stand_ins}\n{known}\nstart_again saved", HPCLAUNCH_RUN_DIR=str(run))
    assert (done.stdout == "requeue 5_1\n") is again, done.stderr
    assert ("its limit is 1 restart." in done.stderr) is not again


@pytest.mark.parametrize(("starts", "limit", "again"), [(1, 1, True), (2, 1, False), (2, 2, True), (3, 2, False)])
def test_a_job_is_started_again_as_often_as_its_limit_says(run: Path, starts: int, limit: int, again: bool) -> None:
    for number in range(starts):
        (run / f"attempts/7.{number}").mkdir(parents=True)
        (run / f"attempts/7.{number}/started").touch()
    stand_ins = 'squeue() { echo RUNNING; }; scontrol() { [[ $* == *show* ]] || echo "$*"; }; restart=0'
    known = f"scheduler=slurm restarts={limit} restart_by=requeue job=7 attempt=/x"
    done = with_library(f"{stand_ins}\n{known}\nstart_again saved", HPCLAUNCH_RUN_DIR=str(run))
    assert (done.stdout == "requeue 7\n") is again, done.stderr


@pytest.mark.parametrize(
    ("state", "words"),
    [("RUNNING", "; requeueing the job"), ("CANCELLED", "as the job is CANCELLED"), ("", "unknown to the scheduler")],
)
def test_a_job_that_does_not_run_any_more_is_not_started_again(run: Path, state: str, words: str) -> None:
    stand_ins = f'squeue() {{ echo {state}; }}; scontrol() {{ [[ $* == *show* ]] || echo "$*"; }}; restart=0'
    known = "scheduler=slurm restarts=5 restart_by=requeue job=7 attempt=/x"
    done = with_library(f"mkdir {run}/attempts\n{stand_ins}\n{known}\nstart_again saved", HPCLAUNCH_RUN_DIR=str(run))
    assert words in done.stderr
    assert (done.stdout == "requeue 7\n") is (state == "RUNNING")


@pytest.mark.parametrize("number", ["USR1", "USR2"])
def test_the_shell_of_a_rank_outlives_the_signals_that_its_program_may_get(run: Path, number: str) -> None:
    program = f"trap 'exit 7' {number}; : > ready; while :; do sleep 0.02; done"
    text = (
        f'rank() {{ bash -c "$PROGRAM"; }}\n(until [ -e ready ]; do sleep 0.02; done; kill -s {number} 0) &\nrun_rank'
    )
    known = {"HPCLAUNCH_EXIT_FILE": str(run / "first-failure"), "HPCLAUNCH_RUN_DIR": str(run), "PROGRAM": program}
    guarded = f"cd {run}\n({text})\necho $?"
    done = with_library(f"trap : {number}; set -m\n{guarded}", **known)
    assert done.stdout.strip() == "7", done.stderr


@pytest.mark.parametrize("ended", [True, False])
def test_a_rank_that_is_ended_removes_the_copies_of_its_node(run: Path, ended: bool) -> None:
    (run / "copy").mkdir()
    stop = "kill -s TERM $$" if ended else ":"
    known = {"HPCLAUNCH_EXIT_FILE": str(run / "first-failure"), "HPCLAUNCH_BROADCAST": str(run / "copy")}
    text = f"export HPCLAUNCH_BROADCAST={run}/copy\nrank() {{ {stop}; }}\nrun_rank"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(run), **known)
    assert done.returncode == 0, done.stderr
    assert (run / "copy").exists() is not ended


def test_a_rank_without_a_number_has_a_file_of_its_own(run: Path) -> None:
    (run / "ranks").mkdir()
    known = {"HPCLAUNCH_EXIT_FILE": str(run / "first-failure"), "HPCLAUNCH_WORLD_SIZE": "2"}
    for _ in range(2):
        assert with_library("rank() { :; }\nrun_rank", HPCLAUNCH_RUN_DIR=str(run), **known).returncode == 0
    names = [file.name for file in (run / "ranks").iterdir()]
    assert len(names) == 2
    assert all(name.startswith(f"{os.uname().nodename}-") and name.count("-") >= 2 for name in names)
