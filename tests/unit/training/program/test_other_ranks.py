"""A loop of PyTorch or JAX that goes on with an epoch on another number of ranks: what it reads, and reports."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.checkpoints import folders
from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.program.settings import Settings
from hpclaunch.training.rank.failure import TrainingError
from hpclaunch.training.rank.world import World
from tests.unit.training.program.test_plain_loop import ASKED, RATES, SAVES, Loop, OwnShard, Run, events
from tests.unit.training.several_ranks import on_ranks


class Numbers(Synthetic):
    """Each sample's target is its own number."""

    def __init__(self, total: int) -> None:
        super().__init__(ImageSet("small", shape=(2, 2, 1), classes=2, job="small"), total, 1)

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        return np.asarray(indices, np.float32)[:, None], np.asarray(indices)


def attempt(folder: Path, total: int, size: int, steps: int = 0, **options: Any) -> list[tuple[int, int, int]]:
    """Train on `size` ranks, which end without a word after `steps` steps (0: never): (epoch, rank, sample) each."""

    def work(world: World) -> Any:
        asked = Settings(**{**ASKED, **RATES, **SAVES, "checkpoint_steps": 1, **options})
        run = Run("own", asked, world, metrics_log(str(folder), world.is_root, False))
        data = OwnShard(world, asked, Numbers(total))
        loop = Loop(run, data)
        read, epoch, left = list[tuple[int, int, int]](), loop._place.epoch, data.steps - loop._place.step
        for made, (_, targets) in enumerate(loop, 1):
            if made - 1 == steps > 0:
                break
            read += [(epoch, world.rank, int(one)) for one in targets]
            loop.step(float(targets.mean()))
            left -= 1
            if not left:
                epoch, left = epoch + 1, data.steps
        return read

    ended = on_ranks(size, folder, work)
    for own in ended:
        if isinstance(own, BaseException):
            raise own
    return [one for own in ended for one in own]


def of_epoch(read: list[tuple[int, int, int]], number: int) -> Counter[int]:
    return Counter(sample for epoch, _, sample in read if epoch == number)


WORLDS = [
    ((2, 2), (3, 0)),
    ((3, 1), (2, 0)),
    ((1, 3), (3, 0)),
    ((1, 1), (3, 0)),  # what is left needs as many steps as a whole epoch of three ranks
    ((3, 2), (1, 0)),
    ((2, 1), (3, 1), (1, 0)),
    ((2, 1), (3, 1), (2, 0)),
    ((2, 1), (1, 2), (1, 1), (3, 0)),
]


@pytest.mark.parametrize("reshuffle", ["shard", "global"])
@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(("total", "batch"), [(24, 3), (23, 4)])
def test_every_sample_is_read_in_an_epoch_that_other_numbers_of_ranks_begin(
    total: int, batch: int, worlds: tuple[tuple[int, int], ...], reshuffle: str, tmp_path: Path
) -> None:
    read = list[tuple[int, int, int]]()
    for size, steps in worlds:
        read += attempt(tmp_path, total, size, steps, batch_size_per_rank=batch, reshuffle=reshuffle)
    lines = events(tmp_path, "epoch")
    assert [line["epoch"] for line in lines] == [1, 2]
    for epoch, line in enumerate(lines):
        found = of_epoch(read, epoch)
        assert set(found) == set(range(total)), "none is left out"
        assert set(found.values()) <= {1, 2}
        # Ranks have equal numbers of samples, so each number of ranks may repeat one or two of what does not divide.
        assert found.total() - total <= sum(size - 1 for size, _ in worlds)
        if total == 24:
            rest = 24 - (0 if epoch else sum(size * steps * batch for size, steps in worlds))
            assert found.total() - total == -rest % worlds[-1][0]
        assert line["loss"] == pytest.approx(sum(found.elements()) / found.total(), rel=1e-12)


@pytest.mark.parametrize("reshuffle", ["shard", "global"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_on_the_same_number_of_ranks_it_is_as_undisturbed(size: int, reshuffle: str, tmp_path: Path) -> None:
    whole = attempt(tmp_path / "whole", 23, size, reshuffle=reshuffle)
    parts = attempt(tmp_path / "parts", 23, size, 2, reshuffle=reshuffle)
    parts += attempt(tmp_path / "parts", 23, size, 1, reshuffle=reshuffle)
    parts += attempt(tmp_path / "parts", 23, size, reshuffle=reshuffle)
    for rank in range(size):
        assert [one for one in parts if one[1] == rank] == [one for one in whole if one[1] == rank]
    losses = [[line["loss"] for line in events(tmp_path / run, "epoch")] for run in ("whole", "parts")]
    assert losses[0] == losses[1]


def test_with_another_batch_size_it_goes_on_after_what_was_read(tmp_path: Path) -> None:
    read = attempt(tmp_path, 24, 2, 1, batch_size_per_rank=5) + attempt(tmp_path, 24, 2, batch_size_per_rank=2)
    assert of_epoch(read, 0) == Counter(range(24))


def test_a_sample_visits_the_ranks_only_with_reshuffle_global(tmp_path: Path) -> None:
    places = {}
    for reshuffle in ("shard", "global"):
        read = attempt(tmp_path / reshuffle, 24, 3, epochs=8, reshuffle=reshuffle)
        assert all(of_epoch(read, epoch) == Counter(range(24)) for epoch in range(8))
        places[reshuffle] = [{rank for _, rank, one in read if one == sample} for sample in range(24)]
    assert all(len(ranks) == 1 for ranks in places["shard"])
    assert all(len(ranks) > 1 for ranks in places["global"])


@pytest.mark.parametrize("options", [{"seed": 4}, {"reshuffle": "global"}, {"train_samples": 20}])
def test_in_another_order_it_goes_on_at_the_same_part_of_the_epoch_and_says_so(
    options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt(tmp_path, 24, 2, 2, reshuffle="shard")
    capsys.readouterr()
    read = attempt(tmp_path, 24, 1, **{"reshuffle": "shard", **options})
    assert "from the same part of the epoch on: it reads some samples twice, and others not at all" in (
        capsys.readouterr().out
    )
    half = len(of_epoch(read, 1)) // 2
    assert half <= len(of_epoch(read, 0)) <= half + 3


def test_what_is_left_is_told_and_an_older_checkpoint_goes_on_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt(tmp_path, 24, 2, 2)
    [newest, *_] = sorted((tmp_path / "checkpoints").glob("step-*2"))
    manifest = json.loads((newest / folders.MANIFEST).read_text())
    assert manifest["epoch_parts"] == [[2, 6]] and manifest["epoch_step"] == 2
    attempt(tmp_path, 24, 1, 1)
    said = capsys.readouterr().out
    assert "there are new shards, in this epoch of the samples that it has left" in said
    del manifest["epoch_parts"], manifest["sha256"]  # as format 3 has it
    manifest["format"] = 3
    (newest / folders.MANIFEST).write_text(json.dumps(manifest))
    for other in (tmp_path / "checkpoints").glob("step-*"):
        if other != newest:
            other.rename(tmp_path / other.name)
    read = attempt(tmp_path, 24, 1)
    assert "from the same part of the epoch on" in capsys.readouterr().out
    assert of_epoch(read, 0).total() == 12
    assert of_epoch(read, 1) == Counter(range(24))


def test_too_few_samples_are_an_error_with_reshuffling_too(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="2 training samples are too few for 3 ranks"):
        attempt(tmp_path, 2, 3, reshuffle="global")
