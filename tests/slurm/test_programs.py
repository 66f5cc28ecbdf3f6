"""Any program on a real Slurm: commands, sweeps without a job file, and one run after another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.slurm.desk import Desk

pytestmark = pytest.mark.timeout(600)
SMALL = ("--nodes", "1", "--tasks-per-node", "1", "--gpus-per-node", "0", "--cpus-per-task", "1", "--walltime", "10m")
HELD = 'until [ -e "$HPCLAUNCH_RUN_DIR/go" ]; do sleep 0.1; done'
SHOW = 'printf "<%s>" "$@"; echo'
NOTE = "$(touch sneaked-in) 'a' & \\n *"


def told(desk: Desk, *words: str) -> list[dict[str, Any]]:
    found = json.loads(desk.run(*words, "--json").stdout)["runs"]
    assert isinstance(found, list)
    return found


def test_a_command_runs_on_every_rank(desk: Desk) -> None:
    run = desk.submit("--nodes", "2", "--tasks-per-node", "1", "--gpus-per-node", "0", "--", "hostname")
    desk.wait(run)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    hosts = {line for line in run.log().splitlines() if not line.startswith("hpclaunch: ")}
    assert len(hosts) == 2, run.log()


def test_a_sweep_of_a_command_fills_in_its_values(desk: Desk) -> None:
    words = ("--sweep", f'note="{NOTE}",plain', "--sweep", "n=1..2")
    run = desk.submit(*SMALL, *words, "--", "bash", "-c", SHOW, "show", "in {note}", "{other}", "$HOME")
    assert desk.run("wait", run.path.name).returncode == 0
    shown = [desk.run("logs", f"{run.path.name}/{n:04d}").stdout for n in range(4)]
    for log, (note, n) in zip(shown, [(NOTE, 1), (NOTE, 2), ("plain", 1), ("plain", 2)], strict=True):
        assert f"<in {note}><{{other}}><$HOME><--n={n}>\n" in log
    assert not list(desk.folder.rglob("sneaked-in"))
    measured = {file.parents[1].name for file in run.path.glob("*/samples/*.ranks")}
    assert measured == {f"{n:04d}" for n in range(4)}, "each run has the samples of its own ranks"


def test_a_run_begins_when_another_has_completed(desk: Desk) -> None:
    first = desk.submit(*SMALL, "--name", "first", "--", "bash", "-c", HELD)
    second = desk.submit(*SMALL, "--name", "second", "--after", "first", "--", "true")
    assert desk.field(second, "Dependency").startswith(f"afterok:{first.job_id}")
    (first.path / "go").touch()
    assert desk.run("wait", "@1", "@2").returncode == 0
    ended = (first.path / "attempts" / f"{first.job_id}.0" / "exit-code").stat().st_mtime
    assert ended <= (second.path / "attempts" / f"{second.job_id}.0" / "started").stat().st_mtime


def test_a_run_and_a_further_start_begin_when_no_job_of_their_name_is_left(desk: Desk) -> None:
    singly = ("--name", "alone", "--after", "singleton")
    first = desk.submit(*SMALL, "--name", "alone", "--", "bash", "-c", HELD)
    other = desk.submit(*SMALL, "--name", "other", "--after", "singleton", "--", "true")
    second = desk.submit(*SMALL, *singly, "--", "bash", "-c", f"{HELD}; exit 7")
    array = desk.submit(*SMALL, *singly, "--sweep", "n=1..2", "--", "bash", "-c", "exit 0")
    assert desk.run("wait", other.path.name).returncode == 0, "no job has its name"
    for waiting in (second, array):
        assert desk.field(waiting, "Dependency") == "singleton(unfulfilled)"
        assert desk.field(waiting, "JobState") == "PENDING"
    (second.path / "go").touch()
    (first.path / "go").touch()
    assert desk.run("wait", second.path.name).returncode == 7
    assert desk.run("wait", array.path.name).returncode == 0
    ended = (first.path / "attempts" / f"{first.job_id}.0" / "exit-code").stat().st_mtime
    assert ended <= (second.path / "attempts" / f"{second.job_id}.0" / "started").stat().st_mtime
    resumed, again = desk.run("resume", second.path.name, "--wait"), desk.run("rerun", second.path.name, "--dry-run")
    assert "FAILED (exit code 7:0)" in resumed.stderr
    for script in ((second.path / "job.sh").read_text(), again.stdout):
        assert "\n#SBATCH --dependency=singleton\n" in script


def test_a_run_after_one_that_fails_is_cancelled_and_one_after_its_end_runs(desk: Desk) -> None:
    fails = desk.submit(*SMALL, "--name", "fails", "--", "bash", "-c", f"{HELD}; exit 7")
    desk.submit(*SMALL, "--name", "never", "--after", "fails", "--", "true")
    desk.submit(*SMALL, "--name", "anyway", "--after-any", "fails", "--", "true")
    (fails.path / "go").touch()
    assert desk.run("wait", "fails").returncode == 7
    assert desk.run("wait", "never").returncode == 1
    assert desk.run("wait", "anyway").returncode == 0
    assert [row["state"] for row in told(desk, "status", "never")] == ["CANCELLED"]
    refused = desk.run("submit", *SMALL, "--after", "fails", "--", "true")
    assert (refused.returncode, "cannot complete any more: its state is FAILED" in refused.stderr) == (1, True)
    again = desk.run("resume", "never", "--wait")
    assert again.returncode == 0, again.stderr
