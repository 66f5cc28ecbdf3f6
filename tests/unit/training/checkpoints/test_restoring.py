"""How ranks restore together: which files they open, and which checkpoint they take when one cannot be used."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpclaunch.training.checkpoints import folders, resuming
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.input import shards
from hpclaunch.training.input.epoch_order import Part, Sampler
from hpclaunch.training.metrics import MetricsLog
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.optimization.test_learning_rate import asked
from tests.unit.training.several_ranks import on_ranks

STEPS = 10
opened: list[str] = []
sys.addaudithook(lambda event, about: opened.append(str(about[0])) if event == "open" else None)


class Given(State):
    """In place of a model's state: what a rank was given."""

    everywhere = False

    def __init__(self) -> None:
        self.all: dict[str, Any] = {}
        self.of_ranks: list[float] = []
        self.alone: dict[str, Any] = {}
        self.made = -1

    def shared(self, common: Any = None, keep: bool = True) -> Iterator[tuple[str, Any]]:
        return iter(self.all.items())

    def own(self, metrics: bool) -> dict[str, Any]:
        return self.alone

    def put_shared(self, arrays: dict[str, Any]) -> None:
        self.all = arrays

    def put_average(self, several: Iterable[dict[str, Any]]) -> None:
        self.of_ranks = [float(arrays["statistic-000"][0]) for arrays in several]

    def put_own(self, arrays: dict[str, Any]) -> None:
        self.alone = arrays

    def put_new_random(self, made: int) -> None:
        self.made = made


def facts(ranks: int, **others: Any) -> dict[str, Any]:
    about = {"epoch": 1, "epoch_step": 4, "steps_per_epoch": STEPS, "metrics_bytes": 0, "world_size": ranks}
    return {**about, "replicas": ranks, "options": vars(asked()), "data": "", **others}


def save(folder: Path, step: int, ranks: int, **others: Any) -> Path:
    partial = folders.begin(str(folder), step)
    files = [folders.write(partial, folders.SHARED, {"weight-000": np.full(3, step)}.items())]
    for rank in range(ranks):
        files.append(folders.write(partial, folders.own_file(rank), {"statistic-000": np.full(2, float(rank))}.items()))
    return Path(folders.commit(partial, step, files, facts(ranks, **others), keep=9))


def restored(run_dir: Path, size: int) -> tuple[list[Any], list[Given]]:
    """The place (or error) of every rank, and its state."""
    states = [Given() for _ in range(size)]

    def restore(world: World) -> Any:
        return resuming.restore(world, states[world.rank], asked(), STEPS, MetricsLog(None, False))  # type: ignore[arg-type]

    return on_ranks(size, run_dir, restore), states


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(resuming.FOLDER_VARIABLE, raising=False)
    return tmp_path / "checkpoints"


@pytest.mark.parametrize(("before", "now"), [(64, 48), (3, 5), (4, 4), (4, 1)])
def test_a_restore_opens_each_file_at_most_twice(folder: Path, before: int, now: int) -> None:
    path = save(folder, 14, before)
    opened.clear()
    places, states = restored(folder.parent, now)
    times = Counter(Path(name).name for name in opened if name.startswith(str(path)))
    assert [place.step for place in places] == [4] * now, places
    assert set(times) == {folders.SHARED, folders.MANIFEST, *map(folders.own_file, range(before))}
    assert max(times.values()) <= 2
    if before == now:
        assert [state.alone["statistic-000"][0] for state in states] == list(range(now))
    else:
        assert states[0].of_ranks == list(range(before))
        assert [state.made for state in states] == [14] * now


SAMPLES, BATCH = 132, 8


def continued(run_dir: Path, size: int) -> tuple[list[resuming.Place], list[int]]:
    """The place of each rank, and every sample that the ranks read from there to the end of the epoch."""

    def restore(world: World) -> Any:
        sampler = Sampler(shards.shuffled(SAMPLES, 1), 1, world.size, BATCH)
        given = (asked(f"--batch-size-per-rank={BATCH}"), sampler.steps, MetricsLog(None, False), "", sampler)
        place = resuming.restore(world, Given(), *given)  # type: ignore[arg-type]
        rest = sampler.rest(place.epoch, world.rank)
        if rest is None:
            order = sampler.places(place.epoch, world.rank)
            rest = sampler.held(world.rank).indices[order[place.step * BATCH :]]
        return place, [int(sample) for sample in rest]

    ranks = on_ranks(size, run_dir, restore)
    return [place for place, _ in ranks], [sample for _, rest in ranks for sample in rest]


@pytest.mark.parametrize("now", [1, 2, 3, 5])
def test_after_a_restore_the_ranks_read_exactly_what_was_left_of_the_epoch(folder: Path, now: int) -> None:
    """Two ranks have read four batches each."""
    sampler, order = Sampler(shards.shuffled(SAMPLES, 1), 1, 2, BATCH), shards.shuffled(SAMPLES, 1)
    own = [sampler.held(rank).indices[sampler.places(1, rank)][: 4 * BATCH] for rank in (0, 1)]
    before = {int(sample) for one in own for sample in one}
    save(folder, 14, 2, steps_per_epoch=sampler.steps, epoch_parts=[[2, 4 * BATCH]])
    places, rest = continued(folder.parent, now)
    assert {(place.epoch, place.parts) for place in places} == {(1, (Part(2, 4 * BATCH),))}
    assert len({place.step for place in places}) == 1
    assert set(rest) == set(order.tolist()) - before
    assert len(rest) - len(set(rest)) < max(now, 2), "to give all ranks as many"


@pytest.mark.parametrize(("now", "step"), [(2, 4), (1, 7), (4, 2)])
def test_where_it_is_not_known_what_was_read_training_goes_on_at_the_same_part_of_the_epoch(
    folder: Path, now: int, step: int
) -> None:
    save(folder, 14, 2, steps_per_epoch=9)
    places, _ = continued(folder.parent, now)
    assert {(place.step, place.parts) for place in places} == {(step, (Part(now, step * BATCH),))}


def test_as_many_ranks_that_shared_one_model_leave_a_sound_checkpoint_for_ranks_with_a_model_each(folder: Path) -> None:
    """Those had one file of their own for all of them."""
    path = save(folder, 14, 1)
    manifest = json.loads((path / folders.MANIFEST).read_text())
    of_two = {**manifest, "world_size": 2, "replicas": 1, "copies": 1}
    (path / folders.MANIFEST).write_text(folders.manifest_text(of_two))
    places, states = restored(folder.parent, 2)
    assert [place.step for place in places] == [4, 4], places
    assert [(state.of_ranks, state.made) for state in states] == [([0.0], 14), ([], 14)]


@pytest.mark.parametrize(("before", "now"), [(7, 3), (3, 3), (2, 5)])
def test_damage_of_any_file_is_found_and_the_checkpoint_before_is_taken(
    folder: Path, before: int, now: int, capsys: pytest.CaptureFixture[str]
) -> None:
    good = save(folder, 14, before)
    for harmed in (folders.SHARED, *map(folders.own_file, range(before))):
        newer = save(folder, 20, before)
        (newer / harmed).write_bytes(b"x" * (newer / harmed).stat().st_size)
        places, _ = restored(folder.parent, now)
        assert {getattr(place, "path", place) for place in places} == {str(good)}
        assert f"{harmed} has changed since it was written" in capsys.readouterr().out


MANIFESTS = {
    "an unknown format": {"format": 0},
    "no format": {"format": None},
    "a format of another type": {"format": [1]},
    "no world size": {"world_size": None},
    "a world size that is a text": {"world_size": "2"},
    "more ranks than files": {"world_size": 5},
    "fewer ranks than files": {"world_size": 1},
    "no options": {"options": None},
    "options that are a list": {"options": []},
    "no batch size": {"options": {"accumulation": 1}},
    "a step beyond the epoch": {"epoch_step": STEPS},
    "a negative epoch": {"epoch": -1},
    "replicas that are no number": {"replicas": {}},
    "files that are a number": {"files": 3},
    "files without names": {"files": [{}, {}, {}]},
    "the same file three times": {"files": [{"name": "shared.npz", "bytes": 1, "sha256": ""}] * 3},
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("change", MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_manifest_that_cannot_be_used_gives_way_to_the_checkpoint_before(
    folder: Path, size: int, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    good, newer = save(folder, 14, 2), save(folder, 20, 2)
    manifest = newer / folders.MANIFEST
    manifest.write_text(folders.manifest_text({**json.loads(manifest.read_text()), **change}))
    places, states = restored(folder.parent, size)
    assert {getattr(place, "path", place) for place in places} == {str(good)}
    assert states[0].all["weight-000"][0] == 14
    printed = capsys.readouterr().out
    assert f"checkpoint {newer} is damaged (rank 0: " in printed and "Error" not in printed
    assert (folder / "unused-step-00000020").is_dir()


@pytest.mark.parametrize("name", ["epoch_step", "metrics_bytes", "world_size", "options"])
def test_a_manifest_with_one_other_value_is_damaged(folder: Path, name: str) -> None:
    good, newer = save(folder, 14, 2), save(folder, 20, 2)
    manifest = newer / folders.MANIFEST
    content = json.loads(manifest.read_text())
    content[name] = {**content[name], "epochs": 11} if name == "options" else content[name] + 1
    manifest.write_text(json.dumps(content))
    places, _ = restored(folder.parent, 2)
    assert {getattr(place, "path", place) for place in places} == {str(good)}


def test_characters_that_cannot_be_printed_end_no_rank(folder: Path) -> None:
    """Python's JSON reads half of a surrogate pair, which UTF-8 does not have."""
    manifest = save(folder, 14, 2) / folders.MANIFEST
    content = json.loads(manifest.read_text())
    content["options"]["optimizer"] = content["data"] = "\ud800"
    manifest.write_text(folders.manifest_text(content))
    out = sys.stdout
    try:
        sys.stdout = open(folder / "out", "w", encoding="utf-8")  # noqa: SIM115
        places, _ = restored(folder.parent, 2)
    finally:
        sys.stdout.close()
        sys.stdout = out
    assert [place.step for place in places] == [4, 4], places
    assert "--optimizer is now " in (folder / "out").read_text()


def test_if_no_checkpoint_can_be_used_every_rank_ends(folder: Path) -> None:
    manifest = save(folder, 14, 2) / folders.MANIFEST
    manifest.write_text('{"format": 0, "step": 14, "files": []}')
    ended, _ = restored(folder.parent, 3)
    assert all(isinstance(error, AgreedError) for error in ended)
    assert "has format 0" in str(ended[0]) and "reads formats 1, 2, 3, 4" in str(ended[0])


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("is_newest_damaged", [False, True])
def test_a_checkpoint_of_a_newer_version_ends_the_run_and_nothing_is_renamed(
    folder: Path, size: int, is_newest_damaged: bool
) -> None:
    save(folder, 8, 2)
    newer = save(folder, 14, 2)
    (newer / folders.MANIFEST).write_text(json.dumps({"format": 99, "arrays": "of another form"}))
    if is_newest_damaged:
        (save(folder, 20, 2) / folders.SHARED).write_bytes(b"")
    before = sorted(path.name for path in folder.iterdir())
    places, _ = restored(folder.parent, size)
    text = (
        f"{newer} has format 99, of a newer version of hpclaunch; this one reads formats up to 4. Nothing was changed: "
        "resume with the newer version, or start from the beginning (--resume=false, or another run)"
    )
    assert {str(place) for place in places} == {text}
    assert sorted(path.name for path in folder.iterdir()) == before
