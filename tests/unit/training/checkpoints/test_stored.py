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


def saved(folder: Path, count: int) -> dict[str, Any]:
    """The facts of a checkpoint in `folder` whose arrays are in `count` parts."""
    whole = {"weight-000": KERNEL, "weight-001": TABLE}
    shared: dict[str, Any] = {"weight-002": BIAS}
    facts: dict[str, Any] = {}
    folder.mkdir(exist_ok=True)
    if count == 1:
        shared.update(whole)
    for index in range(count if count > 1 else 0):
        own = {name: Split(axis, 12, count, index) for name, axis in AXES.items()}
        parts = {name: own[name].part(whole[name]) for name in own}
        folders.write(str(folder), folders.part_file(index), parts)
        facts = stored.facts_of({name: (parts[name].shape, own[name]) for name in own})
    folders.write(str(folder), folders.SHARED, shared)
    return facts


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("now", [1, 2, 3, 6])
def test_every_layout_reads_the_parts_of_every_other(before: int, now: int, tmp_path: Path) -> None:
    facts = saved(tmp_path, before)
    assert not stored.fault_in(facts)
    assert len(stored.part_names(facts)) == (before if before > 1 else 0)
    for index in range(now):
        own = {name: Split(axis, 12, now, index) for name, axis in AXES.items()} if now > 1 else {}
        found = stored.read(str(tmp_path), facts, own)
        np.testing.assert_array_equal(found["weight-000"], own["weight-000"].part(KERNEL) if own else KERNEL)
        np.testing.assert_array_equal(found["weight-001"], own["weight-001"].part(TABLE) if own else TABLE)
        np.testing.assert_array_equal(found["weight-002"], BIAS)
        assert found["weight-001"].dtype == TABLE.dtype
        if own:
            assert set(stored.read(str(tmp_path), facts, own, only_parts=True)) == set(AXES)


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
    folders.write(str(tmp_path), folders.part_file(1), {"weight-000": KERNEL, "weight-001": TABLE[:6]})
    with pytest.raises(TrainingError, match=r"part-0001.npz: its array weight-000 has not the shape"):
        stored.read(str(tmp_path), facts, {})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "not a count and arrays"),
        ({"count": 2}, "not a count and arrays"),
        ({"count": 1, "arrays": {}}, "not a whole number from 2"),
        ({"count": 10**9, "arrays": {}}, "not a whole number from 2"),
        ({"count": 2, "arrays": {"a": {"shape": [3], "axis": 0}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": {"shape": [4], "axis": 1}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": {"shape": "4", "axis": 0}}}, "array a has no shape"),
        ({"count": 2, "arrays": {"a": 4}}, "array a has no shape"),
    ],
)
def test_a_damaged_manifest_is_found(parts: Any, words: str) -> None:
    assert words in stored.fault_in({"parts": parts})
