"""A node that Slurm gives up while its ranks live: no run is COMPLETED early, and no two starts train in one directory.

HPCLAUNCH_ROUNDS is how often each of these faults meets its runs (1).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.bed.conftest import INTERVAL, Bed, tell
from tests.faults.conftest import Faults
from tests.slurm.desk import Submitted, until
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(3600)
ROUNDS = int(os.environ.get("HPCLAUNCH_ROUNDS", "1"))
RUNS, STEPS, SAVED_EACH, HELD_AT = 20, 300, 20, 40
# A program without the library: it counts, and saves what it has.
COUNTS = f"""
import os, time
place = os.path.join(os.environ["HPCLAUNCH_CHECKPOINT_DIR"], "count")
count = int(open(place).read()) if os.path.exists(place) else 0
print("begun", os.environ["HPCLAUNCH_START"], "at", count, flush=True)
while count < {STEPS}:
    time.sleep(0.1)
    count += 1
    with open(os.environ["HPCLAUNCH_START_DIR"] + "/steps", "a") as file:
        file.write(str(count) + "\\n")
    if count % {SAVED_EACH} == 0:
        with open(place + os.environ["HPCLAUNCH_START"], "w") as file:
            file.write(str(count))
        os.replace(place + os.environ["HPCLAUNCH_START"], place)
    while count == {HELD_AT} and not os.path.exists(os.environ["HPCLAUNCH_RUN_DIR"] + "/go"):
        time.sleep(0.1)
"""


def claims(run: Submitted) -> list[str]:
    """The starts that have claimed the run directory, oldest first."""
    files = sorted((run.path / "claims").iterdir(), key=lambda file: int(file.name))
    return [file.read_text().split()[0] for file in files if " " in file.read_text()]


def marked_down(faults: Faults, nodes: set[str]) -> None:
    with as_root():  # the site's monitor is quicker than SlurmdTimeout
        faults.desk.slurm("scontrol", "update", f"nodename={','.join(sorted(nodes))}", "state=down", "reason=lost")


def nodes_of(faults: Faults, *runs: Submitted) -> set[str]:
    """The nodes of runs that have one each."""
    jobs = ",".join(run.job_id for run in runs)
    return set(faults.desk.slurm("squeue", "--noheader", f"--jobs={jobs}", "--format=%N").split())


@contextlib.contextmanager
def lost(
    faults: Faults, nodes: set[str], how: Callable[[str], contextlib.AbstractContextManager[None]]
) -> Iterator[None]:
    """Lose nodes, of which the ranks live; Slurm's controller has given them up."""
    with contextlib.ExitStack() as stack:
        for node in sorted(nodes):
            stack.enter_context(how(node))
        marked_down(faults, nodes)
        yield


def assert_proven(run: Submitted) -> None:
    """The last start alone has completed the run."""
    starts = claims(run)
    proven = [start for start in starts if (run.path / f"attempts/{start}/completed").exists()]
    assert proven == starts[-1:], (starts, proven, run.log()[-3000:])


def test_a_program_on_a_node_that_is_marked_down(faults: Faults) -> None:
    desk, began = faults.desk, time.monotonic()
    desk.job("counts", COUNTS, restarts=3)
    for _ in range(ROUNDS):
        runs = [desk.submit("counts", "--nodes", "1", "--tasks-per-node", "1") for _ in range(RUNS)]
        for run in runs:
            until(lambda run=run: (run.path / "checkpoints/count").exists(), f"{run.path} has saved", 300)
        nodes = nodes_of(faults, *runs)
        assert len(nodes) < 4, "some node is left"
        with lost(faults, nodes, faults.node_daemon_down):
            for run in runs:
                (run.path / "go").touch()
            for run in runs:
                done = desk.run("wait", str(run.path), "--timeout", "9m", seconds=600)
                assert done.returncode == 0, (done.stderr, run.log()[-3000:])
                assert (run.path / "checkpoints/count").read_text() == str(STEPS)
                assert len(claims(run)) == 2
                assert_proven(run)
    outcome = f"requeued by Slurm; {RUNS * ROUNDS} runs of {RUNS * ROUNDS} count to their end, none is COMPLETED before"
    tell("slurmd killed and its node marked DOWN, of a program without the library", outcome, "1", began)


def assert_each_epoch_once(run: Path) -> None:
    """Every epoch is in the lines that count once."""
    highest, epochs = 0, []
    for line in (run / "metrics.jsonl").read_text().splitlines() if (run / "metrics.jsonl").exists() else ():
        event = json.loads(line)
        highest = max(highest, event.get("start_number", 0))
        if event["event"] == "epoch" and event.get("start_number", highest) >= highest:
            epochs.append(event["epoch"])
    assert len(epochs) == len(set(epochs)), epochs


def test_a_node_that_is_cut_off_with_its_ranks_alive(bed: Bed) -> None:
    """They wait, and go on beside their next starts."""
    outcome = "the old ranks go on beside the new start, find its claim, and end; the new start's checkpoints stay"
    for _ in range(ROUNDS):
        pair = bed.start_held(5, nodes=1)
        with lost(bed.faults, nodes_of(bed.faults, *pair.values()), bed.faults.node_cut_off):
            for run in pair.values():
                until(lambda run=run: len(claims(run)) == 2, f"the next start of {run.path}: {run.log()[-2000:]}", 300)
            bed.go(pair)
            bed.judge("node cut off with its ranks alive", outcome, pair, by_old_ranks=2 * INTERVAL)
            for run in pair.values():
                assert_proven(run)
                assert_each_epoch_once(run.path)
