"""Reads YAML and JSON files as plain values, strictly: no repeated keys, no anchors, no files that are too large."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path
from typing import Any

import yaml

from hpclaunch.core.errors import Fault, InvalidFile

_LARGEST_FILE = 256 * 1024
_CORE_SCALARS = {
    "bool": ("true|false", "tf"),
    "int": ("[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    "null": ("~|null|", "~n"),
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The C loader with YAML 1.2's core scalars only, so that ``1:30:00``, ``no`` and dates stay text."""

    yaml_implicit_resolvers: typing.ClassVar[dict[str, Any]] = {}


for _tag, (_pattern, _first) in _CORE_SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), [*_first])
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("^$"), [""])


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises InvalidFile for unreadable, oversized, aliased or repeated content."""
    text = _text_of(path)
    try:
        content = _construct(text)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise InvalidFile(Fault(where=str(path), what=" ".join(f"is not valid YAML: {error}".split()))) from None
    return _keyed_by_text(path, {} if content is None else content)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidFile for unreadable, oversized or repeated content."""
    text = _text_of(path)
    try:
        content = json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where=str(path), what=f"is not valid JSON: {error}")) from None
    return _keyed_by_text(path, content)


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key, of which Python's JSON reader would keep the last."""
    keys = [key for key, _ in pairs]
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:
        raise ValueError(f"the key {repeated[0]!r} is given twice")
    return dict(pairs)


def _refuse_constant(word: str) -> None:
    """Refuse NaN and Infinity, which Python would read although JSON has no such numbers."""
    raise ValueError(f"{word} is not a number")


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = getattr(error, "strerror", None) or error
        raise InvalidFile(Fault(where=str(path), what=f"cannot be read: {why}")) from None
    if len(raw) > _LARGEST_FILE:
        raise InvalidFile(Fault(where=str(path), what=f"is larger than {_LARGEST_FILE // 1024} KB"))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidFile(Fault(where=str(path), what="is not UTF-8 text")) from None


def _keyed_by_text(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InvalidFile(Fault(where=str(path), what="must be a mapping of keys to values"))
    return content


def _construct(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_surprises(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_surprises(root: yaml.Node) -> None:
    """Refuse aliases (a small file could expand to a huge one) and repeated keys (YAML would keep the last)."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        line = node.start_mark.line + 1
        if id(node) in seen:
            raise yaml.YAMLError(f"line {line}: anchors and aliases (& and *) are not supported")
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            repeated = sorted({key for key in keys if keys.count(key) > 1})
            if repeated:
                raise yaml.YAMLError(f"line {line}: the key {repeated[0]!r} is given twice")
            waiting.extend(part for pair in node.value for part in pair)
