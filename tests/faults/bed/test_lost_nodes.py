"""A node that Slurm gives up while its ranks live: no run is COMPLETED early, and no two starts train in one directory.

Each of these faults meets its runs HPCLAUNCH_ROUNDS times.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.bed.conftest import INTERVAL, RANKS, ROUNDS, Bed, tell
from tests.faults.conftest import Faults
from tests.slurm.desk import Submitted, until
from tests.slurm.users import as_root

pytestmark = pytest.mark.timeout(3000 + 600 * ROUNDS)
RUNS, STEPS, SAVED_EACH, HELD_AT = 20, 300, 20, 40
EPOCHS = 40
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
    files = sorted((run.path / "claims").glob("[0-9]*"), key=lambda file: int(file.name))  # beside drafts
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


def losses(run: Path) -> list[tuple[int, float]]:
    """(epoch, loss) of the lines that count."""
    highest, found = 0, []
    for line in (run / "metrics.jsonl").read_text().splitlines() if (run / "metrics.jsonl").exists() else ():
        event = json.loads(line)
        highest = max(highest, event.get("start_number", 0))
        if event["event"] == "epoch" and event.get("start_number", highest) >= highest:
            found.append((event["epoch"], event["loss"]))
    return found


def assert_each_epoch_once(run: Path) -> None:
    """Every epoch is in the lines that count once."""
    epochs = [epoch for epoch, _ in losses(run)]
    assert len(epochs) == len(set(epochs)), epochs


def disturbed(
    bed: Bed, how: Callable[[str], contextlib.AbstractContextManager[None]], fault: str, outcome: str
) -> None:
    """Lose the nodes of two trainings that wait; their ranks live, and go on beside their next starts."""
    for _ in range(ROUNDS):
        pair = bed.start_held(5, nodes=1)
        with lost(bed.faults, nodes_of(bed.faults, *pair.values()), how):
            for run in pair.values():
                until(lambda run=run: len(claims(run)) == 2, f"the next start of {run.path}: {run.log()[-2000:]}", 300)
            bed.go(pair)
            told = f"{outcome}; {ROUNDS} of {ROUNDS} pairs, {len(RANKS) * ROUNDS} trainings"
            bed.judge(fault, told, pair, by_old_ranks=2 * INTERVAL)
            for run in pair.values():
                assert_proven(run)
                assert_each_epoch_once(run.path)


def test_a_training_on_a_node_that_is_marked_down(bed: Bed) -> None:
    outcome = "requeued by Slurm; the old ranks end beside the new start, whose step Slurm does not take for theirs"
    disturbed(bed, bed.faults.node_daemon_down, "slurmd killed and its node marked DOWN", outcome)


def test_a_node_that_is_cut_off_with_its_ranks_alive(bed: Bed) -> None:
    outcome = "the old ranks go on beside the new start, find its claim, and end; the new start's checkpoints stay"
    disturbed(bed, bed.faults.node_cut_off, "node cut off with its ranks alive", outcome)


def test_the_bundled_cifar_on_a_node_that_is_marked_down(faults: Faults) -> None:
    """As somebody types it, without a hand in its program."""
    desk, began = faults.desk, time.monotonic()
    settings = (f"--set=epochs={EPOCHS}", "--set=synthetic_samples=256", "--set=batch_size_per_rank=32")
    exact = ("TF_DETERMINISTIC_OPS=1", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=-1")
    variables = [word for one in exact for word in ("--env", one)]
    shape = ("--nodes", "1", "--tasks-per-node", "1", "--restarts", "3", "--walltime", "20m")
    typed = ("cifar", "--synthetic", *shape, *settings, *variables)
    undisturbed = desk.submit(*typed)
    assert desk.run("wait", str(undisturbed.path), "--timeout", "9m", seconds=600).returncode == 0, undisturbed.log()
    for _ in range(ROUNDS):
        run = desk.submit(*typed)
        until(lambda run=run: len(losses(run.path)) >= 2, f"two epochs: {run.log()[-2000:]}", 300)
        with lost(faults, nodes_of(faults, run), faults.node_daemon_down):
            done = desk.run("wait", str(run.path), "--timeout", "9m", seconds=600)
            assert done.returncode == 0, (done.stderr, run.log()[-3000:])
            assert len(claims(run)) == 2
            assert_proven(run)
            assert_each_epoch_once(run.path)
            assert losses(run.path) == losses(undisturbed.path)
    outcome = f"requeued by Slurm; {ROUNDS} of {ROUNDS} train {EPOCHS} epochs, with the undisturbed losses"
    tell("slurmd killed and its node marked DOWN, of the bundled cifar", outcome, "1", began)
