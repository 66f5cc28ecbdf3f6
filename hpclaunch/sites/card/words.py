"""How a value of a site file is said: its field's wording (config/wording.py) applied to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpclaunch.core.units import count
from hpclaunch.sites.card.wording import UNSAID, Wording, field_of, is_mapping, record_in, wording_of


def text_of(kind: type, key: str, value: Any, label: str = "") -> str:
    """Return a value in words. ``key`` leads to it from ``kind``, a record of a site file; empty, it is the record.

    ``label`` takes the place of the key where it is said.
    """
    label = label or spaced(key)
    name, _, rest = key.partition(".")
    one = field_of(kind, name)
    if one is None:
        return _phrase(UNSAID, label, value)
    wording, inner = wording_of(one), record_in(one.type)
    if not rest and inner and isinstance(value, list):
        return _phrase_of_records(wording, inner, value)
    if not rest:
        return _phrase(wording, label, value)
    if not is_mapping(one.type):
        return text_of(inner, rest, value, label) if inner else _phrase(wording, label, value)
    if inner is None:
        return wording.member.format(rest, _shell_text(value))
    member, _, last = rest.rpartition(".")  # a member's own name may hold dots
    return wording.member.format(member, text_of(inner, last, value))


def _phrase_of_records(wording: Wording, kind: type, value: list[Mapping[str, Any]]) -> str:
    """Return a list of records in words."""
    said = [{name: text_of(kind, name, content) for name, content in one.items()} for one in value]
    return wording.joiner.join(wording.each.format(**one) for one in said)


def _phrase(wording: Wording, label: str, value: Any) -> str:
    if isinstance(value, bool):
        switch = wording.yes if value else wording.no
        return switch or f"{label}: {'yes' if value else 'no'}"
    if value in ({}, [], "none", None):
        return wording.none or (f"{label}: none" if label else "nothing more is said")
    if wording.noun and isinstance(value, int):
        return (wording.words or "{}").format(count(value, wording.noun))
    shown = wording.joiner.join(map(str, value)) if isinstance(value, list) else str(value)
    return (wording.words or f"{label} {{}}").format(shown).strip()


def _shell_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def spaced(key: str) -> str:
    """Return a key as words."""
    return key.replace("_", " ").replace(".", " ")
