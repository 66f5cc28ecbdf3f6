"""Parts of arrays in checkpoints, read by ranks of other layouts; damage is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.checkpoints import folders, stored
from hpclaunch.training.model_parallel.splits import Split
from hpclaunch.training.rank.failure import TrainingError

KERNEL = np.arange(48.0).reshape(4, 12)
TABLE = np.arange(24).reshape(12, 2)
BIAS = np.arange(3.0)
AXES = {"weight-000": 1, "weight-001": 0}


def saved(folder: Path, count: int, stages: int = 1) -> dict[str, Any]:
    """The facts of a checkpoint in `folder` whose arrays are in `count` parts; in two stages, TABLE and BIAS are later.

    The shared file has what is no part and belongs to the first stage.
    """
    whole = {"weight-000": KERNEL, "weight-001": TABLE, "weight-002": BIAS}
    stage_of = {"weight-000": 0, "weight-001": stages - 1, "weight-002": stages - 1}
    axes = {name: AXES.get(name) if count > 1 else None for name in whole}
    in_parts = [name for name in whole if stage_of[name] or axes[name] is not None]
    folder.mkdir(exist_ok=True)
    about = {name: stored.Held(whole[name].shape, axes[name], stage_of[name]) for name in in_parts}
    facts = stored.facts_of(about, count, stages)
    for number in range(count * stages):
        stage, index = divmod(number, count)
        own = {}
        for name in in_parts:
            axis = axes[name]
            if stage_of[name] == stage and axis is None and index == 0:
                own[name] = whole[name]
            elif stage_of[name] == stage and axis is not None:
                own[name] = Split(axis, 12, count, index).part(whole[name])
        if folders.part_file(number) in stored.part_names(facts):
            folders.write(str(folder), folders.part_file(number), own.items())
    folders.write(
        str(folder), folders.SHARED, {name: one for name, one in whole.items() if name not in in_parts}.items()
    )
    return facts


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("now", [1, 2, 3, 6])
def test_every_layout_reads_the_parts_of_every_other(before: int, now: int, stages: int, tmp_path: Path) -> None:
    facts = saved(tmp_path, before, stages)
    assert not stored.fault_in(facts)
    assert len(stored.part_names(facts)) == before * stages - (before == 1)
    assert stored.weights_in(str(tmp_path), facts) == 3
    for index in range(now):
        own = {name: Split(axis, 12, now, index) for name, axis in AXES.items()} if now > 1 else {}
        found = stored.read(str(tmp_path), facts, own)
        np.testing.assert_array_equal(found["weight-000"], own["weight-000"].part(KERNEL) if own else KERNEL)
        np.testing.assert_array_equal(found["weight-001"], own["weight-001"].part(TABLE) if own else TABLE)
        np.testing.assert_array_equal(found["weight-002"], BIAS)
        assert found["weight-001"].dtype == TABLE.dtype
        for held in ({"weight-000", "another"}, {"weight-001", "weight-002"}):
            assert set(stored.read(str(tmp_path), facts, own, held)) == held - {"another"}


def test_a_rank_opens_only_the_files_with_its_parts(tmp_path: Path) -> None:
    facts = saved(tmp_path, 4)
    (tmp_path / folders.part_file(3)).unlink()
    own = {name: Split(axis, 12, 2, 0) for name, axis in AXES.items()}
    np.testing.assert_array_equal(stored.read(str(tmp_path), facts, own)["weight-000"], KERNEL[:, :6])


@pytest.mark.parametrize(("whole", "axis"), [(24, 1), (4, 0)])
@pytest.mark.parametrize("count", [1, 2])
def test_another_model_is_refused(whole: int, axis: int, count: int, tmp_path: Path) -> None:
    facts = saved(tmp_path, count)
    own = {"weight-000": Split(axis, whole, 2, 0), "weight-001": Split(1, whole, 2, 0)}
    with pytest.raises(TrainingError, match="another model or optimizer: weight-00"):
        stored.read(str(tmp_path), facts, own)


def test_a_part_of_another_shape_than_in_the_manifest_is_refused(tmp_path: Path) -> None:
    facts = saved(tmp_path, 2)
    folders.write(str(tmp_path), folders.part_file(1), {"weight-000": KERNEL, "weight-001": TABLE[:6]}.items())
    with pytest.raises(TrainingError, match=r"part-0001.npz: its array weight-000 has not the shape"):
        stored.read(str(tmp_path), facts, {})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "not a count and arrays"),
        ({"count": 2}, "not a count and arrays"),
        ({"count": 1, "arrays": {}}, "not a whole number from 2"),
        ({"count": 1, "stages": 1, "arrays": {}}, "not a whole number from 2"),
        ({"count": 1, "stages": -2, "arrays": {}}, "not a whole number from 2"),
        ({"count": 10, "stages": 1000, "arrays": {}}, "not a whole number from 2"),
        ({"count": 1, "stages": 2, "other": 1, "arrays": {}}, "not a count and arrays"),
        ({"count": 1, "stages": 2, "arrays": {"a": {"shape": [3], "axis": None}}}, "array a has no shape"),
        ({"count": 1, "stages": 2, "arrays": {"a": {"shape": [3], "axis": None, "stage": 2}}}, "array a has no shape"),
        ({"count": 10**9, "arrays": {}}, "not a whole number from 2"),
        ({"count": 2, "arrays": {"a": {"shape": [3], "axis": 0}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": {"shape": [4], "axis": 1}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": {"shape": "4", "axis": 0}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": 4}}, "array a has no shape"),
    ],
)
def test_a_damaged_manifest_is_found(parts: Any, words: str) -> None:
    assert words in stored.fault_in({"parts": parts})
