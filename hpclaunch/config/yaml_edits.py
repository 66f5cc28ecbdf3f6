"""Changes single values of a YAML text and leaves the rest as it is: comments, order, quotes and layout."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpclaunch.config.documents import yaml_tree, yaml_values
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.records import record

_PLAIN = re.compile(r"[A-Za-z/$][A-Za-z0-9_./$-]*(?: [A-Za-z0-9_./$(-][A-Za-z0-9_./$()-]*)*")
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


@record
class Change:
    """A value to set at a path of keys, or with ``removes`` a key to take away."""

    path: tuple[str, ...]
    value: Any = None
    removes: bool = False


class _Unchangeable(Exception):
    """The place is written in a way that is not edited here."""


def edited(text: str, changes: Sequence[Change]) -> tuple[str, tuple[Change, ...]]:
    """Return the text with the changes, and those that were made.

    Each is made only if the new text then means the old one with this change, and nothing else. Raises InvalidFile for
    a text that cannot be read.
    """
    values = yaml_values("text", text)
    made = []
    for change in changes:
        wanted = copy.deepcopy(values)
        try:
            _change_values(wanted, change)
            candidate = _change_text(text, change)
            found = yaml_values("text", candidate)
        except (_Unchangeable, InvalidFile):
            continue
        if found == wanted:
            text, values = candidate, wanted
            made.append(change)
    return text, tuple(made)


def flow_text(value: Any) -> str:
    """Return a value as YAML on one line. Text that YAML could read as another type is quoted as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar_text(key)}: {flow_text(member)}" for key, member in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    return scalar_text(value)


def scalar_text(value: Any) -> str:
    """Return a scalar as YAML, which accepts JSON's quoted text."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value, ensure_ascii=False)


def _change_values(values: dict[str, Any], change: Change) -> None:
    """Change plain values in place. A mapping that loses its last key goes, too; one that is missing is made."""
    parents: list[tuple[dict[str, Any], str]] = []
    place: Any = values
    for name in change.path[:-1]:
        if not isinstance(place, dict) or (change.removes and name not in place):
            raise _Unchangeable
        parents.append((place, name))
        place = place.setdefault(name, {})
    if not isinstance(place, dict):
        raise _Unchangeable
    last = change.path[-1]
    if not change.removes:
        place[last] = change.value
        return
    if last not in place:
        raise _Unchangeable
    del place[last]
    while parents and not place:
        place, name = parents.pop()
        del place[name]


def _change_text(text: str, change: Change) -> str:
    root = yaml_tree(text)
    if change.removes:
        return _remove(text, root, change.path)
    return _set(text, root, change.path, change.value)


def _members(node: Any) -> list[tuple[Any, Any]]:
    """Return (key, value) of a mapping's members, as nodes with their places in the text."""
    if node.id != "mapping":
        raise _Unchangeable
    found: list[tuple[Any, Any]] = node.value
    return found


def _member(node: Any, name: str) -> tuple[Any, Any] | None:
    return next(((key, value) for key, value in _members(node) if key.value == name), None)


def _set(text: str, root: Any, path: Sequence[str], value: Any) -> str:
    place = root
    for depth, name in enumerate(path):
        found = _member(place, name)
        if found is None:
            rest: Any = value
            for inner in reversed(path[depth + 1 :]):
                rest = {inner: rest}
            return _add(text, place, name, rest)
        place = found[1]
    if place.id == "sequence" and not place.flow_style and isinstance(value, list) and value:
        return _set_items(text, place, value)
    if place.id != "scalar" and not place.flow_style:
        raise _Unchangeable
    start, end = place.start_mark.index, place.end_mark.index
    gap = " " if start == end and text[start - 1 : start] == ":" else ""  # a key without a value
    return f"{text[:start]}{gap}{flow_text(value)}{text[end:]}"


def _set_items(text: str, place: Any, values: Sequence[Any]) -> str:
    """Set a list of lines: items that stay keep their lines, in their order; new ones stand behind them."""
    lines = text.splitlines(keepends=True)
    start = place.start_mark.line
    rest, body = list(values), []
    for item in place.value:
        end = _last_line(item) + 1
        if item.id == "scalar" and rest and item.value == rest[0]:
            body += lines[start:end]
            rest.pop(0)
        start = end
    if body and not body[-1].endswith("\n"):
        body[-1] += "\n"
    indent = " " * place.start_mark.column
    body += [f"{indent}- {flow_text(one)}\n" for one in rest]
    return "".join([*lines[: place.start_mark.line], *body, *lines[start:]])


def _add(text: str, mapping: Any, name: str, value: Any) -> str:
    member = f"{scalar_text(name)}: {flow_text(value)}"
    members = _members(mapping)
    if mapping.flow_style:
        if not members:
            return f"{text[: mapping.start_mark.index]}{{{member}}}{text[mapping.end_mark.index :]}"
        end = members[-1][1].end_mark.index
        return f"{text[:end]}, {member}{text[end:]}"
    if not members:
        raise _Unchangeable
    lines = text.splitlines(keepends=True)
    after = _last_line(members[-1][1]) + 1
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    indent = " " * members[0][0].start_mark.column
    return "".join([*lines[:after], f"{indent}{member}\n", *lines[after:]])


def _remove(text: str, root: Any, path: Sequence[str]) -> str:
    places = [root]
    for name in path[:-1]:
        found = _member(places[-1], name)
        if found is None:
            raise _Unchangeable
        places.append(found[1])
    names = list(path)
    while len(places) > 1 and len(_members(places[-1])) == 1:  # its mapping would be empty
        places.pop()
        names.pop()
    members = _members(places[-1])
    position = next((number for number, (key, _) in enumerate(members) if key.value == names[-1]), None)
    if position is None:
        raise _Unchangeable
    key, value = members[position]
    if not places[-1].flow_style:
        lines = text.splitlines(keepends=True)
        return "".join(lines[: key.start_mark.line] + lines[_last_line(value) + 1 :])
    if position:
        start, end = members[position - 1][1].end_mark.index, value.end_mark.index
    elif len(members) > 1:
        start, end = key.start_mark.index, members[1][0].start_mark.index
    else:
        start, end = key.start_mark.index, value.end_mark.index
    return text[:start] + text[end:]


def _last_line(node: Any) -> int:
    """Return the number of the last line of a value, without comments and blank lines behind it."""
    if node.id == "mapping" and not node.flow_style and node.value:
        return _last_line(node.value[-1][1])
    if node.id == "sequence" and not node.flow_style and node.value:
        return _last_line(node.value[-1])
    end = node.end_mark
    is_block_text = node.id == "scalar" and node.style in ("|", ">")
    line: int = end.line - 1 if is_block_text and end.column == 0 else end.line
    return line
