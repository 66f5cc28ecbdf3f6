"""Reads the weights and the optimizer's state of a checkpoint, whole or in parts, as a rank of another layout needs it.

If layers are shared by T ranks, in a pipeline of several stages, file `part-0003.npz` has what rank 3 of a copy holds:
rank t of stage s has number s T + t. The manifest has the stage of each array, the shape of the whole array, and the
axis along which the ranks of the stage divide it; without an axis their first one has it all. `shared.npz` has what
all ranks of the first stage have, and what all stages have, such as the number of steps. Arrays are read one after
another, so that a rank needs the memory of its own parts and of one array.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Collection, Mapping, Optional

import numpy as np

from hpclaunch.training.checkpoints import folders
from hpclaunch.training.model_parallel.splits import Split
from hpclaunch.training.rank.failure import TrainingError

Arrays = dict
Splits = Mapping[str, Optional[Split]]


@dataclass(frozen=True)
class Held:
    """An array in a file of parts: the shape of the whole one; axis: along which it is divided, None if it is not."""

    shape: tuple[int, ...]
    axis: int | None
    stage: int


def facts_of(arrays: Mapping[str, Held], count: int, stages: int) -> dict[str, Any]:
    """What a manifest says of parts; empty if there are none. count: the ranks that share each layer."""
    if not arrays:
        return {}
    about = {
        name: {"shape": list(one.shape), "axis": one.axis, **({"stage": one.stage} if one.stage else {})}
        for name, one in arrays.items()
    }
    return {"parts": {"count": count, **({"stages": stages} if stages > 1 else {}), "arrays": about}}


def part_names(facts: Mapping[str, Any]) -> list[str]:
    """The names of the files with parts."""
    parts = facts.get("parts")
    if not parts:
        return []
    # All that the only rank of the first stage holds is in the shared file.
    first = 0 if parts["count"] > 1 else 1
    return [folders.part_file(index) for index in range(first, _files(parts))]


def _files(parts: Mapping[str, Any]) -> int:
    return int(parts["count"] * parts.get("stages", 1))


def fault_in(facts: Mapping[str, Any]) -> str:
    """What is wrong with what a manifest says of parts, in words; empty if it is good or there are none."""
    parts = facts.get("parts")
    if parts is None:
        return ""
    known = isinstance(parts, dict) and set(parts) - {"stages"} == {"count", "arrays"}
    if not known or not isinstance(parts["arrays"], dict):
        return "its parts are not a count and arrays"
    count, stages = parts["count"], parts.get("stages", 1)
    if type(count) is not int or type(stages) is not int or min(count, stages) < 1 or not 2 <= count * stages < 10000:
        return "the count of its parts is not a whole number from 2"
    wrong = [name for name, about in parts["arrays"].items() if not _is_divided(about, count, stages)]
    return "its array {} has no shape that can be divided into {} parts".format(wrong[0], count) if wrong else ""


def _is_divided(about: Any, count: int, stages: int) -> bool:
    if not isinstance(about, dict) or set(about) - {"stage"} != {"shape", "axis"}:
        return False
    shape, axis, stage = about["shape"], about["axis"], about.get("stage", 0)
    if not isinstance(shape, list) or any(type(length) is not int or not 0 < length < 2**53 for length in shape):
        return False
    if type(stage) is not int or not 0 <= stage < stages:
        return False
    if axis is None:
        return stage > 0  # that of the first stage is in the shared file
    return type(axis) is int and 0 <= axis < len(shape) and shape[axis] % count == 0


def weights_in(path: str, facts: Mapping[str, Any]) -> int:
    """The number of trained weights in a checkpoint."""
    arrays = set(folders.names_in(path, folders.SHARED)) | set((facts.get("parts") or {"arrays": {}})["arrays"])
    return sum(name.startswith("weight-") for name in arrays)


def read(path: str, facts: Mapping[str, Any], own: Splits, held: Collection[str] | None = None) -> Arrays:
    """The arrays that a rank holds of those that ranks share, by name.

    own: the variables of the rank that are parts. held: the names that it may hold; without them, it holds all. Raises
    TrainingError if the checkpoint has other arrays than its manifest says.
    """
    found = {}
    for name, array in folders.each(path, folders.SHARED):
        if held is None or name in held:
            found[name] = _own_part(name, array, own.get(name))
    if facts.get("parts"):
        wanted = [name for name in facts["parts"]["arrays"] if held is None or name in held]
        found.update(_put_together(path, facts["parts"], {name: own.get(name) for name in wanted}))
    return found


def _own_part(name: str, array: np.ndarray, split: Split | None) -> np.ndarray:
    if split is None:
        return array
    if split.axis >= array.ndim or array.shape[split.axis] != split.whole:
        raise _other_model(name)
    return np.array(split.part(array))  # a copy: a view would keep the whole array in memory


def _put_together(path: str, parts: Mapping[str, Any], wanted: Splits) -> Arrays:
    """The arrays `wanted`, as this rank needs them, from the parts that have something of them."""
    found: Arrays = {}
    for index in range(_files(parts)):
        stage, number = divmod(index, parts["count"])
        here = {name: split for name, split in wanted.items() if parts["arrays"][name].get("stage", 0) == stage}
        needed = {name: split for name, split in here.items() if _has_some(name, parts, number, split)}
        for name, array in folders.each(path, folders.part_file(index)) if needed else ():
            if name not in needed:
                continue
            if list(array.shape) != _part_shape(parts, name):
                raise TrainingError(
                    "{}: its array {} has not the shape of the manifest".format(
                        os.path.join(path, folders.part_file(index)), name
                    )
                )
            if parts["arrays"][name]["axis"] is None:
                found[name] = _own_part(name, array, needed[name])
            else:
                _take(found, parts, (name, number, needed[name]), array)
    return found


def _has_some(name: str, parts: Mapping[str, Any], number: int, split: Split | None) -> bool:
    """Whether the file of rank `number` of a stage has something of what this rank needs of an array."""
    if parts["arrays"][name]["axis"] is None:
        return number == 0
    return _overlap(parts, name, number, *_range(parts, name, split))[2] > 0


def _range(parts: Mapping[str, Any], name: str, split: Split | None) -> tuple[int, int]:
    """Where this rank's part of an array begins, and its length."""
    axis, whole = parts["arrays"][name]["axis"], parts["arrays"][name]["shape"]
    if split is not None and (split.axis, split.whole) != (axis, whole[axis]):
        raise _other_model(name)
    return (0, whole[axis]) if split is None else (split.index * split.length, split.length)


def _take(found: Arrays, parts: Mapping[str, Any], which: tuple[str, int, Split | None], array: np.ndarray) -> None:
    """Put into `found` what this rank needs of an array of rank `number` of a stage. which: name, number, split."""
    name, number, split = which
    axis, (begin, length) = parts["arrays"][name]["axis"], _range(parts, name, split)
    here, there, overlap = _overlap(parts, name, number, begin, length)
    if name not in found:
        found[name] = np.empty([*array.shape[:axis], length, *array.shape[axis + 1 :]], array.dtype)
    found[name][_along(axis, there, overlap)] = array[_along(axis, here, overlap)]


def _part_shape(parts: Mapping[str, Any], name: str) -> list[int]:
    shape, axis = parts["arrays"][name]["shape"], parts["arrays"][name]["axis"]
    if axis is None:
        return list(shape)
    return [*shape[:axis], shape[axis] // parts["count"], *shape[axis + 1 :]]


def _overlap(parts: Mapping[str, Any], name: str, index: int, begin: int, length: int) -> tuple[int, int, int]:
    """Where part `index` and this rank's range (begin, length) overlap: place in the part and the range, length."""
    each = _part_shape(parts, name)[parts["arrays"][name]["axis"]]
    first, last = max(begin, index * each), min(begin + length, (index + 1) * each)
    return first - index * each, first - begin, max(0, last - first)


def _along(axis: int, begin: int, length: int) -> tuple[slice, ...]:
    return (slice(None),) * axis + (slice(begin, begin + length),)


def _other_model(name: str) -> TrainingError:
    return TrainingError("the checkpoint belongs to another model or optimizer: {} has another shape".format(name))
