"""Nested dictionaries, lists and numbers with arrays among them: arrays in a list, the rest as values for JSON."""

from __future__ import annotations

from typing import Any, Callable

from hpclaunch.training.rank.failure import TrainingError

Places = list  # of (path, array)


def packed(value: Any, path: str, is_array: Callable[[Any], bool], arrays: Places) -> Any:
    """`value` for JSON: each array is its number in `arrays`, to which it is added with its path (a.b.0).

    Keys are texts and whole numbers; there may be None, texts and numbers. Raises TrainingError for anything else.
    """
    if is_array(value):
        arrays.append((path, value))
        return {"array": len(arrays) - 1}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"float": value.hex()}  # exact, and JSON has no NaN
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        return {"dict": [[key, packed(one, "{}.{}".format(path, key), is_array, arrays)] for key, one in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [packed(one, "{}.{}".format(path, n), is_array, arrays) for n, one in enumerate(value)]}
    raise TrainingError(
        "a checkpoint cannot hold {}: it is of {}, and only tensors, numbers, texts, lists and dictionaries are "
        "saved".format(path, type(value).__name__)
    )


def unpacked(told: Any, arrays: list[Any]) -> Any:
    """What `packed` was given, with these arrays."""
    ((kind, value),) = told.items()
    if kind == "array":
        return arrays[value]
    if kind == "float":
        return float.fromhex(value)
    if kind == "dict":
        return {key: unpacked(one, arrays) for key, one in value}
    if kind in ("list", "tuple"):
        found = [unpacked(one, arrays) for one in value]
        return tuple(found) if kind == "tuple" else found
    return value
