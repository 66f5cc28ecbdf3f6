"""Reads YAML and JSON files as plain values, strictly: no repeated keys, no anchors, no large or deep files."""

from __future__ import annotations

import errno
import json
import os
import re
import typing
from pathlib import Path
from typing import Any

import yaml

from hpclaunch.core.errors import Fault, InvalidFile, shorten
from hpclaunch.core.files import read_bytes

_LARGEST_FILE = 256 * 1024
_DEEPEST = 100
"""Levels of lists and mappings. The C loader composes them by recursion: 60,000 of them end the process."""
_OPENING = re.compile(r"[\[{]")
_BEFORE_A_BLOCK = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?([ \t?:-]+)")
"""The indentation of a line, and the indicators that can begin a block on it."""
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
    return yaml_values(path, read_text_file(path))


def yaml_values(path: Path | str, text: str) -> dict[str, Any]:
    """Return the mapping in a YAML text, which stands in the file ``path``. Raises InvalidFile."""
    try:
        content = _construct(text)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise InvalidFile(Fault(where=str(path), what=f"is not valid YAML: {_join_lines(error)}")) from None
    return _keyed_by_text(path, {} if content is None else content)


def yaml_tree(text: str) -> Any:
    """Return the root of a YAML text's nodes, each with its places in the text. Raises InvalidFile."""
    try:
        return _Loader(text).get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where="text", what=f"is not valid YAML: {_join_lines(error)}")) from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidFile for unreadable, oversized or repeated content."""
    text = read_text_file(path)
    try:
        content = json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
    except (RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where=str(path), what=f"is not valid JSON: {_join_lines(error)}")) from None
    return _keyed_by_text(path, content)


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a repeated key, of which Python's JSON reader would keep the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        repeated = _first_repeated([key for key, _ in pairs])
        raise ValueError(f"the key {repeated!r} is given twice")
    return content


def _first_repeated(keys: list[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _refuse_constant(word: str) -> None:
    """Refuse NaN and Infinity, which Python would read although JSON has no such numbers."""
    raise ValueError(f"{word} is not a number")


def _join_lines(error: Exception) -> str:
    return shorten(" ".join(str(error).split()))


def read_text_file(path: Path) -> str:
    """Return the text of a file. Raises InvalidFile if it is unreadable, oversized or not UTF-8."""
    try:
        raw = read_bytes(path, _LARGEST_FILE)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = getattr(error, "strerror", None) or str(error)
        what = why if getattr(error, "errno", 0) == errno.EFBIG else f"cannot be read: {why}"
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            what = f"is a link to {os.readlink(path)}, which does not exist"
        raise InvalidFile(Fault(where=str(path), what=what)) from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidFile(Fault(where=str(path), what="is not UTF-8 text")) from None


def _keyed_by_text(path: Path | str, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InvalidFile(Fault(where=str(path), what="must be a mapping of keys to values"))
    return content


def _construct(text: str) -> Any:
    _refuse_depth(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_surprises(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_depth(text: str) -> None:
    """Refuse lists and mappings within each other beyond ``_DEEPEST`` levels, before anything is composed.

    No file is deeper than twice its brackets and the columns before its blocks together, and nearly all files end
    here. For others the parser's events are counted, which needs no recursion.
    """
    columns = max(map(len, _BEFORE_A_BLOCK.findall(text)), default=0)
    if 2 * (len(_OPENING.findall(text)) + columns + 1) <= 10 * _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
                raise yaml.YAMLError(f"{where}lists and mappings are more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


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
            repeated = _first_repeated(keys)
            if repeated is not None:
                raise yaml.YAMLError(f"line {line}: the key {shorten(repeated)!r} is given twice")
            waiting.extend(part for pair in node.value for part in pair)
