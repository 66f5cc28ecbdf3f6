"""A search on a real Slurm: trials packed on nodes with CPUs and GPUs of their own, and killed ones tried again."""

from __future__ import annotations

import pytest

from tests.slurm.desk import Desk
from tests.slurm.searches import checked, lines, searched, with_bowl

pytestmark = pytest.mark.timeout(900)
WAIT_S = 600


def test_trials_are_packed_on_the_nodes_and_killed_ones_are_tried_again(desk: Desk) -> None:
    run = searched(with_bowl(desk), "--nodes", "2", "--trials-at-once", "8")
    waited = desk.run("wait", run.path.name, seconds=WAIT_S)
    assert waited.returncode == 0, waited.stderr + run.log()
    found = checked(desk, run, nodes=2)
    attempts = {tuple(one["values"].values()): one["attempts"] for one in found["trials"]}
    assert {values for values, number in attempts.items() if number > 1} == {(1, 1), (3, 0)}
    starts = [line.split() for file in run.path.glob("trials/*/*/starts") for line in lines(file)]
    assert {gpu for gpu, _ in starts} == {"0", "1", "2", "3"}
    assert {rank for _, rank in starts} == {"none"}, "a trial must not take the worker's place for its own"
