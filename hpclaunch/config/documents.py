"""Reads YAML files as plain values, strictly: no repeated keys, no anchors, no large or deep files."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any

import yaml

from hpclaunch.config.plain_files import first_repeated, keyed_by_text, on_one_line, read_text_file
from hpclaunch.core.errors import Fault, InvalidFile, shorten

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
        raise InvalidFile(Fault(where=str(path), what=f"is not valid YAML: {on_one_line(error)}")) from None
    return keyed_by_text(path, {} if content is None else content)


def yaml_tree(text: str) -> Any:
    """Return the root of a YAML text's nodes, each with its places in the text. Raises InvalidFile."""
    try:
        return _Loader(text).get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where="text", what=f"is not valid YAML: {on_one_line(error)}")) from None


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
            repeated = first_repeated(keys)
            if repeated is not None:
                raise yaml.YAMLError(f"line {line}: the key {shorten(repeated)!r} is given twice")
            waiting.extend(part for pair in node.value for part in pair)
