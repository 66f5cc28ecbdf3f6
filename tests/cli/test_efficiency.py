"""`efficiency`: one run in detail, several as a table, JSON, and the line at the end of `--wait`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, Done

# Writes the samples of a node on which it used a tenth of its four CPUs for ten minutes.
IDLE = """import json, os, time
run = os.environ["HPCLAUNCH_RUN_DIR"]
os.makedirs(run + "/samples")
now = time.time()
header = {"format": 1, "node": "n", "attempt": "1.0", "interval": 10, "began": now - 600, "cpus": 4}
header["sources"] = {"cpu": "cgroup", "memory": "cgroup"}
line = {"t": now, "cpu": 240.0, "ranks": {"0": {"cpu": 240.0}}, "memory": 3 * 10**9}
with open(run + "/samples/n-1.0.jsonl", "w") as file:
    file.write(json.dumps(header) + "\\n" + json.dumps(line) + "\\n")
"""
ONE = ("--nodes", "1", "--tasks-per-node", "1", "--cpus-per-task", "4", "--no-samples", "--walltime", "1h")
ADVICE = "used 10 % of its CPUs: --cpus-per-task 1 is enough, as each rank computed on 1 core at most."


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("idle.py", IDLE)
    return desk


def ran(desk: Desk, *words: str) -> Done:
    done = desk.type("submit", "./idle.py", *ONE, *words, "--wait")
    assert done.code == 0, done.err
    return done


def test_one_run_in_detail(local: Desk) -> None:
    run = Path(ran(local).out.strip())
    done = local.type("efficiency")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["resource", "used", "asked for", "share", "measured by"]
    assert rows[1] == ["CPU", "0.4 cores", "4 cores", "10 %", "the job's cgroup, sampled"]
    assert (rows[2][:2], rows[3][0], rows[3][3]) == (["memory", "3.0 GB"], "time", "17 %")
    assert rows[4][0].startswith(f"It {ADVICE}")
    assert done.err.startswith(f"{run.name}: COMPLETED\n")
    [one] = local.type("efficiency", run.name, "--json").runs
    assert (one["quantities"][0]["name"], one["quantities"][0]["share"]) == ("CPU", 0.1)
    assert one["suggestions"][0]["options"] == ["--cpus-per-task", "1"]
    assert "jobstats" in one["suggestions"][0]["source"]


def test_several_runs_are_a_table(local: Desk) -> None:
    first, second = (Path(ran(local, "--name", name).out.strip()).name for name in ("a", "b"))
    lines = local.type("efficiency", first, second).out.splitlines()
    assert lines[0].split("\t") == ["run", "state", "CPU", "memory", "GPU", "time", "next time"]
    assert lines[1].split("\t")[:6] == [first, "COMPLETED", "10 %", "-", "-", "17 %"]
    assert lines[1].split("\t")[6].startswith("--cpus-per-task 1 --walltime ")
    assert [line.split("\t")[0] for line in local.type("efficiency", "--since", "7d").out.splitlines()[1:]] == [
        second,
        first,
    ]
    nothing = local.type("efficiency", "--since", "2999-01-01")
    assert (nothing.code, nothing.out, "no run of this time has begun" in nothing.err) == (0, "", True)


def test_the_line_at_the_end_of_waiting(local: Desk) -> None:
    done = ran(local)
    [line] = [line for line in done.err.splitlines() if "used of what it asked for" in line]
    name = Path(done.out.strip()).name
    assert line.startswith("  used of what it asked for: CPU 10 %, time 17 %; next time: --cpus-per-task 1 --walltime ")
    assert line.endswith(f" (hpclaunch efficiency {name})")
    assert "used of what it asked for" in local.type("wait", name).err
    machine = local.type("wait", name, "--json")
    assert (json.loads(machine.out)["runs"][0]["state"], "used of" in machine.err) == ("COMPLETED", False)


def test_a_run_of_seconds_or_without_samples_has_no_such_line(local: Desk) -> None:
    local.write("idle.py", "print('done')\n")
    done = ran(local)
    assert "used of what it asked for" not in done.err
    shown = local.type("efficiency")
    assert (shown.code, "nothing is known but its time: it has no samples" in shown.err) == (0, True)


def test_what_cannot_be_shown_is_refused(local: Desk) -> None:
    local.type("render", "./idle.py", *ONE, "-o", "job.sh")
    not_begun = local.type("efficiency")
    assert (not_begun.code, "has not begun, so it has used nothing" in not_begun.err) == (1, True)
    wrong = local.type("efficiency", "--since", "yesterday")
    assert (wrong.code, "--since" in wrong.err) == (2, True)
    assert local.type("efficiency", "nosuchrun").code == 1
