"""Many submissions at once, and submissions that are killed at any moment: nothing lost, nothing queued twice."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Faults, told
from tests.slurm.desk import HPCLAUNCH, until

pytestmark = pytest.mark.timeout(900)
ONE = ("--tasks-per-node", "1")
KILLS = 24


def test_50_submissions_at_once(faults: Faults) -> None:
    desk = faults.desk
    command = [HPCLAUNCH, "submit", "short", *ONE, "--json"]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, cwd=desk.folder, env=desk.shell(), stdout=pipe, stderr=pipe, text=True)
        for _ in range(50)
    ]
    ended = [process.communicate(timeout=600) for process in started]
    assert [process.returncode for process in started] == [0] * 50, [err for _, err in ended if err]
    records = [json.loads(out) for out, _ in ended]
    assert len({record["run_dir"] for record in records}) == len({record["job_id"] for record in records}) == 50
    names = [record["run_dir"] for record in records]
    assert desk.run("wait", *names, seconds=600).returncode == 0
    assert all(len(faults.jobs_of(Path(name))) == 1 for name in names)


def test_submit_killed_at_each_moment(faults: Faults) -> None:
    desk = faults.desk
    before = set(faults.runs())
    began = time.monotonic()
    desk.submit("short", *ONE, "--sbatch=--hold")
    whole = time.monotonic() - began
    for number in range(KILLS):
        process = subprocess.Popen(
            [HPCLAUNCH, "submit", "short", *ONE, "--sbatch=--hold"],
            cwd=desk.folder,
            env=desk.shell(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(whole * (0.4 + 0.7 * number / KILLS))
        process.kill()
        process.wait()
    seen: dict[str, int] = {}
    for run in set(faults.runs()) - before:
        jobs = faults.jobs_of(run)
        assert len(jobs) <= 1
        if not (run / "run.json").exists():
            assert jobs == []
            continue
        record = told(desk, run)
        if record["state"] == "SUBMITTING":  # five minutes later
            stamp = (run / "run.json").stat().st_mtime - 600
            os.utime(run / "run.json", (stamp, stamp))
            record = told(desk, run)
        assert record["state"] == ("PENDING" if jobs else record["state"])
        assert record["state"] in ("PENDING", "NOT_SUBMITTED", "INCOMPLETE", "RENDERED")
        assert [record["job_id"]] == (jobs or [""])
        seen[record["state"]] = seen.get(record["state"], 0) + 1
    print(f"killed {KILLS} submissions; the records say {seen}")
    pending = [record["job_id"] for record in json.loads(desk.run("status", "--json").stdout) if record["job_id"]]
    desk.slurm("scancel", *pending)
    until(lambda: not desk.slurm("squeue", "-h", "--name=short", "-o", "%i").split(), "an empty queue")
