"""The metadata of a site file's fields (``shown`` in config): how a value is put into words, and where it is shown."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Annotated, Any

from hpclaunch.config.wording import WORDING
from hpclaunch.core.records import record


@record
class Wording:
    """How the value of one key is put into words, and where it is shown.

    - ``words``: the text, with ``{}`` for the value; if empty, the key comes before the value.
    - ``noun``: what a number counts.
    - ``yes``, ``no``: the texts of a switch; ``none``: that of an empty value.
    - ``joiner``: stands between the members of a list.
    - ``member``: takes key and value of a mapping; ``each``: takes the keys of one record in a list.
    - ``section``, ``row``: the place on the card; an empty ``row`` is labelled with the key.
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


DEFAULT_WORDING = Wording()


def wording_of(attribute: dataclasses.Field[Any] | None) -> Wording:
    """Return the wording of a field; the default one where it has none."""
    return (
        DEFAULT_WORDING
        if attribute is None or WORDING not in attribute.metadata
        else Wording(**attribute.metadata[WORDING])
    )


def field_of(cls: type, name: str) -> dataclasses.Field[Any] | None:
    """Return a record's field of that name, or None."""
    return next((attribute for attribute in dataclasses.fields(cls) if attribute.name == name), None)


def record_in(cls: Any) -> type | None:
    """Return the record class of a value of this type (``Nics | None`` -> Nics) or of its members, or None."""
    if dataclasses.is_dataclass(cls):
        return typing.cast(type, cls)
    arguments = typing.get_args(cls)
    if typing.get_origin(cls) in (Annotated, tuple):
        return record_in(arguments[0])
    if typing.get_origin(cls) in (types.UnionType, typing.Union):
        return next(filter(None, map(record_in, arguments)), None)
    return record_in(arguments[1]) if is_mapping(cls) else None


def is_mapping(cls: Any) -> bool:
    """Whether a value of this type is a mapping whose keys the file's author chooses."""
    if typing.get_origin(cls) is Annotated:
        return is_mapping(typing.get_args(cls)[0])
    return typing.get_origin(cls) is dict
