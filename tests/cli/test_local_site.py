"""The local site: submitit really runs the script on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, wait_for


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    return desk


SLEEPER = """\
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "3600"])
open(os.environ["HPCLAUNCH_RUN_DIR"] + "/pids", "w").write(f"{os.getpid()} {child.pid}")
print("started", flush=True)
beats = open(os.environ["HPCLAUNCH_RUN_DIR"] + "/beats", "w")
while True:
    time.sleep(0.1)
    print("goes on", file=beats, flush=True)
"""
# coreutils' own, which begins to count the walltime when the program has begun: a busy machine may need all of a short
# one to start it.
SLEEP = """#!/bin/bash
[ "$1" != 2 ] || until [ -s {project}/runs/*/pids ]; do {tools}/sleep 0.1; done
exec {tools}/sleep "$@"
"""


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sleeping(desk: Desk, *words: str) -> tuple[Path, list[int]]:
    """Submit the sleeper; return its run and its processes once they are there."""
    desk.write("sleeper.py", SLEEPER)
    done = desk.type("submit", "./sleeper.py", *words)
    run = Path(done.out.strip())
    wait_for(lambda: (run / "pids").exists() and (run / "pids").read_text().count(" "), "the program runs")
    return run, [int(word) for word in (run / "pids").read_text().split()]


def followed(desk: Desk) -> subprocess.Popen[str]:
    """Submit the sleeper and follow it; this returns when its log was passed on: nothing is left to be recorded."""
    desk.write("sleeper.py", SLEEPER)
    process = desk.start("submit", "./sleeper.py", "--wait")
    assert process.stderr is not None
    told = ""
    while "started\n" not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    wait_for(lambda: list(desk.project.glob("runs/*/beats")), "the program runs")
    return process


def state(desk: Desk, run: Path) -> tuple[str, str]:
    (record,) = desk.type("status", run.name, "--json").runs
    return record["state"], record["exit_code"]


@pytest.mark.parametrize(("exit_code", "ended", "code"), [(0, "COMPLETED", 0), (7, "FAILED", 1)])
def test_a_script_runs_and_its_exit_code_is_kept(local: Desk, exit_code: int, ended: str, code: int) -> None:
    local.write("run.sh", f'echo "got: $*"\nexit {exit_code}\n')
    done = local.type("submit", "./run.sh", "--wait", "--json", "--", "a b", "$HOME")
    assert done.code == code, done.err
    assert (done.json["state"], done.json["exit_code"]) == (ended, f"{exit_code}:0")
    assert "got: a b $HOME\n" in done.err
    assert local.type("logs").out.endswith("got: a b $HOME\n")


def test_a_run_can_be_watched_after_it_was_submitted(local: Desk) -> None:
    run, processes = sleeping(local)
    assert state(local, run) == ("RUNNING", "")
    assert local.type("logs", run.name).out == "started\n"
    assert all(map(alive, processes))


@pytest.mark.parametrize("words", [[], ["--walltime", "10"]], ids=["no walltime", "walltime"])
def test_cancel_ends_all_its_processes(local: Desk, words: list[str]) -> None:
    run, processes = sleeping(local, *words)
    done = local.type("cancel", run.name, "--json")
    assert done.runs[0]["state"] == "CANCELLED"
    wait_for(lambda: not any(map(alive, processes)), "all processes have ended")
    assert state(local, run)[0] == "CANCELLED"


def test_after_its_walltime_a_run_is_ended_as_timed_out(local: Desk) -> None:
    local.program("sleep", SLEEP.format(project=local.project, tools=local.root / "tools"))
    run, processes = sleeping(local, "--walltime", "00:00:02")
    wait_for(lambda: not any(map(alive, processes)), "the walltime ends it")
    wait_for(lambda: state(local, run)[0] != "RUNNING", "it is known")
    assert state(local, run) == ("TIMEOUT", "124:0")


def test_control_c_detaches_and_the_run_goes_on(local: Desk) -> None:
    process = followed(local)
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to the whole process group
    _, err = process.communicate(timeout=60)
    (run,) = (local.project / "runs").iterdir()
    assert process.returncode == 130
    assert f"hpclaunch cancel {run.name}" in err
    assert state(local, run) == ("RUNNING", "")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_terminal_that_closes_does_not_end_the_run(local: Desk, sent: signal.Signals) -> None:
    process = followed(local)
    os.killpg(process.pid, sent)
    process.communicate(timeout=60)
    (run,) = (local.project / "runs").iterdir()
    before = (run / "beats").read_text().count("\n")
    wait_for(lambda: (run / "beats").read_text().count("\n") > before + 2, "the program goes on")
    assert state(local, run) == ("RUNNING", "")


def test_a_run_whose_processes_were_killed_has_failed(local: Desk) -> None:
    run, processes = sleeping(local)
    (record,) = local.type("status", run.name, "--json").runs
    os.killpg(os.getpgid(int(record["job_id"])), signal.SIGKILL)
    for process in processes:
        if alive(process):
            os.kill(process, signal.SIGKILL)
    wait_for(lambda: state(local, run)[0] != "RUNNING", "it is known")
    (told,) = local.type("status", run.name, "--json").runs
    assert (told["state"], told["exit_code"]) == ("FAILED", "")
    assert "its script was killed, or could not write" in told["reason"]


def test_a_missing_launcher_is_told_before_anything_is_written(local: Desk) -> None:
    local.write("train.py", "")
    done = local.type("submit", "./train.py", "--launcher", "mpirun", "--tasks-per-node", "2")
    assert (done.code, "the launcher mpirun is not on this machine" in done.err) == (1, True)
    assert not (local.project / "runs").exists()


def test_a_launcher_on_path_starts_the_ranks(local: Desk) -> None:
    local.program("mpirun", '#!/bin/bash\nwhile [ "$1" != bash ]; do shift; done\n"$@" && "$@"\n')
    local.write("rank.sh", 'echo "one of $HPCLAUNCH_WORLD_SIZE"\n')
    done = local.type("submit", "./rank.sh", "--launcher", "mpirun", "--tasks-per-node", "2", "--wait")
    assert done.code == 0, done.err
    assert done.err.count("one of 2\n") == 2


def test_the_script_can_be_run_by_hand(local: Desk) -> None:
    import subprocess

    local.write("run.sh", "echo by hand; exit 3\n")
    assert local.type("render", "./run.sh", "-o", "job.sh").code == 0
    done = subprocess.run(
        ["bash", "job.sh"], cwd=local.project, env=local.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "by hand\n", "")


def test_a_run_whose_controller_was_killed_goes_on_and_can_be_cancelled(local: Desk) -> None:
    run, processes = sleeping(local)
    (record,) = local.type("status", run.name, "--json").runs
    os.kill(int(record["job_id"]), signal.SIGKILL)
    assert state(local, run) == ("RUNNING", "")
    local.type("cancel", run.name)
    assert not any(map(alive, processes))
    assert state(local, run)[0] == "CANCELLED"


def test_a_run_of_another_machine_is_neither_cancelled_nor_called_so(local: Desk) -> None:
    run, _ = sleeping(local)
    text = (run / "run.json").read_text()
    record = json.loads(text)
    (run / "run.json").write_text(json.dumps({**record, "host": "elsewhere"}))
    done = local.type("cancel", run.name)
    assert (done.code, "runs on elsewhere" in done.err) == (1, True)
    assert state(local, run)[0] == "UNKNOWN"
    (run / "run.json").write_text(text)
    assert local.type("cancel", run.name).code == 0


def test_following_a_run_that_nobody_knows_ends(local: Desk) -> None:
    run, processes = sleeping(local)
    (run / "process").unlink()  # as if a container had started it
    (record,) = local.type("status", run.name, "--json").runs
    for process in (int(record["job_id"]), *processes):
        os.kill(process, signal.SIGKILL)
    for path in (run / "attempts").glob("*/exit-code"):
        path.unlink()
    wait_for(lambda: state(local, run)[0] != "RUNNING", "its processes are gone")
    for path in (run / "attempts").glob("*/exit-code"):
        path.unlink()
    known = json.loads((run / "run.json").read_text())
    del known["edition"]  # then no line of the history counts
    (run / "run.json").write_text(json.dumps({**known, "state": "RUNNING"}))
    done = local.type("logs", "-f", run.name)
    assert (done.code, f"the state of {run.name} is unknown" in done.err) == (1, True)
    assert "sacct" not in done.err


def test_a_script_run_by_hand_twice_shows_its_last_run(local: Desk) -> None:
    local.write("twice.sh", 'test -e "$HPCLAUNCH_RUN_DIR/again"; code=$?; : > "$HPCLAUNCH_RUN_DIR/again"; exit $code\n')
    run = Path(local.type("render", "./twice.sh", "-o", "job.sh").out.strip())
    assert state(local, run) == ("RENDERED", "")
    for ended in ("FAILED", "COMPLETED"):
        subprocess.run(["bash", "job.sh"], cwd=local.project, env=local.environment, check=False)
        assert state(local, run)[0] == ended
        for mark in run.glob("attempts/*/started"):
            os.utime(mark, (0, 0))  # the next one begins later, however coarse the file system's clock is


@pytest.mark.parametrize("limit", [None, "3,1", ""])
def test_a_run_sees_the_gpus_that_the_shell_sees(local: Desk, limit: str | None) -> None:
    if limit is not None:
        local.environment["CUDA_VISIBLE_DEVICES"] = limit
    told = 'printf "visible: %s\\n" "${CUDA_VISIBLE_DEVICES-all}"'
    done = local.type("submit", "--tasks-per-node", "1", "--wait", "--", "bash", "-c", told)
    assert f"visible: {'all' if limit is None else limit}\n" in done.err


def test_the_card_of_this_machine_tells_what_was_found_and_how(local: Desk) -> None:
    shown = local.type("sites", "show", "local").out
    _, _, found = shown.partition("Found on this machine\n")
    labels = [line.split()[0] for line in found.splitlines() if line.startswith("  ") and line[2] != " "]
    assert {"CPUs", "memory", "GPUs"} <= set(labels)
    assert json.loads(local.type("sites", "show", "local", "--json").out)["found"]["cpus"] >= 1
    assert "Found on this machine" not in local.type("sites", "show", "perlmutter").out
