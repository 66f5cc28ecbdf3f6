"""What a field of a file's records says of its value in words, and of its place on a card (``shown`` in config)."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Annotated, Any

from hpclaunch.config.wording import WORDING
from hpclaunch.core.records import record


@record
class Wording:
    """How the value of one key is said.

    ``words`` has ``{}`` for the value; empty, the key comes before it. With a ``noun`` a number is that of so many
    things. ``yes`` and ``no`` are for a switch, ``none`` for an empty value, ``joiner`` stands between the members of a
    list. ``member`` takes key and value of a mapping, ``each`` the keys of one record in a list of them. On a card the
    value stands in a ``section``, in the row of that label; an empty ``row`` has the key's own name.
    """

    words: str = ""
    noun: str = ""
    yes: str = ""
    no: str = ""
    none: str = ""
    joiner: str = ", "
    member: str = "{}={}"
    each: str = ""
    section: str = ""
    row: str = ""


UNSAID = Wording()


def wording_of(one: dataclasses.Field[Any] | None) -> Wording:
    """Return how a field's value is said."""
    return UNSAID if one is None or WORDING not in one.metadata else Wording(**one.metadata[WORDING])


def field_of(kind: type, name: str) -> dataclasses.Field[Any] | None:
    """Return a record's field of that name, or None."""
    return next((one for one in dataclasses.fields(kind) if one.name == name), None)


def record_in(kind: Any) -> type | None:
    """Return the record that a value of this type is (``Nics | None`` -> Nics) or that its members are, or None."""
    if dataclasses.is_dataclass(kind):
        return typing.cast(type, kind)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (Annotated, tuple):
        return record_in(arguments[0])
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(filter(None, map(record_in, arguments)), None)
    return record_in(arguments[1]) if is_mapping(kind) else None


def is_mapping(kind: Any) -> bool:
    """Tell whether a value of this type has keys that a person chooses."""
    if typing.get_origin(kind) is Annotated:
        return is_mapping(typing.get_args(kind)[0])
    return typing.get_origin(kind) is dict
