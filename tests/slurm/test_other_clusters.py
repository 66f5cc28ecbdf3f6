"""Runs on another cluster than the login node's: two real ones with one slurmdbd, one home and equal job numbers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Terminal
from tests.slurm.conftest import Cluster
from tests.slurm.desk import HPCLAUNCH, PROBE_JOB, Desk, Submitted, until
from tests.slurm.second import second_cluster

pytestmark = pytest.mark.timeout(900)
NAME = f"hpcother{os.getpid()}"  # a slurmdbd keeps the names of clusters that it has had
THERE = f"--sbatch=--clusters={NAME}"
ONE = ("--nodes", "1", "--tasks-per-node", "1")
LONG = "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n"
HELD = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true")
# The first start asks for another one; it tells which cluster the set-up lines name, and on which one it runs.
AGAIN = """
import os
print("ran on", os.environ["SLURM_CLUSTER_NAME"], "with", os.environ.get("SLURM_CLUSTERS"), flush=True)
raise SystemExit(75 if os.environ["HPCLAUNCH_RESTART_COUNT"] == "0" else 0)
"""


@pytest.fixture(scope="module")
def conf(cluster: Cluster, desk: Desk) -> Iterator[Path]:
    """The slurm.conf of the other cluster, whose first job has the number of the next one here."""
    number = desk.slurm(*HELD).strip()
    desk.slurm("scancel", number)
    options = ("--cluster-name", NAME, "--nodes", "2", "--no-preempt", "--accounting-of", str(cluster.root))
    with second_cluster(cluster, *options, "--first-job-id", str(int(number) + 1)) as found:
        yield found


@pytest.fixture(scope="module")
def there(desk: Desk, conf: Path) -> Desk:
    """The same person, as Slurm's programs on the other cluster's login node see it."""
    desk.job("long", LONG)
    desk.job("seven", "raise SystemExit(7)")
    desk.job("short", "print('one line')")
    return dataclasses.replace(desk, conf=conf)


def held_here(desk: Desk, there: Desk) -> str:
    """Return the number of a held job here; the next job there gets the same number."""
    last = {one.conf: int(one.slurm(*HELD)) for one in (desk, there)}
    for one in (desk, there):
        while last[one.conf] < max(last.values()):
            one.slurm("scancel", str(last[one.conf]))
            last[one.conf] = int(one.slurm(*HELD))
        one.slurm("scancel", str(last[one.conf]))
    return desk.slurm(*HELD).strip()


def told(desk: Desk, run: Submitted) -> dict[str, Any]:
    """The run as ``hpclaunch status`` tells it."""
    found: dict[str, Any] = json.loads(desk.run("status", "--json", str(run.path)).stdout)["runs"][0]
    return found


def record(run: Submitted) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.path / "run.json").read_text())
    return found


def becomes(desk: Desk, run: Submitted, state: str) -> dict[str, Any]:
    until(lambda: told(desk, run)["state"] == state, f"{run.path} {state}")
    return told(desk, run)


def test_verbs_go_where_the_run_is_and_not_to_the_job_of_its_number_here(
    desk: Desk, there: Desk, cluster: Cluster
) -> None:
    stranger = held_here(desk, there)
    run = desk.submit("long", *ONE, THERE)
    assert run.job_id == stranger
    assert (record(run)["cluster"], record(run)["via"]) == (NAME, cluster.name)
    assert record(run)["held"]["partition"] == "batch"
    desk.wait_for_line(run, "begun")
    becomes(desk, run, "RUNNING")
    assert "begun" in desk.run("logs", str(run.path)).stdout
    assert desk.run("efficiency", "--json", str(run.path)).returncode == 0
    # Whoever logs in there asks plainly.
    assert told(there, run)["state"] == "RUNNING"
    cancelled = desk.run("cancel", str(run.path))
    assert cancelled.returncode == 0, cancelled.stderr
    becomes(desk, run, "CANCELLED")
    assert desk.slurm("squeue", "--noheader", "--format=%T", f"--jobs={stranger}").strip() == "PENDING"
    desk.slurm("scancel", stranger)
    assert desk.run("resume", str(run.path)).returncode == 0
    again = dataclasses.replace(run, job_id=record(run)["job_id"])
    assert (again.job_id != run.job_id, record(run)["cluster"], record(run)["via"]) == (True, NAME, cluster.name)
    becomes(desk, again, "RUNNING")
    assert desk.run("cancel", "--all", "--yes").returncode == 0
    becomes(desk, again, "CANCELLED")


def test_the_end_of_a_run_there_is_the_one_that_wait_retry_and_report_see(desk: Desk, there: Desk) -> None:
    run = desk.submit("seven", *ONE, THERE)
    waited = desk.run("wait", str(run.path))
    assert waited.returncode == 7, waited.stderr
    until(lambda: told(desk, run)["exit_code"] == "7:0", "the exit code")
    refused = desk.run("retry", str(run.path))
    assert "the program itself" in refused.stderr or "exit code 7" in refused.stderr, refused.stderr
    assert desk.run("report", str(run.path), "-o", str(desk.folder / "page.html")).returncode == 0
    there.ended(run)
    used = desk.run("efficiency", str(run.path))
    assert used.returncode == 0, used.stderr


def test_an_array_there_is_followed_and_cancelled_there(desk: Desk, there: Desk) -> None:
    desk.job("sleeper", "import sys, time\ntime.sleep(float(sys.argv[-1]))\n")
    run = desk.submit("sleeper", *ONE, THERE, "--sweep", "seconds=0,3600", "--", "{seconds}")

    def states() -> list[str]:
        shown = json.loads(desk.run("status", "--all", "--json", str(run.path)).stdout)
        return [one["state"] for one in shown["runs"]]

    until(lambda: states() == ["COMPLETED", "RUNNING"], "the first run of the array")
    assert desk.run("cancel", str(run.path)).returncode == 0
    until(lambda: states() == ["COMPLETED", "CANCELLED"], "the second run of the array")
    assert record(run)["cluster"] == NAME


def test_watch_shows_and_cancels_the_run_there_and_not_the_job_of_its_number_here(desk: Desk, there: Desk) -> None:
    stranger = held_here(desk, there)
    run = desk.submit("long", *ONE, THERE)
    assert run.job_id == stranger
    screen = Terminal([HPCLAUNCH, "watch", run.path.name], desk.folder, desk.shell(TERM="xterm-256color"))
    try:
        screen.shows("1 run: 1 RUNNING")
        screen.type("cy")
        screen.shows("1 run: 1 CANCELLED")
        screen.type("q")
        assert screen.end() == 0
    finally:
        screen.close()
    becomes(desk, run, "CANCELLED")
    assert desk.slurm("squeue", "--noheader", "--format=%T", f"--jobs={stranger}").strip() == "PENDING"
    desk.slurm("scancel", stranger)


def test_a_run_there_that_was_moved_is_adopted_followed_and_its_end_repaired(desk: Desk, there: Desk) -> None:
    stranger = held_here(desk, there)
    run = desk.submit("seven", *ONE, THERE)
    assert run.job_id == stranger
    becomes(desk, run, "FAILED")
    moved = dataclasses.replace(run, path=desk.folder / "moved" / run.path.name)
    moved.path.parent.mkdir()
    run.path.rename(moved.path)
    adopted = desk.run("runs", "adopt", str(moved.path))
    assert adopted.returncode == 0, adopted.stderr
    assert (record(moved)["cluster"], told(desk, moved)["state"]) == (NAME, "FAILED")
    words = ("--state", "PREEMPTED", "--reason", "the node was taken away")
    repaired = desk.run("runs", "repair", str(moved.path), *words)
    assert repaired.returncode == 0, repaired.stderr
    for asked in (desk, there):
        assert told(asked, moved)["state"] == "PREEMPTED"
    assert desk.slurm("squeue", "--noheader", "--format=%T", f"--jobs={stranger}").strip() == "PENDING"
    desk.slurm("scancel", stranger)


def test_a_run_there_that_is_adopted_while_it_runs_is_followed_and_cancelled_there(desk: Desk, there: Desk) -> None:
    stranger = held_here(desk, there)
    run = desk.submit("long", *ONE, THERE)
    assert run.job_id == stranger
    desk.wait_for_line(run, "begun")
    other = dataclasses.replace(desk, folder=desk.folder / "another")  # a home with no list of runs
    (other.folder / "home").mkdir(parents=True)
    adopted = other.run("runs", "adopt", str(run.path))
    assert adopted.returncode == 0, adopted.stderr
    becomes(other, run, "RUNNING")
    unended = other.run("runs", "repair", str(run.path), "--state", "FAILED", "--reason", "x")
    assert (unended.returncode, "has not ended: it is RUNNING" in unended.stderr) == (1, True)
    assert other.run("cancel", str(run.path)).returncode == 0
    becomes(other, run, "CANCELLED")
    assert desk.slurm("squeue", "--noheader", "--format=%T", f"--jobs={stranger}").strip() == "PENDING"
    desk.slurm("scancel", stranger)


def test_a_job_waits_only_for_jobs_of_its_own_cluster(desk: Desk, there: Desk) -> None:
    first = desk.submit("short", *ONE, THERE, "--sbatch=--hold")
    refused = desk.run("submit", "short", *ONE, "--after", str(first.path))
    assert (refused.returncode, f"is on the cluster {NAME}, and a job can wait only" in refused.stderr) == (1, True)
    second = desk.submit("short", *ONE, THERE, "--after", str(first.path))
    third = desk.submit("short", *ONE, THERE, "--after", second.job_id)
    assert there.field(second, "Dependency").startswith(f"afterok:{first.job_id}")
    there.slurm("scontrol", "release", first.job_id)
    for run in (first, second, third):
        becomes(desk, run, "COMPLETED")


def test_what_a_job_asks_slurm_goes_to_its_own_cluster(desk: Desk, there: Desk, cluster: Cluster) -> None:
    """A module that is loaded in the job names another cluster, to which its requeue would go."""
    module = desk.folder / "module.sh"
    module.write_text(f"export SLURM_CLUSTERS={cluster.name}\n")
    desk.job("again", AGAIN, restarts=1, environment={**PROBE_JOB["environment"], "setup": [f"source {module}"]})
    run = desk.submit("again", *ONE, THERE)
    becomes(desk, run, "COMPLETED")
    assert run.log().count(f"ran on {NAME} with None") == 2, run.log()


def test_a_variable_of_the_shell_sends_a_run_where_a_site_without_a_name_may_go(desk: Desk, there: Desk) -> None:
    desk.site("anywhere", detect={"hostname": "nowhere"})
    shell = desk.shell(SLURM_CLUSTERS=NAME)
    words = ("short", *ONE, "--site", "anywhere")
    shown = desk.run("submit", *words, "--dry-run", env=shell)
    assert f"cluster {NAME} (SLURM_CLUSTERS)" in shown.stderr, shown.stderr
    refused = desk.run("submit", *words, "--partition", "preempt", env=shell)
    assert "Slurm has no partition 'preempt'" in refused.stderr, refused.stderr  # here there is one
    run = desk.submit(*words, env=shell)
    assert record(run)["cluster"] == NAME
    becomes(desk, run, "COMPLETED")


def test_of_several_clusters_the_answer_names_the_one(desk: Desk, there: Desk, cluster: Cluster) -> None:
    run = desk.submit("long", *ONE, f"--sbatch=-M {NAME},{cluster.name}")
    assert record(run)["cluster"] in (NAME, cluster.name)
    assert (record(run)["via"] == "") == (record(run)["cluster"] == cluster.name)
    becomes(desk, run, "RUNNING")
    assert desk.run("cancel", str(run.path)).returncode == 0
    becomes(desk, run, "CANCELLED")


@pytest.mark.parametrize("named", [NAME, f"nosuch,{NAME}"], ids=["the one", "behind an unknown one"])
def test_an_answer_that_was_lost_is_looked_up_there(desk: Desk, there: Desk, named: str) -> None:
    desk.program("sbatch", '#!/bin/bash\n/usr/bin/sbatch "$@" > /dev/null\n')
    shell = desk.shell(PATH=f"{desk.folder}/programs:{desk.shell()['PATH']}")
    try:
        run = desk.submit("short", *ONE, f"--sbatch=--clusters={named}", env=shell)
    finally:
        (desk.folder / "programs" / "sbatch").unlink()
    assert record(run)["cluster"] == NAME
    becomes(desk, run, "COMPLETED")


def test_a_cluster_that_the_database_does_not_know_gets_nothing(desk: Desk, there: Desk) -> None:
    done = desk.run("submit", "short", *ONE, "--sbatch=--clusters=nosuch")
    assert (done.returncode, "'nosuch' can't be reached now" in done.stderr) == (1, True), done.stderr
    newest = json.loads(desk.run("status", "--json").stdout)["runs"][0]
    assert (newest["state"], newest["job_id"]) == ("NOT_SUBMITTED", "")
