"""Reads the weights and the optimizer's state of a checkpoint, whole or in parts, as a rank of another layout needs it.

If layers are shared by T ranks, `part-0003.npz` has what rank 3 of them holds of each split array, and the manifest has
the shape of the whole array and the axis along which it is divided. Arrays are read one after another, so that a rank
needs the memory of its own parts and of one array.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

import numpy as np

from hpclaunch.training.checkpoints import folders
from hpclaunch.training.model_parallel.splits import Split
from hpclaunch.training.rank.failure import TrainingError

Arrays = dict
Splits = Mapping[str, Optional[Split]]


def facts_of(own: Mapping[str, tuple[Any, Split]]) -> dict[str, Any]:
    """What a manifest says of parts, from the shape of each and its split; empty if nothing is split."""
    if not own:
        return {}
    about = {
        name: {"shape": list(split.whole_shape(shape)), "axis": split.axis} for name, (shape, split) in own.items()
    }
    return {"parts": {"count": next(iter(own.values()))[1].parts, "arrays": about}}


def part_names(facts: Mapping[str, Any]) -> list[str]:
    """The names of the files with parts."""
    parts = facts.get("parts")
    return [folders.part_file(index) for index in range(parts["count"])] if parts else []


def fault_in(facts: Mapping[str, Any]) -> str:
    """What is wrong with what a manifest says of parts, in words; empty if it is good or there are none."""
    parts = facts.get("parts")
    if parts is None:
        return ""
    if not isinstance(parts, dict) or set(parts) != {"count", "arrays"} or not isinstance(parts["arrays"], dict):
        return "its parts are not a count and arrays"
    count = parts["count"]
    if type(count) is not int or not 2 <= count < 10000:
        return "the count of its parts is not a whole number from 2"
    wrong = [name for name, about in parts["arrays"].items() if not _is_divided(about, count)]
    return "its array {} has no shape that can be divided into {} parts".format(wrong[0], count) if wrong else ""


def _is_divided(about: Any, count: int) -> bool:
    if not isinstance(about, dict) or set(about) != {"shape", "axis"} or not isinstance(about["shape"], list):
        return False
    shape, axis = about["shape"], about["axis"]
    if any(type(length) is not int or not 0 < length < 2**53 for length in shape):
        return False
    return type(axis) is int and 0 <= axis < len(shape) and shape[axis] % count == 0


def read(path: str, facts: Mapping[str, Any], own: Splits, only_parts: bool = False) -> Arrays:
    """The arrays that a rank holds of those that ranks share, by name.

    own: the variables of the rank that are parts. only_parts: no others. Raises TrainingError if the checkpoint has
    other arrays than its manifest says.
    """
    found = {}
    for name, array in folders.each(path, folders.SHARED):
        split = own.get(name)
        if split is not None:
            found[name] = _own_part(name, array, split)
        elif not only_parts:
            found[name] = array
    if facts.get("parts"):
        wanted = [name for name in facts["parts"]["arrays"] if name in own or not only_parts]
        found.update(_put_together(path, facts["parts"], {name: own.get(name) for name in wanted}))
    return found


def _own_part(name: str, array: np.ndarray, split: Split) -> np.ndarray:
    if split.axis >= array.ndim or array.shape[split.axis] != split.whole:
        raise _other_model(name)
    return np.array(split.part(array))  # a copy: a view would keep the whole array in memory


def _put_together(path: str, parts: Mapping[str, Any], wanted: Splits) -> Arrays:
    """The arrays `wanted`, as this rank needs them, from the parts that have something of them."""
    found: Arrays = {}
    ranges = {}
    for name, split in wanted.items():
        axis, whole = parts["arrays"][name]["axis"], parts["arrays"][name]["shape"]
        if split is not None and (split.axis, split.whole) != (axis, whole[axis]):
            raise _other_model(name)
        ranges[name] = (0, whole[axis]) if split is None else (split.index * split.length, split.length)
    for index in range(parts["count"]):
        if not any(_overlap(parts, name, index, *ranges[name])[2] for name in wanted):
            continue
        for name, array in folders.each(path, folders.part_file(index)):
            if name not in wanted:
                continue
            axis = parts["arrays"][name]["axis"]
            here, there, length = _overlap(parts, name, index, *ranges[name])
            if list(array.shape) != _part_shape(parts, name):
                raise TrainingError(
                    "{}: its array {} has not the shape of the manifest".format(
                        os.path.join(path, folders.part_file(index)), name
                    )
                )
            if length and name not in found:
                shape = [*array.shape[:axis], ranges[name][1], *array.shape[axis + 1 :]]
                found[name] = np.empty(shape, array.dtype)
            if length:
                found[name][_along(axis, there, length)] = array[_along(axis, here, length)]
    return found


def _part_shape(parts: Mapping[str, Any], name: str) -> list[int]:
    shape, axis = parts["arrays"][name]["shape"], parts["arrays"][name]["axis"]
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
