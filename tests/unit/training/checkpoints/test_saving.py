"""How ranks save: what each reads and writes in which order, and under which number of a start."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

try:
    import numpy as np

    from hpclaunch.training.checkpoints import folders, save_points, saving, writing
    from hpclaunch.training.checkpoints.resuming import Place
    from hpclaunch.training.checkpoints.state import State
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank import stopping
from hpclaunch.training.rank.failure import RunAgain, Superseded, TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.disk_calls import disk_calls

PARTS = {"parts": {"count": 2, "arrays": {"weight-000": {"shape": [4], "axis": 0}}}}
MESH = [SimpleNamespace(part=0), SimpleNamespace(part=1)]
WORLDS = {
    "root": {"is_root": True, "leads_copy": True, "data_rank": 0, "mesh": MESH[0]},
    "second part": {"is_root": False, "leads_copy": False, "data_rank": 0, "mesh": MESH[1]},
    "second copy": {"is_root": False, "leads_copy": True, "data_rank": 1, "mesh": MESH[0]},
    "its second part": {"is_root": False, "leads_copy": False, "data_rank": 1, "mesh": MESH[1]},
}
WRITTEN = {
    "root": {"rank-0000.npz", "shared.npz", "part-0000.npz"},
    "second part": {"part-0001.npz"},
    "second copy": {"rank-0001.npz"},
    "its second part": set(),
}


def arrays(read: list[str]) -> Any:
    """Own, shared and parts of a rank; `read` gets what is read, in its order. None is kept when the next is read."""
    made: list[weakref.ref[Any]] = []

    def of(kind: str) -> Iterator[tuple[str, Any]]:
        for number in range(2):
            read.append(f"{kind}-{number}")
            array = np.zeros(2)
            assert sum(one() is not None for one in made) <= 1, "one that is being written"
            made.append(weakref.ref(array))
            yield read[-1], array

    return of("own"), of("shared"), of("part")


@pytest.mark.parametrize("role", WORLDS)
def test_every_rank_reads_what_is_shared_before_its_parts(role: str, tmp_path: Path) -> None:
    read: list[str] = []
    partial = folders.begin(str(tmp_path), 1)
    files = writing._write(SimpleNamespace(**WORLDS[role]), partial, arrays(read), PARTS)
    assert {file["name"] for file in files} == WRITTEN[role]
    assert [name for name in read if not name.startswith("own")] == ["shared-0", "shared-1", "part-0", "part-1"]


@pytest.mark.parametrize("role", [role for role, files in WRITTEN.items() if files])
def test_a_rank_that_cannot_write_reads_the_rest_too(role: str, tmp_path: Path) -> None:
    read: list[str] = []
    with pytest.raises(TrainingError, match="cannot write the checkpoint"):
        writing._write(SimpleNamespace(**WORLDS[role]), str(tmp_path / "missing"), arrays(read), PARTS)
    assert [name for name in read if not name.startswith("own")] == ["shared-0", "shared-1", "part-0", "part-1"]


class OneArray(State):
    """In place of the state of a model."""

    everywhere = False

    def own(self, metrics: bool) -> dict[str, Any]:
        return {"random-000": np.zeros(2)}

    def shared(self, common: Any = None, keep: bool = True) -> Iterator[tuple[str, Any]]:
        return iter([("weight-000", np.zeros(2))])

    def put_shared(self, arrays: dict[str, Any]) -> None:
        raise NotImplementedError

    put_own = put_shared

    def put_new_random(self, made: int) -> None:
        raise NotImplementedError


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> saving.Saving:
    """The saving of start 2 of a run, which has continued from step 8 of start 1; 9 epochs of 4 steps."""
    return second_start(tmp_path, monkeypatch, Place(2, 0, 8, lineage=folders.Lineage(2, {1: 8})))


def second_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Place, **options: Any) -> saving.Saving:
    import tensorflow as tf

    (tmp_path / "claims").mkdir()
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    for name, value in (("HPCLAUNCH_RUN_DIR", str(tmp_path)), ("HPCLAUNCH_START", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stopping, "LOOK_S", 0.0)
    monkeypatch.setattr(save_points, "LOOK_S", 0.0)
    world = World(0, 1, 0, 1, "n1", "CPU", 1, str(tmp_path))
    usual = {"checkpoint_steps": 0, "checkpoint_minutes": 0.0, "keep_checkpoints": 2, "epochs": 9}
    usual |= {"batch_size_per_rank": 8, "accumulation": 1}
    asked = SimpleNamespace(**{**usual, **options})
    made = saving.Saving(world, OneArray(), asked, 4, place, MetricsLog(None, False))
    made.set_model(tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)]))
    made.on_epoch_begin(place.epoch)
    return made


def test_a_start_saves_under_its_own_number_with_its_lineage(second: saving.Saving, tmp_path: Path) -> None:
    for batch in range(4):
        second.on_train_batch_end(batch, {"loss": 1.0})
    second.on_epoch_end(2, {"loss": 1.0})
    path = tmp_path / "checkpoints" / "step-00000012-start-2"
    facts = folders.facts_of(str(path))
    assert (facts["earlier_starts"], facts["metrics_bytes"]) == ({"1": 8}, 3)


def test_the_lines_that_it_continues_are_on_the_disk_before_the_checkpoint(
    second: saving.Saving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = disk_calls(monkeypatch)
    second.on_epoch_end(2, {"loss": 1.0})
    assert calls[0] == f"fsync {tmp_path / 'metrics.jsonl'}" and calls[-2].startswith("rename ")


def test_ranks_of_a_superseded_start_end_within_an_epoch(second: saving.Saving, tmp_path: Path) -> None:
    second.on_train_batch_end(0, {"loss": 1.0})
    (tmp_path / "claims" / "3").touch()
    with pytest.raises(Superseded):
        second.on_train_batch_end(1, {"loss": 1.0})
    assert not (tmp_path / "checkpoints").exists()


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "checkpoints").iterdir())


def test_a_start_within_an_epoch_goes_on_counting_and_saves_its_end_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(2, 1, 9, lineage=folders.Lineage(2, {1: 9}))
    made = second_start(tmp_path, monkeypatch, place, checkpoint_steps=1, keep_checkpoints=9)
    for epoch, batches in ((2, (1, 2, 3)), (3, (0, 1))):
        made.on_epoch_begin(epoch)
        for batch in batches:
            made.on_train_batch_end(batch, {"loss": 1.0})
        if epoch == 2:
            assert names(tmp_path) == [f"step-{step:08}-start-2" for step in (10, 11)], "its last step is its end"
            made.on_epoch_end(2, {"loss": 1.0})
    assert names(tmp_path) == [f"step-{step:08}-start-2" for step in range(10, 15)]
    places = [folders.facts_of(str(tmp_path / "checkpoints" / name)) for name in names(tmp_path)]
    assert [(facts["epoch"], facts["epoch_step"]) for facts in places] == [(2, 2), (2, 3), (3, 0), (3, 1), (3, 2)]


@pytest.mark.parametrize(("epochs", "enough", "goes_on"), [(9, False, True), (3, False, False), (9, True, False)])
def test_a_training_that_is_done_is_not_started_again(
    second: saving.Saving, epochs: int, enough: bool, goes_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked to stop at the end of its third epoch: of `epochs`, or the last one because its result is good."""
    monkeypatch.setattr(stopping, "_asked", [15])
    second._epochs, second.model.stop_training = epochs, enough
    if goes_on:
        with pytest.raises(RunAgain):
            second.on_epoch_end(2, {"loss": 1.0})
    else:
        second.on_epoch_end(2, {"loss": 1.0})
    assert len(names(tmp_path)) == 1, "saved in any case"


def test_what_is_not_finite_is_never_saved(second: saving.Saving, tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        second.on_epoch_end(2, {"loss": float("nan")})
    assert not (tmp_path / "checkpoints").exists()
