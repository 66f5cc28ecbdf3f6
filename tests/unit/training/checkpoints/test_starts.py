"""Checkpoints of several starts in one folder: which is the newest, which count, and which may be removed."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
from pathlib import Path
from typing import Any

from hpclaunch.training.checkpoints import folders, resuming
from hpclaunch.training.checkpoints.folders import Lineage
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.checkpoints.test_restoring import STEPS, Given, facts
from tests.unit.training.optimization.test_learning_rate import asked
from tests.unit.training.several_ranks import on_ranks


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(resuming.FOLDER_VARIABLE, raising=False)
    return tmp_path / "checkpoints"


def save(folder: Path, step: int, lineage: Lineage, keep: int = 2, best: int = 0) -> Path:
    partial = folders.begin(str(folder), step, lineage.start)
    files = [folders.write(partial, folders.SHARED, {"weight-000": np.full(3, step)}.items())]
    files.append(folders.write(partial, folders.own_file(0), {"statistic-000": np.zeros(2)}.items()))
    epochs = {"best": {"metric": "loss", "value": 1.0, "epoch": 1, "step": best}} if best else None
    epochs = {**epochs, "rate_factor": 1.0, "stopped": False, "callbacks": []} if epochs else None
    return Path(folders.commit(partial, step, files, facts(1, epochs=epochs), keep, lineage))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def restored(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: int, *options: str, data: str = ""
) -> resuming.Place:
    """The place where a start of this number continues."""
    monkeypatch.setenv("HPCLAUNCH_START", str(start) if start else "")

    def restore(world: World) -> Any:
        log = MetricsLog(None, False)
        return resuming.restore(world, Given(), asked(*options), STEPS, log, data)  # type: ignore[arg-type]

    (place,) = on_ranks(1, folder.parent, restore)
    if isinstance(place, AgreedError):
        raise place
    return place  # type: ignore[no-any-return]


FIRST = Lineage(1)
SECOND = Lineage(2, {1: 26})


def test_the_newest_start_comes_first_whatever_the_steps(folder: Path) -> None:
    order = [(10, 5), (2, 30), (1, 99), (1, 26), (0, 400)]
    for start, step in sorted(order):
        Path(folders.path_of(str(folder), step, start)).mkdir(parents=True)
    assert [folders.order_of(path) for path in folders.existing(str(folder))] == order


def test_two_starts_never_write_to_the_same_names(folder: Path) -> None:
    paths = {folders.begin(str(folder), 13, start) for start in (0, 1, 2)}
    paths |= {str(save(folder, 26, lineage, keep=9)) for lineage in (FIRST, SECOND)}
    assert len(paths) == 5


def test_pruning_spares_the_checkpoints_of_a_later_start(folder: Path) -> None:
    save(folder, 20, SECOND, keep=9)
    for step in (13, 26, 39, 52):
        save(folder, step, FIRST, keep=1)
    assert names(folder) == ["step-00000020-start-2", "step-00000052-start-1"]


def test_pruning_counts_and_removes_those_of_earlier_starts(folder: Path) -> None:
    for step in (13, 26):
        save(folder, step, FIRST)
    save(folder, 30, SECOND)
    assert names(folder) == ["step-00000026-start-1", "step-00000030-start-2"]
    save(folder, 31, SECOND)
    assert names(folder) == ["step-00000030-start-2", "step-00000031-start-2"]


def test_a_late_checkpoint_is_named_once_and_neither_counts_nor_pushes_another_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(folder, 26, FIRST)
    save(folder, 30, SECOND)
    save(folder, 39, FIRST, keep=9)  # by a superseded start
    save(folder, 31, SECOND)
    assert names(folder) == ["step-00000030-start-2", "step-00000031-start-2", "unused-step-00000039-start-1"]
    said = capsys.readouterr().out
    assert "step-00000039-start-1 is not used: start 1 completed it after a later start had taken the run over" in said
    save(folder, 32, SECOND)
    assert capsys.readouterr().out == ""


def test_what_earlier_starts_have_begun_is_removed_but_not_what_a_later_one_writes(folder: Path) -> None:
    for step, start in ((26, 0), (39, 1), (40, 2), (41, 3)):
        folders.begin(str(folder), step, start)
    save(folder, 30, SECOND)
    assert names(folder) == [".partial-00000041-start-3", "step-00000030-start-2"]


def test_the_best_epoch_is_spared_also_if_an_earlier_start_saved_it(folder: Path) -> None:
    save(folder, 13, FIRST, keep=1, best=13)
    save(folder, 26, FIRST, keep=1, best=13)
    save(folder, 39, SECOND, keep=1, best=13)
    save(folder, 52, SECOND, keep=1, best=13)
    assert names(folder) == ["step-00000013-start-1", "step-00000052-start-2"]
    save(folder, 65, SECOND, keep=1, best=52)
    assert names(folder) == ["step-00000052-start-2", "step-00000065-start-2"]
    save(folder, 78, SECOND, keep=1)
    assert names(folder) == ["step-00000078-start-2"]


def test_the_best_of_two_equal_steps_is_that_of_the_lineage(folder: Path) -> None:
    save(folder, 26, FIRST, keep=9)
    save(folder, 39, SECOND, keep=9)
    save(folder, 39, FIRST, keep=9)  # late
    save(folder, 52, SECOND, keep=1, best=39)
    assert names(folder) == ["step-00000039-start-2", "step-00000052-start-2", "unused-step-00000039-start-1"]


def test_a_late_checkpoint_does_not_stand_in_for_the_best_one_that_is_missing(folder: Path) -> None:
    save(folder, 26, FIRST, keep=9)
    save(folder, 52, SECOND, keep=9)
    late = save(folder, 39, FIRST, keep=9)
    assert resuming._path_of_step(str(folder), 39, SECOND) == folders.path_of(str(folder), 39, 2) != str(late)
    assert resuming._path_of_step(str(folder), 26, SECOND) == folders.path_of(str(folder), 26, 1)


def test_a_start_continues_from_the_newest_start_and_remembers_where(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(folder, 26, FIRST)
    second = restored(folder, monkeypatch, 2)
    assert (second.made, second.lineage) == (26, SECOND)
    save(folder, 30, second.lineage)
    save(folder, 39, FIRST, keep=9)  # late: more steps, and an older start
    third = restored(folder, monkeypatch, 3)
    assert (third.made, third.lineage) == (30, Lineage(3, {1: 26, 2: 30}))
    assert "unused-step-00000039-start-1" in names(folder)
    assert "start 1 completed it" in capsys.readouterr().out
    # Of three starts, the lineage is in the manifest of the last.
    path = save(folder, 40, third.lineage)
    assert json.loads((path / folders.MANIFEST).read_text())["earlier_starts"] == {"1": 26, "2": 30}
    assert restored(folder, monkeypatch, 3).lineage == third.lineage  # the same start, again
    assert restored(folder, monkeypatch, 4).lineage == Lineage(4, {1: 26, 2: 30, 3: 40})


def test_the_next_checkpoint_names_the_data_of_now(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a training that was continued with other data would never be told so again."""
    assert restored(folder, monkeypatch, 1, data="of now").data == "of now"
    save(folder, 26, FIRST)
    assert restored(folder, monkeypatch, 2, data="of now").data == "of now"


def test_a_late_checkpoint_is_no_way_back_from_a_damaged_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder, 26, FIRST)
    damaged = save(folder, 30, SECOND)
    (damaged / folders.SHARED).write_bytes(b"")
    assert restored(folder, monkeypatch, 3).lineage == Lineage(3, {1: 26})


def test_checkpoints_of_older_versions_are_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(folder, 26, Lineage())
    manifest = json.loads((path / folders.MANIFEST).read_text())
    del manifest["earlier_starts"]
    (path / folders.MANIFEST).write_text(folders.manifest_text(manifest))
    assert path.name == "step-00000026"
    place = restored(folder, monkeypatch, 2)
    assert (place.made, place.lineage) == (26, Lineage(2, {0: 26}))


@pytest.mark.parametrize("start", [0, 1])
def test_a_start_with_a_lower_number_continues_that_of_the_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    """It has no script, or somebody has removed the claims: the steps decide, as within one start."""
    save(folder, 26, FIRST)
    save(folder, 30, SECOND)
    place = restored(folder, monkeypatch, start)
    assert (place.made, place.lineage) == (30, SECOND)
    save(folder, 31, place.lineage, keep=1)
    assert names(folder) == ["step-00000031-start-2"]


@pytest.mark.parametrize("start", [0, 3])
def test_a_training_from_the_beginning_has_no_earlier_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    assert restored(folder, monkeypatch, start).lineage == Lineage(start)
    save(folder, 30, SECOND)
    assert restored(folder, monkeypatch, start, "--resume=false").lineage == Lineage(start)
    assert names(folder) == ["unused-step-00000030-start-2"]


@pytest.mark.parametrize("start", [1, 2])
def test_the_best_epoch_of_any_start_is_restored(folder: Path, monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    save(folder, 26, FIRST, keep=9)
    save(folder, 39, SECOND, keep=9)
    state, step = Given(), 26 if start == 1 else 39

    def restore(world: World, step: int) -> None:
        resuming.restore_step(world, state, step, SECOND)  # type: ignore[arg-type]

    on_ranks(1, folder.parent, lambda world: restore(world, step))
    assert state.all["weight-000"][0] == step
    (error,) = on_ranks(1, folder.parent, lambda world: restore(world, 40))
    assert "the best checkpoint" in str(error) and "step-00000040-start-2" in str(error)


@pytest.mark.parametrize(
    "earlier", [[], {"1": -1}, {"1": True}, {"one": 3}, {"1": 2**53}, {"1" * 10: 3}, {"²": 3}, "1", None]
)
def test_a_manifest_with_other_earlier_starts_is_damaged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, earlier: Any
) -> None:
    save(folder, 13, FIRST, keep=9)
    path = save(folder, 26, FIRST, keep=9)
    manifest = json.loads((path / folders.MANIFEST).read_text())
    (path / folders.MANIFEST).write_text(folders.manifest_text({**manifest, "earlier_starts": earlier}))
    assert restored(folder, monkeypatch, 2).made == 13


def test_a_name_that_is_none_of_a_checkpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the name of a checkpoint"):
        folders.order_of("checkpoints/step-00000030-start-0")
