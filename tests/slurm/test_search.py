"""A search on a real Slurm: trials packed on nodes with CPUs and GPUs of their own, and killed ones tried again."""

from __future__ import annotations

import pytest

from tests.slurm.desk import Desk, Submitted, until
from tests.slurm.searches import checked, hosts, lines, results, searched, with_bowl

pytestmark = pytest.mark.timeout(900)
WAIT_S = 600


def test_trials_are_packed_on_the_nodes_and_killed_ones_are_tried_again(desk: Desk) -> None:
    gate = desk.folder / "open"
    run = searched(with_bowl(desk), "--nodes", "2", "--trials-at-once", "8", "--set", f"gate={gate}")
    until(lambda: len(hosts(run)) == 2, "both nodes have trials", WAIT_S)
    gate.touch()
    waited = desk.run("wait", run.path.name, seconds=WAIT_S)
    assert waited.returncode == 0, waited.stderr + run.log()
    found = checked(desk, run, nodes=2)
    attempts = {tuple(one["values"].values()): one["attempts"] for one in found["trials"]}
    assert {values for values, number in attempts.items() if number > 1} == {(1, 1), (3, 0)}
    starts = [line.split() for file in run.path.glob("trials/*/*/starts") for line in lines(file)]
    assert {gpu for gpu, _ in starts} == {"0", "1", "2", "3"}
    assert {rank for _, rank in starts} == {"none"}, "a trial must not take the worker's place for its own"


def test_where_nodes_are_shared_slurm_packs_small_jobs_of_one_array_which_is_cancelled_and_resumed(desk: Desk) -> None:
    gate = desk.folder / "opened"
    run = searched(with_bowl(desk), "--trials-at-once", "8", "--set", f"gate={gate}")
    assert "#SBATCH --array=0-7" in (run.path / "job.sh").read_text()
    until(lambda: completed(desk, run) >= 4, "four trials have ended", WAIT_S)
    assert desk.run("search", "cancel", run.path.name).returncode == 0
    desk.run("wait", run.path.name, seconds=WAIT_S)
    before = completed(desk, run)
    assert before == 4, "the others wait at the gate"
    gate.touch()
    resumed = desk.run("search", "resume", run.path.name)
    assert resumed.returncode == 0, resumed.stderr
    waited = desk.run("wait", run.path.name, seconds=WAIT_S)
    assert waited.returncode == 0, waited.stderr
    found = checked(desk, run, nodes=1, packed=True)
    assert [one["attempts"] for one in found["trials"][:4]] == [1] * 4, "finished trials were made again"


def completed(desk: Desk, run: Submitted) -> int:
    return sum(one["state"] == "COMPLETED" for one in results(desk, run)["trials"])
