"""A search of 24 trials on the test cluster, whose best is known, and what must hold of it however it went."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.slurm.desk import Desk, Submitted

# With a gate, trials with x above 0 wait until that file exists.
# With x=1, y=1 and with x=3, y=0 the first start is killed from outside.
TRIAL = """
import json, os, signal, sys, time
words = dict(word[2:].split("=", 1) for word in sys.argv[1:])
x, y = int(words["x"]), int(words["y"])
run_dir, start = os.environ["HPCLAUNCH_RUN_DIR"], int(os.environ["HPCLAUNCH_RESTART_COUNT"])
with open(run_dir + "/starts", "a") as file:
    file.write(os.environ["CUDA_VISIBLE_DEVICES"] + " " + os.environ.get("SLURM_PROCID", "none") + "\\n")
if start == 0 and (x, y) in ((1, 1), (3, 0)):
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.5)
while x > 0 and words.get("gate") and not os.path.exists(words["gate"]):
    time.sleep(0.1)
with open(run_dir + "/metrics.jsonl", "a") as file:
    file.write(json.dumps({"event": "end", "loss": (x - 2) ** 2 + (y - 3) ** 2 + 0.5}) + "\\n")
"""
SPACE = ("--sweep", "x=0..5", "--sweep", "y=0..3", "--metric", "loss")


def with_bowl(desk: Desk) -> Desk:
    """Write the job that is searched: a bowl with its bottom at 2, 3."""
    parameters = {"x": 0, "y": 0, "gate": ""}
    desk.job("bowl", TRIAL, parameters=parameters, resources={}, restarts=3, summary="a bowl with its bottom at 2, 3")
    return desk


def searched(desk: Desk, *words: str) -> Submitted:
    done = desk.run("search", "bowl", *SPACE, "--walltime", "20m", *words, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return Submitted(path=Path(told["run_dir"]), job_id=told["job_id"])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def hosts(run: Submitted) -> set[str]:
    """The nodes on which a trial has begun."""
    events = [json.loads(line) for file in run.path.glob("search/journal/*.jsonl") for line in lines(file)]
    return {event["h"] for event in events if event["e"] == "begin"}


def results(desk: Desk, run: Submitted) -> dict[str, Any]:
    done = desk.run("search", "results", run.path.name, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def checked(desk: Desk, run: Submitted, nodes: int, packed: bool = False) -> dict[str, Any]:
    """Every point was tried once, the best is the true one, and no CPU or GPU was shared at any time.

    ``packed``: by Slurm, with jobs that share nodes. The nodes of the test cluster bind nothing to CPUs (task/none), so
    only GPUs are compared then.
    """
    found = results(desk, run)
    trials = found["trials"]
    assert [one["state"] for one in trials] == ["COMPLETED"] * 24, run.log()
    assert len({json.dumps(one["values"]) for one in trials}) == 24
    assert (found["best"]["values"], found["best"]["value"]) == ({"x": 2, "y": 3}, 0.5)
    events = [json.loads(line) for file in run.path.glob("search/journal/*.jsonl") for line in lines(file)]
    begins = {(event["n"], event["a"]): event for event in events if event["e"] == "begin"}
    ends = {(event["n"], event["a"]): event["t"] for event in events if event["e"] == "end"}
    held: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for key, begin in begins.items():
        for kind, name in (("cpus", begin["c"]), ("gpu", begin["g"])):
            held.setdefault((begin["h"], kind, name), []).append((begin["t"], ends.get(key, begin["t"])))
    assert len({host for host, _, _ in held}) >= nodes
    used = {name for _, kind, name in held if kind == "gpu"}
    assert used <= {"0", "1", "2", "3"}
    if not packed:
        assert len(used) == 4
        assert {name for _, kind, name in held if kind == "cpus"} == {"0-1", "2-3", "4-5", "6-7"}
    for times in (times for (_, kind, _), times in held.items() if not packed or kind == "gpu"):
        assert all(began >= ended for (_, ended), (began, _) in pairwise(sorted(times)))
    return found
