"""``submit --here``: a run inside the allocation that one is in, from its start to its end, whatever ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from tests.cli.conftest import PATIENCE, Desk, wait_for

HERE = os.uname().nodename
# The answers of a Slurm with one allocation, 4711; SPOOL/allocation holds its state.
SQUEUE = """#!/bin/bash
case "$*" in
  *'%A|%T|%U|%V'*) echo "4711|$(< SPOOL/allocation)|$UID|$((EPOCHSECONDS - 60))" ;;
  *jobs=4711*) echo "4711|$(< SPOOL/allocation)|$UID|batch|m1|(null)|1:00:00|30:00|HOSTS|(null)" ;;
esac
"""
# As Slurm's own does, it kills its tasks when it gets SIGTERM.
SRUN = """#!/bin/bash
while [[ "$1" == -* ]]; do shift; done
set -m
SLURM_PROCID=0 "$@" &
trap 'kill -s KILL -- "-$!"' TERM
wait "$!"
wait "$!" 2> /dev/null
"""
WAITS = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(600)\n"
INSIDE = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "1", "SLURM_CPU_BIND": "quiet", "SLURM_STEP_ID": "4294967290"}


@pytest.fixture
def held(cluster: Desk) -> Desk:
    """A desk in the allocation 4711, which has this machine alone."""
    allocate(cluster, HERE)
    cluster.program("srun", SRUN)
    # As a job gets it: from a login shell, and not from the shell where one types.
    cluster.write(str(cluster.home / ".profile"), f"export PATH={cluster.environment['PATH']}\n")
    cluster.environment |= INSIDE
    return cluster


def allocate(desk: Desk, hosts: str, state: str = "RUNNING") -> None:
    (desk.spool / "allocation").write_text(state)
    desk.program("squeue", SQUEUE.replace("SPOOL", str(desk.spool)).replace("HOSTS", hosts))


def the_run(desk: Desk) -> Path:
    (path,) = (desk.project / "runs").iterdir()
    return path


def record(desk: Desk) -> dict[str, Any]:
    """The record's file; a state that another process reported later is a line of the run's history."""
    return dict(json.loads((the_run(desk) / "run.json").read_text()))


def start(desk: Desk) -> subprocess.Popen[str]:
    """Start a run that waits, and return when its rank has begun."""
    desk.write("waits.py", WAITS)
    process = desk.start("submit", "waits.py", "--here", "--tasks-per-node", "1")
    wait_for(lambda: pid_of_rank(desk), "the rank")
    return process


def pid_of_rank(desk: Desk) -> int:
    logs = list(desk.project.glob("runs/*/logs/slurm-4711.out"))
    words = logs[0].read_text().split() if logs else []
    return int(words[words.index("pid") + 1]) if "pid" in words[:-1] else 0


def lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=PATIENCE)
    return process.returncode


def test_a_run_starts_at_once_and_is_a_run_like_any_other(held: Desk) -> None:
    done = held.type("submit", "train.py", "--here", "--tasks-per-node", "1")
    assert (done.code, done.out.strip()) == (0, str(the_run(held)))
    assert "runs in the allocation 4711" in done.err and "hello" in done.err
    assert not (held.spool / "sbatch.args").exists()
    found = record(held)
    assert (found["state"], found["exit_code"], found["allocation"]) == ("COMPLETED", "0:0", "4711")
    assert found["job_id"].startswith("by-hand-")
    assert "COMPLETED" in held.type("status").out
    assert "hello" in held.type("logs").out
    assert "begin slurm\n" in (the_run(held) / "job.sh").read_text()  # nothing that could requeue the allocation


def test_of_a_heterogeneous_allocation_the_first_component_is_used(held: Desk) -> None:
    line = "4711+{}|RUNNING|$UID|batch|m1|(null)|1:00:00|30:00|{}|(null)"
    further, first = line.format(1, "node9"), line.format(0, HERE)
    held.program("squeue", f'#!/bin/bash\necho "{further}"\necho "{first}"\n')
    parts = [("4711 HetJobOffset=0", HERE, "0-5"), ("4712 HetJobOffset=1", "node9", "0-1")]
    lines = [f"JobId={job} Nodes={node} CPU_IDs={cpus} Mem=0 GRES=\n" for job, node, cpus in parts]
    held.fake("scontrol", out="".join(lines))
    done = held.type("submit", "train.py", "--here", "--json")
    assert done.code == 0, done.err
    layout = json.loads((the_run(held) / "spec.json").read_text())["layout"]
    assert (layout["nodes"], layout["tasks_per_node"] * layout["cpus_per_task"]) == (1, 6)


@pytest.mark.parametrize("code", [1, 7, 78])
def test_the_exit_code_is_the_programs(held: Desk, code: int) -> None:
    held.write("fails.py", f"raise SystemExit({code})")
    done = held.type("submit", "fails.py", "--here", "--tasks-per-node", "1", "--json")
    assert (done.code, done.json["state"], done.json["exit_code"]) == (code, "FAILED", f"{code}:0")


def test_the_run_gets_the_variables_of_a_job_and_not_those_of_the_shell(held: Desk) -> None:
    held.write("tells.py", "import json, os\nprint('found', json.dumps(dict(os.environ)))\n")
    held.environment |= {"MY_OWN": "1", "OMP_NUM_THREADS": "77", "VIRTUAL_ENV_PROMPT": "x"}
    held.type("submit", "tells.py", "--here", "--tasks-per-node", "1")
    (line,) = [text for text in held.type("logs").out.splitlines() if text.startswith("found ")]
    seen = json.loads(line.removeprefix("found "))
    assert not {"MY_OWN", "SLURM_CPU_BIND", "SLURM_STEP_ID", "HPCLAUNCH_ALLOCATION"} & seen.keys()
    assert (seen["SLURM_JOB_ID"], seen["SLURM_NTASKS"], seen["OMP_NUM_THREADS"]) == ("4711", "1", "8")
    assert seen["HPCLAUNCH_RUN_DIR"] == str(the_run(held))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_ranks_and_the_run_is_cancelled(held: Desk, number: signal.Signals, code: int) -> None:
    process = start(held)
    rank = pid_of_rank(held)
    assert "RUNNING" in held.type("status").out
    process.send_signal(number)
    assert ended(process) == code
    wait_for(lambda: not lives(rank), "the end of the rank")
    assert runs.load(the_run(held)).state == "CANCELLED"
    assert "CANCELLED" in held.type("status").out
    assert not (held.spool / "scancel.args").exists()


def test_under_nohup_a_lost_terminal_does_not_end_the_run(held: Desk) -> None:
    program = shutil.which("nohup")
    assert program, "nohup is part of coreutils"
    held.before = (program,)
    process = start(held)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 143  # and not 129: SIGHUP came first


def test_cancelling_from_another_shell_ends_the_run_and_not_the_allocation(held: Desk) -> None:
    process = start(held)
    done = held.type("cancel", the_run(held).name)
    assert (done.code, "CANCELLED" in done.out) == (0, True), done.err
    assert ended(process) == 137  # the script's
    assert runs.load(the_run(held)).state == "CANCELLED"
    assert not (held.spool / "scancel.args").exists()


def test_a_request_of_another_host_ends_the_run(held: Desk) -> None:
    """Another host writes it into the run directory, which it shares."""
    process = start(held)
    (the_run(held) / "cancelled").mkdir()
    wait_for(lambda: record(held)["job_id"], "the record")
    (the_run(held) / "cancelled" / f"{record(held)['job_id']}.asked").touch()
    assert ended(process) == 143
    assert runs.load(the_run(held)).state == "CANCELLED"


def test_a_run_that_was_killed_with_all_around_it_does_not_say_running_for_ever(held: Desk) -> None:
    process = start(held)
    wait_for(lambda: record(held)["state"] == "RUNNING", "the record")
    script = int(record(held)["job_id"].removeprefix("by-hand-"))
    for victim in (process.pid, script, pid_of_rank(held)):
        os.kill(victim, signal.SIGKILL)
    ended(process)
    shown: dict[str, Any] = {}

    def has_ended() -> bool:
        shown.update(held.type("status", "--json").runs[0])
        return bool(shown["state"] != "RUNNING")

    wait_for(has_ended, "the end of the run")  # as soon as the rank's shell has ended, too
    assert (shown["state"], shown["reason"]) == ("FAILED", "its script was killed before it could write its exit code")


@pytest.mark.parametrize(
    ("allocation", "state"),
    [("RUNNING", "RUNNING"), ("COMPLETED", "CANCELLED"), ("TIMEOUT", "TIMEOUT"), ("", "CANCELLED")],
)
def test_on_another_host_the_allocation_tells_whether_the_run_can_still_run(
    held: Desk, allocation: str, state: str
) -> None:
    held.type("submit", "train.py", "--here", "--tasks-per-node", "1")
    path = the_run(held) / "run.json"
    found = {**record(held), "host": "elsewhere", "state": "RUNNING", "exit_code": "", "edition": 99}
    path.write_text(json.dumps(found))
    for marker in (the_run(held) / "attempts").glob("*/exit-code"):
        marker.unlink()
    (proof,) = (the_run(held) / "attempts").glob("*/completed")
    proved = proof.read_text()
    proof.unlink()
    (held.spool / "allocation").write_text(allocation)
    assert held.type("status", "--json").runs[0]["state"] == state
    proof.write_text(proved)
    path.write_text(json.dumps({**found, "edition": 199}))
    assert held.type("status", "--json").runs[0]["state"] == "COMPLETED"


def test_what_ended_is_resumed_as_a_job_of_its_own_and_not_repeated(held: Desk) -> None:
    held.write("fails.py", "raise SystemExit(3)")
    held.type("submit", "fails.py", "--here", "--tasks-per-node", "1")
    refused = held.type("retry", the_run(held).name)
    assert (refused.code, "inside the allocation 4711" in refused.err) == (1, True)
    assert f"hpclaunch resume {the_run(held).name}" in refused.err
    for name in INSIDE:
        del held.environment[name]
    done = held.type("resume", the_run(held).name)
    assert done.code == 0, done.err
    script = (held.spool / "script").read_text()
    assert "#SBATCH --partition=batch\n" in script and "#SBATCH --time=00:10:00\n" in script
    assert (record(held)["job_id"], record(held)["allocation"], record(held)["nodes"]) == ("4711", "", "")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--sweep", "a=1,2"), "--sweep is for a job of its own"),
        (("--after", "@1"), "--after is for a job of its own"),
        (("--partition", "debug"), "--partition is for a job of its own"),
        (("--walltime", "5m"), "--walltime is for a job of its own"),
        (("--nodes", "2"), "2 nodes requested"),
        (("--test-only",), "--here submits none"),
    ],
)
def test_what_has_no_meaning_in_an_allocation_is_refused_before_anything_is_written(
    held: Desk, words: tuple[str, ...], what: str
) -> None:
    done = held.type("submit", "train.py", "--here", *words)
    assert done.code in (1, 2)
    assert what in done.err
    assert not (held.project / "runs").exists()


def test_outside_an_allocation_it_is_one_refusal_with_what_to_type(cluster: Desk) -> None:
    done = cluster.type("submit", "train.py", "--here")
    assert done.code == 1
    assert "this shell is in none" in done.err and "hpclaunch shell --nodes N" in done.err
    assert not (cluster.project / "runs").exists()


@pytest.mark.parametrize(
    ("hosts", "state", "what"),
    [
        ("node[1-2]", "RUNNING", f"this machine, {HERE}, is not node1, the first node of the allocation 4711"),
        (HERE, "COMPLETING", "this job is COMPLETING"),
    ],
)
def test_only_the_first_node_of_a_running_allocation_is_the_place(
    held: Desk, hosts: str, state: str, what: str
) -> None:
    allocate(held, hosts, state)
    done = held.type("submit", "train.py", "--here")
    assert (done.code, what in done.err) == (1, True), done.err
    assert not (held.project / "runs").exists()


def test_at_a_site_without_a_queue_it_is_refused(desk: Desk) -> None:
    desk.write("train.py", "print('hello')\n")
    done = desk.type("submit", "train.py", "--here", "--site", "local")
    assert (done.code, "leave --here out" in done.err) == (1, True)


def test_what_a_project_would_add_is_asked_about_first(held: Desk) -> None:
    held.write("hpclaunch.yaml", "environment: {setup: ['touch set-up']}\n")
    done = held.type("submit", "--here", "--", "/bin/true")
    assert done.code == 1
    assert "is not a trusted folder" in done.err


def test_a_dry_run_prints_the_script_and_starts_nothing(held: Desk) -> None:
    done = held.type("submit", "train.py", "--here", "--dry-run")
    assert done.code == 0
    assert "#SBATCH --nodes=1\n" in done.out and "#SBATCH --account=m1\n" in done.out
    assert not (held.project / "runs").exists()
