"""When ranks save together, and what a checkpoint of all ranks has: without a framework, on a clock of its own."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hpclaunch.training.checkpoints import folders, resuming, save_points
from hpclaunch.training.checkpoints.resuming import Place
from hpclaunch.training.checkpoints.save_points import SavePoints
from hpclaunch.training.checkpoints.state import NOTHING, State
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank import failure, stopping
from hpclaunch.training.rank.failure import AgreedError, RunAgain
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

USUAL = {"checkpoint_steps": 0, "checkpoint_minutes": 0.0, "keep_checkpoints": 2}
USUAL |= {"batch_size_per_rank": 8, "accumulation": 1}
"""Options of a training, as far as saving needs them."""


class Clocks:
    """A clock for each rank (a thread), which the test turns on; and which ranks were asked to stop."""

    def __init__(self) -> None:
        self._of_rank = threading.local()

    def monotonic(self) -> float:
        return float(getattr(self._of_rank, "now", 0.0))

    def turn_on(self, seconds: float) -> None:
        self._of_rank.now = self.monotonic() + seconds

    def ask_to_stop(self) -> None:
        self._of_rank.asked = True

    def state(self, world: World) -> tuple[bool, bool]:
        return getattr(self._of_rank, "asked", False), False


class Numbers(State):
    """In place of a model: one shared array, one of each rank, and one of which each rank of a copy has a row."""

    def __init__(self, rank: int) -> None:
        self.rank, self.value = rank, rank

    def unite(self) -> None:
        self.value = 7

    def statistics(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"statistic-000": np.zeros(1)}, {"statistic-001": np.full(1, self.rank)}

    def shared(self, common: Mapping[str, Any] = NOTHING, keep: bool = True) -> Iterator[tuple[str, Any]]:
        return iter([("weight-000", np.full(2, self.value)), *common.items()] if keep else [])

    def parts(self, common: Mapping[str, Any], keep: bool = True) -> Iterator[tuple[str, Any]]:
        return iter([("weight-001", np.full((1, 2), self.rank))] if keep else [])

    def part_facts(self, common: Mapping[str, Any]) -> dict[str, Any]:
        return {"parts": {"count": 2, "arrays": {"weight-001": {"shape": [2, 2], "axis": 0}}}}

    def own(self, metrics: bool) -> dict[str, Any]:
        return {"random-000": np.full(2, self.rank), "metrics": np.full(1, metrics)}

    def manifest(self) -> dict[str, Any]:
        return {"model": "numbers"}


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(save_points, "time", made)
    monkeypatch.setattr(stopping, "state", made.state)
    monkeypatch.delenv(resuming.FOLDER_VARIABLE, raising=False)
    return made


def points(world: World, made: int = 0, log: MetricsLog | None = None, **asked: Any) -> SavePoints:
    """Of a training that begins after `made` steps of earlier attempts; epochs of 10 steps."""
    options = SimpleNamespace(**{**USUAL, **asked})
    place = Place(made // 10, made % 10, made, data="digits")
    return SavePoints(world, Numbers(world.rank), options, 10, place, log or MetricsLog(None, False))


def agreements(tmp_path: Path, clocks: Clocks, seconds: Sequence[Sequence[float]], made: int = 0) -> list[list[int]]:
    """The steps after which each rank agreed with the others; `seconds`: of each step, by rank."""

    def train(world: World) -> list[int]:
        saving, looked = points(world, made), []
        look = saving.look
        saving.look = lambda step: (looked.append(step), look(step))[1]  # type: ignore[method-assign, func-returns-value]
        for step, duration in enumerate(seconds[world.rank], made + 1):
            clocks.turn_on(duration)
            assert saving.after_step(step) == (False, False)
        return looked

    return on_ranks(len(seconds), tmp_path, train)


@pytest.mark.parametrize(
    ("seconds", "steps", "agreed"),
    [
        pytest.param(0.125, 40, [1, 3, 7, 15, 23, 31, 39], id="about once a second"),
        pytest.param(2.0, 5, [1, 2, 3, 4, 5], id="after each long step"),
        pytest.param(0.5, 7, [1, 3, 5, 7], id="two steps are a second"),
        pytest.param(1e-5, 3100, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2023, 3023], id="at least in 1000 steps"),
        pytest.param(0.0, 15, [1, 3, 7, 15], id="a clock that stands"),
    ],
)
def test_ranks_agree_about_once_a_second(
    seconds: float, steps: int, agreed: list[int], tmp_path: Path, clocks: Clocks
) -> None:
    assert agreements(tmp_path, clocks, [[seconds] * steps]) == [agreed]
    later = agreements(tmp_path, clocks, [[seconds] * steps], made=40)
    assert later == [[40 + step for step in agreed]], "a later attempt begins in the same way"


def test_steps_that_slow_down_are_noticed_at_the_next_agreement(tmp_path: Path, clocks: Clocks) -> None:
    assert agreements(tmp_path, clocks, [[0.125] * 15 + [2.0] * 11]) == [[1, 3, 7, 15, 23, 24, 25, 26]]


def test_all_ranks_agree_at_the_same_steps_whatever_their_clocks_say(tmp_path: Path, clocks: Clocks) -> None:
    fast, slow = [0.125] * 40, [2.0] * 40
    first, second, third = agreements(tmp_path, clocks, [fast, slow, [0.0] * 40])
    assert first == second == third == [1, 3, 7, 15, 23, 31, 39], "those of rank 0"


@pytest.mark.parametrize(
    ("made", "steps", "every", "saved"),
    [(0, 13, 4, [4, 8, 12]), (6, 8, 4, [8, 12]), (8, 4, 4, [12]), (0, 3, 1, [1, 2, 3]), (0, 9, 0, [])],
)
def test_ranks_save_after_so_many_steps_of_all_attempts(
    made: int, steps: int, every: int, saved: list[int], tmp_path: Path, clocks: Clocks
) -> None:
    world = World(0, 1, 0, 1, "n1", "CPU", 1, str(tmp_path))
    saving = points(world, made, checkpoint_steps=every)
    found = []
    for step in range(made + 1, made + steps + 1):
        clocks.turn_on(0.001)  # most of them are saved without an agreement
        if saving.after_step(step) == (True, False):
            saving.save(Place(step // 10, step % 10, step), stop=False)
            found.append(step)
    assert found == saved


def test_an_earlier_save_moves_neither_the_next_step_nor_counts_twice(tmp_path: Path, clocks: Clocks) -> None:
    world = World(0, 1, 0, 1, "n1", "CPU", 1, str(tmp_path))
    saving = points(world, checkpoint_steps=4)
    saving.save(Place(0, 5, 5), stop=False)  # as at the end of an epoch
    assert [saving.after_step(step)[0] for step in (6, 7, 8)] == [False, False, True]


def test_the_minutes_between_checkpoints_are_those_of_rank_0(tmp_path: Path, clocks: Clocks) -> None:
    """On rank 0 a step takes 10 s, on the other 25 s. A checkpoint itself takes 20 s."""

    def train(world: World) -> list[int]:
        saving, found = points(world, checkpoint_minutes=1.0), []
        gather = world.gather
        for step in range(1, 20):
            clocks.turn_on(25.0 if world.rank else 10.0)
            if saving.after_step(step)[0]:
                clocks.turn_on(20.0)
                saving.save(Place(0, step, step), stop=False)
                found.append(step)
        assert gather(found) == [found, found]
        return found

    assert on_ranks(2, tmp_path, train)[0] == [6, 12, 18]


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_all_ranks_save_and_stop_at_one_step_whichever_was_asked(asked: int, tmp_path: Path, clocks: Clocks) -> None:
    def train(world: World) -> tuple[int, str, bool, int]:
        saving = points(world)
        for step in range(1, 20):
            clocks.turn_on(0.25)
            if world.rank == asked and step == 5:
                clocks.ask_to_stop()
            due, stop = saving.after_step(step)
            if due:
                with pytest.raises(RunAgain) as caught:
                    saving.save(Place(0, step, step), stop)
                return step, str(caught.value), caught.value.speaks, caught.value.exit_code
        raise AssertionError("no rank was stopped")

    path = tmp_path / "checkpoints/step-00000007"
    first, *others = on_ranks(3, tmp_path, train)
    assert first == (7, f"asked to stop; saved at epoch 1, step 7 of 10 in {path}", True, 75)
    assert [(step, speaks, code) for step, _, speaks, code in others] == [(7, False, 75)] * 2
    assert path.is_dir()


def save_once(world: World, log: MetricsLog | None = None, place: Place | None = None) -> None:
    saving = points(world, log=log, keep_checkpoints=2, epochs=9)
    saving.save(place or Place(1, 3, 13), stop=False, epochs={"best": None, "past": [0.5]})


def test_a_checkpoint_says_where_and_of_what_it_is(
    tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    turn, begin = clocks.turn_on, folders.begin
    monkeypatch.setattr(folders, "begin", lambda *words: (turn(1.50004), begin(*words))[1])
    log = tmp_path / "events.jsonl"

    def train(world: World) -> None:
        clocks.turn_on(100.0)
        save_once(world, MetricsLog(str(log) if world.is_root else None, False))

    on_ranks(3, tmp_path, train)
    path = tmp_path / "checkpoints/step-00000013"
    facts = folders.facts_of(str(path))
    known: Mapping[str, Any] = {
        name: facts[name] for name in ("epoch", "epoch_step", "step", "steps_per_epoch", "data")
    }
    assert known == {"epoch": 1, "epoch_step": 3, "step": 13, "steps_per_epoch": 10, "data": "digits"}
    assert (facts["world_size"], facts["replicas"], facts["copies"], facts["metrics_bytes"]) == (3, 3, 3, 3)
    assert (facts["model"], facts["epochs"]) == ("numbers", {"best": None, "past": [0.5]})
    assert (facts["options"]["keep_checkpoints"], facts["options"]["epochs"]) == (2, 9)
    names = ["rank-0000.npz", "shared.npz", "rank-0001.npz", "rank-0002.npz"]
    assert [file["name"] for file in facts["files"]] == names
    assert sorted(os.listdir(path)) == sorted([*names, "checkpoint.json"])
    for rank in range(3):
        own = folders.read(str(path), f"rank-000{rank}.npz")
        assert (own["random-000"].tolist(), own["statistic-001"].tolist()) == ([rank] * 2, [rank])
        assert own["metrics"].tolist() == [1], "within an epoch"
    shared = folders.read(str(path), "shared.npz")
    assert {name: array.tolist() for name, array in shared.items()} == {"weight-000": [7, 7], "statistic-000": [0]}
    (event,) = map(json.loads, log.read_text().splitlines())
    size = sum(file.stat().st_size for file in path.iterdir())
    assert (event["event"], event["step"], event["seconds"], event["bytes"]) == ("checkpoint", 13, 1.5, size)


def test_at_the_end_of_an_epoch_no_metrics_are_saved_and_old_checkpoints_go(tmp_path: Path, clocks: Clocks) -> None:
    for epoch in (1, 2, 3):
        on_ranks(1, tmp_path, lambda world, epoch=epoch: save_once(world, place=Place(epoch, 0, 10 * epoch)))
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["step-00000020", "step-00000030"]
    own = folders.read(str(tmp_path / "checkpoints/step-00000030"), "rank-0000.npz")
    assert own["metrics"].tolist() == [0]


def test_of_two_copies_that_two_ranks_share_the_first_writes_the_parts(tmp_path: Path, clocks: Clocks) -> None:
    def train(world: World) -> None:
        copy, part = divmod(world.rank, 2)
        mesh: Any = SimpleNamespace(part=part, data=2, data_index=copy, first_of_copy=2 * copy)
        save_once(replace(world, mesh=mesh))

    on_ranks(4, tmp_path, train)
    path = str(tmp_path / "checkpoints/step-00000013")
    facts = folders.facts_of(path)
    assert sorted(file["name"] for file in facts["files"]) == [
        *("part-0000.npz", "part-0001.npz", "rank-0000.npz", "rank-0001.npz", "shared.npz")
    ]
    assert (facts["copies"], facts["world_size"]) == (2, 4)
    assert facts["parts"] == Numbers(0).part_facts({})["parts"]
    rows = [folders.read(path, f"part-000{part}.npz")["weight-001"].tolist() for part in (0, 1)]
    assert rows == [[[0, 0]], [[1, 1]]]
    assert folders.read(path, "rank-0001.npz")["random-000"].tolist() == [2, 2], "the first rank of the second copy"


@pytest.mark.parametrize(("where", "rank"), [("begin", 0), ("write", 0), ("write", 1), ("commit", 0)])
def test_if_any_rank_cannot_save_all_end_with_one_error_and_the_last_checkpoint_stays(
    where: str, rank: int, tmp_path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_ranks(2, tmp_path, save_once)
    of_rank, done = threading.local(), getattr(folders, where)

    def fail(*words: Any, **more: Any) -> Any:
        if of_rank.number == rank:
            raise failure.TrainingError("the disk is full")
        return done(*words, **more)

    def train(world: World) -> None:
        of_rank.number = world.rank
        save_once(world, place=Place(2, 0, 20))

    monkeypatch.setattr(folders, where, fail)
    first, second = on_ranks(2, tmp_path, train)
    assert isinstance(first, AgreedError) and isinstance(second, AgreedError)
    assert str(first) == str(second) == f"1 of 2 ranks, first rank {rank}: the disk is full"
    assert (first.speaks, second.speaks) == (True, False)
    assert os.listdir(tmp_path / "checkpoints") == ["step-00000013"]
    monkeypatch.setattr(folders, where, done)
    path = str(tmp_path / "checkpoints/step-00000013")
    assert folders.problem(path, [file["name"] for file in folders.facts_of(path)["files"]]) == ""
