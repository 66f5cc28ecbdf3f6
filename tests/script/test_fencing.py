"""A superseded start ends its ranks and reports nothing: its script looks for a later start, and so do its ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import source_library, with_library
from tests.cli.conftest import wait_for

# What Slurm's programs would be asked.
SLURM = """
scontrol() { echo "scontrol $*" >> asked; echo 'JobId=7 Restarts=0 PreemptTime=None X=0'; }
squeue() { echo RUNNING; }
"""
# The program of a rank follows the contract: at SIGTERM it saves its state. It has a child that ignores signals.
PROGRAM = """
trap 'echo saved > saved; exit 75' TERM
(trap '' TERM USR1 USR2; exec sleep 1000) &
: > "begun-$N"
while :; do sleep 0.1; done
"""
RANKS = """
launcher() { for N in 0 1; do N=$N setsid "$@" & done; wait; }
rank() { set_rank 2 "$N"; rank_log "$N"; bash program; }
begin slurm restarts=9 restart_by=requeue signal_to=group watch_every=1
export HPCLAUNCH_WORLD_SIZE=2
launch launcher
finish
"""


def processes_of(folder: Path, start: str = "7.0") -> set[int]:
    """The processes that have the variables of a rank of this start."""
    wanted = f"HPCLAUNCH_EXIT_FILE={folder}/attempts/{start}/first-failure".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def kill_all(folder: Path, number: signal.Signals) -> None:
    """Send a signal to the processes of the first start; one that has just ended needs none."""
    for process in processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def names_of(processes: set[int]) -> set[str]:
    """The names of the programs of these processes; one that has just ended has none."""
    found = set()
    for process in processes:
        with contextlib.suppress(OSError):
            found.add(Path(f"/proc/{process}/comm").read_text().strip())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "program").write_text(PROGRAM)
    (tmp_path / "job.sh").touch()
    yield tmp_path
    kill_all(tmp_path, signal.SIGKILL)


def started(folder: Path, text: str = RANKS) -> subprocess.Popen[str]:
    """A script whose two ranks have begun; its log is the file ``log``."""
    script = f"cd {folder}; exec > log 2>&1\n{source_library()}\n{SLURM}{text}"
    known = {"PATH": "/usr/bin:/bin", "HPCLAUNCH_RUN_DIR": str(folder), "SLURM_JOB_ID": "7"}
    process = subprocess.Popen(["bash", "-c", script], env=known, text=True, start_new_session=True)
    wait_for(lambda: len(list(folder.glob("begun-*"))) == 2, "both ranks")
    return process


def claim(folder: Path, number: int) -> None:
    (folder / f"claims/{number}").write_text("7.1 n2 1 1\n")


def left(folder: Path) -> list[str]:
    """What the start has left in its folder."""
    return sorted(str(path.relative_to(folder / "attempts/7.0")) for path in (folder / "attempts/7.0").rglob("*"))


def test_a_superseded_start_kills_its_ranks_and_reports_nothing(folder: Path) -> None:
    script = started(folder)
    claim(folder, 2)
    assert script.wait(60) == 75
    wait_for(lambda: not processes_of(folder), "the end of all processes")
    assert left(folder) == ["ranks", "started"]
    assert not (folder / "saved").exists(), "what it saves would replace what the later start has saved"
    words = f"start 1 ends here and starts nothing again: a later start has claimed the run ({folder}/claims/2)"
    assert f"hpclaunch: {words}\n" in (folder / "log").read_text()
    assert not [line for line in (folder / "asked").read_text().splitlines() if "show" not in line]


def test_ranks_notice_it_where_their_script_is_lost(folder: Path) -> None:
    script = started(folder)
    os.killpg(script.pid, signal.SIGKILL)
    script.wait()
    assert processes_of(folder)
    claim(folder, 2)
    wait_for(lambda: not processes_of(folder), "the end of all processes")
    assert left(folder) == ["ranks", "started"]
    assert not (folder / "saved").exists()
    assert (
        f"of start 1 ends here: a later start has claimed the run ({folder}/claims/2)" in (folder / "log").read_text()
    )


# As that of Slurm 22.05 at the end of a heterogeneous step with PMIx: it waits for ever, also after SIGTERM.
HANGING = """#!/bin/bash
for N in 0 1; do N=$N "$@" & done
wait
trap '' TERM
: > hangs
sleep 1000
"""


@pytest.mark.parametrize(("ends", "code", "marks"), [("0", 0, {"completed"}), ("$((N * 7))", 7, {"first-failure"})])
def test_srun_that_does_not_end_after_its_ranks_is_killed(folder: Path, ends: str, code: int, marks: set[str]) -> None:
    (folder / "program").write_text(f': > "begun-$N"; exit {ends}')
    (folder / "srun").write_text(HANGING)
    (folder / "srun").chmod(0o755)
    ranks = RANKS.replace("launch launcher", f'PATH="{folder}:$PATH"\nlaunch srun').replace("restarts=9", "restarts=0")
    script = started(folder, ranks)
    assert script.wait(60) == code
    assert "hpclaunch: every rank has ended, but the launcher has not: it is killed\n" in (folder / "log").read_text()
    assert marks <= set(left(folder))


def test_srun_may_outlive_some_of_its_ranks(folder: Path) -> None:
    (folder / "program").write_text(': > "begun-$N"; [ "$N" = 0 ] || until [ -e go ]; do sleep 0.1; done')
    (folder / "srun").write_text('#!/bin/bash\nfor N in 0 1; do N=$N "$@" & done\nwait\n')
    (folder / "srun").chmod(0o755)
    script = started(folder, RANKS.replace("launch launcher", f'PATH="{folder}:$PATH"\nlaunch srun'))
    wait_for(lambda: "0" in {path.name for path in (folder / "attempts/7.0/ranks").iterdir()}, "the end of rank 0")
    with pytest.raises(subprocess.TimeoutExpired):
        script.wait(7)  # more looks than a hanging srun is given
    (folder / "go").touch()
    assert script.wait(60) == 0
    assert "launcher has not" not in (folder / "log").read_text()


def test_a_start_that_is_the_last_one_goes_on(folder: Path) -> None:
    script = started(folder)
    claim(folder, 3)
    (folder / "claims/02").touch()
    kill_all(folder, signal.SIGTERM)
    assert script.wait(60) == 75
    assert (folder / "saved").exists()
    assert "saved; requeueing the job" in (folder / "log").read_text()
    wait_for(lambda: names_of(processes_of(folder)) == {"sleep"}, "only what the program left behind is left")


@pytest.mark.parametrize("code", [0, 7, 75])
def test_a_rank_that_ends_when_its_start_is_superseded_reports_nothing(folder: Path, code: int) -> None:
    """Its script may live on a node that Slurm has lost: it must not requeue the job, which runs elsewhere by now."""
    text = RANKS.replace("bash program", f': > "begun-$N"; echo 7.1 > claims/2; return {code}')
    assert started(folder, text).wait(60) == 75
    assert left(folder) == ["ranks", "started"]
    assert "requeue" not in (folder / "asked").read_text()
    assert (folder / "log").read_text().count("of start 1 ends here") == 2


def test_the_copier_of_a_log_has_the_name_by_which_it_is_spared(tmp_path: Path) -> None:
    """Its shell waits for the last words of a rank that is killed, and marks what is lost."""
    look = 'for i in {1..200}; do name=$(text_of "/proc/$copier/comm"); [ "$name" != tee ] || break; sleep 0.05; done'
    known = {"HPCLAUNCH_RUN_DIR": str(tmp_path), "HPCLAUNCH_EXIT_FILE": f"{tmp_path}/first-failure"}
    done = with_library(f'rank_log 0; {look}; echo "$name" > {tmp_path}/name; end_rank_log', **known)
    assert ((tmp_path / "name").read_text(), done.stderr) == ("tee\n", "")


def test_the_ranks_of_a_node_look_in_turn(tmp_path: Path) -> None:
    note = 'await_later_start() { echo "$3 $4" >> looks; return 1; }; later=/x/2 watch_every=30'
    until = "until [ -s looks ]; do sleep 0.05; done"
    seen = {}
    for tasks, local in ((1, 0), (4, 0), (4, 3), (64, 9), (64, 10), (64, 63)):
        (tmp_path / "looks").unlink(missing_ok=True)
        done = with_library(f"cd {tmp_path}; watcher=; {note}; set_rank {tasks} {local}; {until}")
        assert done.stderr == ""
        seen[tasks, local] = (tmp_path / "looks").read_text()
    assert seen == {
        (1, 0): "30 30\n",
        (4, 0): "30 120\n",
        (4, 3): "120 120\n",
        (64, 9): "300 300\n",
        (64, 10): "30 300\n",
        (64, 63): "120 300\n",
    }
    (tmp_path / "looks").unlink()
    with_library(f"cd {tmp_path}; watcher=; {note}; set_rank 4 ''; {until}")
    assert (tmp_path / "looks").read_text() == "30 30\n", "without a number each looks for itself"


def test_a_watch_that_has_ended_at_once_is_no_word_in_the_log(tmp_path: Path) -> None:
    """As where it cannot wait. bash says that there is no such job, if it has ended before it is let go."""
    note = f"await_later_start() {{ return 1; }}; later={tmp_path}/2 watcher="
    done = with_library(
        f'{note}; disown() {{ wait "$watcher"; builtin disown; }}; watch_start; echo "${{watcher:+began}}"'
    )
    assert (done.stdout, done.stderr) == ("began\n", "")


def test_who_cannot_wait_does_not_look_again_and_again(tmp_path: Path) -> None:
    """As in a container without /dev/fd: nothing would lie between two looks."""
    count = "began_at() { echo >> looks; [ $(wc -l < looks) -gt 3 ] || printf 5; }; exec() { return 1; }"
    done = with_library(f"cd {tmp_path}; {count}; await_later_start 1 5 0.1 0.1; echo $?")
    assert done.stdout == "1\n"
    assert not (tmp_path / "looks").exists()


def test_who_looks_for_a_process_ends_with_it_although_another_has_got_its_number(tmp_path: Path) -> None:
    stand_in = "began_at() { echo >> looks; [ $(wc -l < looks) -gt 3 ] || printf 9; }"
    done = with_library(f"cd {tmp_path}; {stand_in}; later={tmp_path}/2; await_later_start 1 5 0.01 0.01; echo $?")
    assert (done.stdout, (tmp_path / "looks").read_text()) == ("1\n", "\n")


def test_nobody_looks_for_a_process_that_had_ended_before(tmp_path: Path) -> None:
    done = with_library(f"later={tmp_path}/2; began_at() {{ return 1; }}; await_later_start 1 '' 0 0; echo $?")
    assert done.stdout == "1\n"


@pytest.mark.parametrize("is_superseded", [False, True])
def test_at_the_end_of_the_walltime_a_superseded_start_lets_its_ranks_save_nothing(
    tmp_path: Path, is_superseded: bool
) -> None:
    stand_ins = 'signal_ranks() { echo "signal $1"; }; start_clock() { echo "clock $1"; }; kill() { echo "kill $2"; }'
    known = f"overdue=no launcher=4711 HPCLAUNCH_EXIT_FILE={tmp_path}/x later={tmp_path}/2"
    if is_superseded:
        (tmp_path / "2").touch()
    done = with_library(f"{stand_ins}; {known}; end_ranks")
    assert done.stdout == ("kill KILL\n" if is_superseded else "signal TERM\nclock 30\n"), done.stderr


@pytest.mark.parametrize("code", [0, 7])
def test_the_shell_of_a_rank_of_a_superseded_start_ends_with_75(tmp_path: Path, code: int) -> None:
    """Its launcher may ask nothing else, as where the script is lost."""
    (tmp_path / "2").touch()
    known = {"HPCLAUNCH_EXIT_FILE": f"{tmp_path}/first-failure", "HPCLAUNCH_START": "1"}
    text = f"later={tmp_path}/2; rank() {{ return {code}; }}; run_rank"
    done = with_library(text, HPCLAUNCH_RUN_DIR=str(tmp_path), **known)
    assert (done.returncode, sorted(os.listdir(tmp_path))) == (75, ["2"]), done.stderr


def test_nothing_is_concluded_from_a_folder_that_cannot_be_opened(tmp_path: Path) -> None:
    look = "if superseded; then echo yes; else echo no; fi"
    assert with_library(f"later={tmp_path}/gone/2; {look}").stdout == "no\n"
    (tmp_path / "2").touch()
    assert with_library(f"later={tmp_path}/2; {look}").stdout == "yes\n"
    assert with_library(f"later={tmp_path}/3; {look}").stdout == "no\n"
    assert with_library(look, later=f"{tmp_path}/2").stdout == "no\n", "a variable of the shell is none of the script's"


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_start_has_a_number_and_with_restarts_a_folder(tmp_path: Path, restarts: int) -> None:
    (tmp_path / "claims").mkdir()
    for number in (1, 2):
        (tmp_path / f"claims/{number}").write_text("free\n")
    done = with_library(
        f"begin slurm restarts={restarts}; bash -c 'echo \"$HPCLAUNCH_START $HPCLAUNCH_START_DIR\"'",
        HPCLAUNCH_RUN_DIR=str(tmp_path),
        SLURM_JOB_ID="7",
        HPCLAUNCH_START="9",
        HPCLAUNCH_START_DIR="/of/another",
    )
    assert done.stdout == (f"3 {tmp_path}/starts/3\n" if restarts else "3 \n")
    assert (tmp_path / "starts/3").is_dir() is bool(restarts)
