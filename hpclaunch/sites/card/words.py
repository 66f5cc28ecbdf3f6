"""Puts a value of a site file into words, by the wording of its field (config/wording.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpclaunch.core.units import count
from hpclaunch.sites.card.wording import DEFAULT_WORDING, Wording, field_of, is_mapping, record_in, wording_of


def text_of(cls: type, key: str, value: Any, label: str = "") -> str:
    """Return a value in words. ``key`` is its path below the record class ``cls``; empty for the record itself.

    A ``label`` is written in place of the key.
    """
    label = label or spaced(key)
    name, _, rest = key.partition(".")
    attribute = field_of(cls, name)
    if attribute is None:
        return _phrase(DEFAULT_WORDING, label, value)
    wording, inner = wording_of(attribute), record_in(attribute.type)
    if not rest and inner and isinstance(value, list):
        return _phrase_of_records(wording, inner, value)
    if not rest:
        return _phrase(wording, label, value)
    if not is_mapping(attribute.type):
        return text_of(inner, rest, value, label) if inner else _phrase(wording, label, value)
    if inner is None:
        return wording.member.format(rest, _shell_text(value))
    member, _, last = rest.rpartition(".")  # a member's own name may hold dots
    return wording.member.format(member, text_of(inner, last, value))


def _phrase_of_records(wording: Wording, cls: type, value: list[Mapping[str, Any]]) -> str:
    """Return a list of records in words."""
    texts = [{name: text_of(cls, name, content) for name, content in fields.items()} for fields in value]
    return wording.joiner.join(wording.each.format(**fields) for fields in texts)


def _phrase(wording: Wording, label: str, value: Any) -> str:
    if isinstance(value, bool):
        switch = wording.yes if value else wording.no
        return switch or f"{label}: {'yes' if value else 'no'}"
    if value in ({}, [], "none", None):
        return wording.none or (f"{label}: none" if label else "no extra options")
    if wording.noun and isinstance(value, int):
        return (wording.words or "{}").format(count(value, wording.noun))
    shown = wording.joiner.join(map(str, value)) if isinstance(value, list) else str(value)
    return (wording.words or f"{label} {{}}").format(shown).strip()


def _shell_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def spaced(key: str) -> str:
    """Return a key as words."""
    return key.replace("_", " ").replace(".", " ")
