"""What ``status`` shows: its columns in a pipe, chosen ones, states and times; and on a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.terminal import Terminal

TITLES = "run\tjob id\tsite\tstate\texit\tcreated (UTC)\tnodes\telapsed\tleft\tepoch\treason"


@pytest.fixture
def runs(cluster: Desk) -> dict[str, Path]:
    """A run that runs since a minute and has made 2 of 4 epochs, and one that waits."""
    found = {}
    for job_id, nodes in (("4711", 2), ("4712", 3)):
        cluster.fake("sbatch", out=f"Submitted batch job {job_id}\n")
        found[job_id] = Path(cluster.type("submit", "./train.py", "--nodes", str(nodes)).out.strip())
    cluster.fake("squeue", out="4711|RUNNING|None|n[1-2]\n4712|PENDING|Priority|\n")
    attempt = found["4711"] / "attempts/4711.0"
    attempt.mkdir(parents=True)
    began = os.stat(attempt).st_mtime - 60
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    (attempt / "started").write_text(text)
    events = [{"event": "start", "options": {"epochs": 4}}]
    events += [{"event": "epoch", "epoch": n, "loss": 1 / n, "seconds": 1e6, "time": began + n} for n in (1, 2)]
    (found["4711"] / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return found


def test_in_a_pipe_every_column_has_its_value(cluster: Desk, runs: dict[str, Path]) -> None:
    lines = cluster.type("status").out.splitlines()
    assert lines[0] == TITLES
    rows = {row[1]: row for row in (line.split("\t") for line in lines[1:])}
    run, waiting = rows["4711"], rows["4712"]
    assert (run[0], run[3], run[6], run[9], run[10]) == (runs["4711"].name, "RUNNING", "2", "2/4", "")
    assert run[7].startswith("00:0") and run[8].count(":") == 2
    assert waiting[6:10] == ["3", "-", "-", "-"]
    assert waiting[10].startswith("Priority: jobs with a higher priority")


def test_json_has_the_same_as_numbers(cluster: Desk, runs: dict[str, Path]) -> None:
    found = {row["job_id"]: row for row in cluster.type("status", "--json").runs}
    run, waiting = found["4711"], found["4712"]
    assert (run["node_count"], run["epoch"], run["epochs"], run["loss"]) == (2, 2, 4, 0.5)
    assert 60 <= run["elapsed_s"] < 600 and 0 < run["walltime_left_s"] <= 540
    assert waiting["elapsed_s"] is waiting["epoch"] is waiting["left_s"] is None


def test_columns_are_chosen_by_name_and_a_wrong_name_lists_all(cluster: Desk, runs: dict[str, Path]) -> None:
    out = cluster.type("status", "--format", "state,job,epoch").out
    assert out == "state\tjob id\tepoch\nPENDING\t4712\t-\nRUNNING\t4711\t2/4\n"
    done = cluster.type("status", "--format", "stat,epoch")
    assert done.code == 2 and "no column is called 'stat'; did you mean 'state'?" in done.err
    assert "allowed: run, name, job" in done.err
    done = cluster.type("status", "--format", "state", "--json")
    assert done.code == 2 and done.json["faults"][0]["where"] == "--format, --json"


def test_runs_are_chosen_by_state_and_time(cluster: Desk, runs: dict[str, Path]) -> None:
    jobs = lambda *words: [row["job_id"] for row in cluster.type("status", "--json", *words).runs]  # noqa: E731
    assert jobs("--state", "running") == ["4711"]
    assert jobs("--state", "RUNNING,PENDING") == jobs("--state", "RUNNING", "--state", "PENDING") == ["4712", "4711"]
    assert jobs("--since", "1h") == ["4712", "4711"]
    assert jobs("--since", "2999-01-01") == jobs("--since", "2999-01-01", "4711") == []
    done = cluster.type("status", "--state", "FAILED")
    assert done.code == 0 and done.out == "" and "no run has this state and time; hpclaunch status" in done.err
    done = cluster.type("status", "--since", "soon")
    assert done.code == 2 and "--since" in done.err and "next: --since 7d" in done.err


def test_on_a_terminal_of_80_columns_every_run_has_one_line(cluster: Desk, runs: dict[str, Path]) -> None:
    environment = {**cluster.environment, "TERM": "xterm"}
    plain = Terminal([sys.executable, "-m", "hpclaunch", "status"], cluster.project, {**environment, "NO_COLOR": "1"})
    tabs = Terminal([sys.executable, "-m", "hpclaunch", "status", "--tabs"], cluster.project, environment)
    try:
        assert (plain.end(), tabs.end()) == (0, 0)
    finally:
        plain.close()
        tabs.close()
    lines = plain.lines()
    assert lines[0].split() == ["run", "state", "nodes", "elapsed", "left", "epoch"]
    assert lines[1].split()[:3] == [runs["4712"].name, "PENDING", "3"]
    assert lines[2].split()[:3] == [runs["4711"].name, "RUNNING", "2"] and lines[2].endswith("2/4")
    assert max(map(len, lines[:3])) <= 80
    assert lines[3].startswith(f"{runs['4712'].name}: Priority: ")
    assert tabs.lines()[0] == TITLES and "\x1b" not in "".join(tabs.lines())


def test_a_run_is_listed_once_where_runs_is_a_link_to_another_disk(cluster: Desk) -> None:
    scratch = cluster.project.parent / "scratch"
    scratch.mkdir()
    (cluster.project / "runs").symlink_to(scratch)
    cluster.write("train.py", "print('done')\n")
    made = []
    for job_id in ("4711", "4712"):
        cluster.fake("sbatch", out=f"Submitted batch job {job_id}\n")
        made.append(Path(cluster.type("submit", "./train.py").out.strip()).name)
    assert [row["run"] for row in cluster.type("status", "--json").runs] == made[::-1]
    assert cluster.type("runs", "show", "@2", "--json").json["run"] == made[0]
