"""Who looks after the ranks: watchers, clocks, and how processes of a start are told from others."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import with_library
from tests.cli.conftest import wait_for
from tests.script.test_fencing import claim, kill_all, names_of, processes_of, started

IN_OPEN = 0x20  # of inotify(7)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "job.sh").touch()
    yield tmp_path
    kill_all(tmp_path, signal.SIGKILL)


# --- looks


def test_a_look_opens_the_folder_of_the_claims(tmp_path: Path) -> None:
    """Else a client of NFS answers from its cache for up to a minute that there is no later claim."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init()
    assert events >= 0
    try:
        assert libc.inotify_add_watch(events, os.fsencode(tmp_path), IN_OPEN) >= 0
        assert with_library(f"later={tmp_path}/2; superseded && echo yes").stdout == ""
        os.set_blocking(events, False)
        _, mask, _, _ = struct.unpack("iIII", os.read(events, 4096)[:16])  # BlockingIOError: it was not opened
    finally:
        os.close(events)
    assert mask & IN_OPEN


def test_after_the_first_look_come_those_of_the_usual_pause(tmp_path: Path) -> None:
    waits = 'read() { echo "$3" >> waits; }'
    ends = 'began_at() { [ "$(wc -l < waits)" -gt 3 ] || printf 5; }'
    done = with_library(f"cd {tmp_path}; later={tmp_path}/2; {waits}; {ends}; await_later_start 1 5 7 9; echo $?")
    assert (done.stdout, (tmp_path / "waits").read_text()) == ("1\n", "7\n9\n9\n9\n")


def test_the_ranks_look_as_often_as_the_script(folder: Path) -> None:
    look = 'await_later_start() { echo "$3 $4" > looks; }; set_rank 1 0; until [ -s looks ]; do sleep 0.02; done'
    text = f"cd {folder}; begin slurm watch_every=4711; rank() {{ {look}; }}; launch"
    known = {"HPCLAUNCH_RUN_DIR": str(folder), "SLURM_JOB_ID": "7", "HPCLAUNCH_WORLD_SIZE": "2"}
    done = with_library(text, **known)
    assert (folder / "looks").read_text() == "4711 4711\n", done.stderr


def test_a_watcher_of_a_rank_is_one_and_holds_no_log_open(tmp_path: Path) -> None:
    """Else the launcher would wait for it after the rank was killed. By its name the watchers of a node spare it."""
    named = 'until [ "$(text_of "/proc/$watcher/comm")" = hpc-watch ]; do sleep 0.02; done'
    files = 'readlink "/proc/$watcher/fd/0" "/proc/$watcher/fd/1" "/proc/$watcher/fd/2"'
    again = 'first=$watcher; watch_start; [ "$watcher" = "$first" ] && echo one'
    text = f"later={tmp_path}/2 watcher= watch_every=4711; watch_start; {named}; {files}; {again}; kill $watcher"
    done = with_library(f"{text}; kill -s KILL $watcher")
    assert done.stdout == "/dev/null\n" * 3 + "one\n", done.stderr


# A program that ignores what it is asked.
DEAF = "trap '' TERM USR1 USR2\n: > \"begun-$N\"\nexec sleep 1000\n"


def test_watchers_outlive_the_signals_that_ranks_may_ignore(folder: Path) -> None:
    (folder / "program").write_text(DEAF)
    script = started(folder)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        kill_all(folder, number)
    os.killpg(script.pid, signal.SIGKILL)
    script.wait()
    assert "hpc-watch" in names_of(processes_of(folder))
    claim(folder, 2)
    wait_for(lambda: not processes_of(folder), "the end of all processes")


NAMED = "printf %s {} > /proc/$BASHPID/comm; while :; do sleep 1000; done"


def test_what_a_superseded_start_runs_is_killed_and_its_watchers_last(tmp_path: Path) -> None:
    """New processes too, but neither this rank's shell nor the copiers of logs, which have words left to write."""
    begin = "; ".join(f"bash -c '{NAMED.format(name)}' > /dev/null 2>&1 & {key}=$!" for key, name in NAMES.items())
    ready = " ".join(
        f'until [ "$(text_of /proc/${key}/comm)" = {name} ]; do command sleep 0.02; done;'
        for key, name in NAMES.items()
    )
    looks = "1) echo $$ $a $t $w ;; 2) echo $b $w ;; *) echo $w ;;"
    found = f"processes_with() {{ echo >> looks; case $(wc -l < looks) in {looks} esac; }}"
    kill = 'kill() { shift 2; for one; do echo "${who[one]}"; done; command kill -s KILL "$@"; }'
    names = "who[a]=a who[b]=b who[t]=t who[w]=watcher who[$$]=shell"
    rest = "command kill -s KILL $t $b $a $w 2> /dev/null; :"
    done = with_library(f"cd {tmp_path}; {begin}; {ready} {names}; {found}; {kill}; kill_start; {rest}")
    assert done.stdout.split() == ["a", "b", "watcher"], done.stderr


NAMES = {"a": "trainer", "b": "loader", "t": "tee", "w": "hpc-watch"}


# --- clocks


@pytest.mark.parametrize(("when", "rings"), [("$(began_at $$)", True), ("1", False)])
def test_a_clock_rings_only_for_the_process_that_has_set_it(when: str, rings: bool) -> None:
    """Another may have got its number."""
    done = with_library(f'sleep() {{ echo "sleep $1"; }}; kill() {{ echo "kill $2"; }}; ring 9 $$ {when}')
    assert done.stdout == "sleep 9\n" + "kill ALRM\n" * rings


@pytest.mark.parametrize("overdue", ["no", "yes"])
def test_what_outlives_the_walltime_is_killed_wherever_its_launcher_has_put_it(tmp_path: Path, overdue: str) -> None:
    """mpirun starts the ranks in groups of their own."""
    stand_ins = (
        "signal_ranks() { :; }; start_clock() { :; }; processes_with() { echo 61; echo 62; }; kill() { echo $*; }"
    )
    known = f"overdue={overdue} hangs=false launcher=50 later={tmp_path}/2 HPCLAUNCH_EXIT_FILE=/x"
    done = with_library(f"{stand_ins}; {known}; end_ranks")
    assert done.stdout == ("-s KILL -- -50 61 62\n" if overdue == "yes" else ""), done.stderr


# --- processes


def test_a_process_is_found_by_the_whole_of_a_variable_and_whatever_characters_it_has(tmp_path: Path) -> None:
    wanted = f"{tmp_path}/a[1].+x*"
    others = [f"{wanted}2", f"{tmp_path}/a1.+x*", f"{tmp_path}/a[1]X+x*"]
    processes = [subprocess.Popen(["sleep", "1000"], env={"MINE": text}) for text in (wanted, *others)]
    processes.append(subprocess.Popen(["sleep", "1000"], env={"NOT_MINE": f"MINE={wanted}"}))
    try:
        # The variable is exported, as in a script: what looks for it must not find itself.
        found = with_library(f'export MINE="{wanted}"; processes_with MINE "$MINE"').stdout.split()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert found == [str(processes[0].pid)]


def test_a_process_may_have_any_name() -> None:
    named = "(printf 'a) Z 1 (b' > /proc/$BASHPID/comm; began_at $BASHPID; echo; began_at $$)"
    first, second = with_library(f"{named}").stdout.split()
    assert first.isdigit() and int(second) <= int(first)
