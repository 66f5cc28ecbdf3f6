"""What every file that a person writes has in common: strict YAML, frozen models, and every fault with file and key."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError, model_validator

from hpclaunch.catalog import did_you_mean
from hpclaunch.errors import Fault, InvalidFile
from hpclaunch.units import MEMORY_FORMS, WALLTIME_FORMS, parse_memory, parse_walltime

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


class Strict(BaseModel):
    """A frozen piece of a file: an unknown key is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _walltime(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"a walltime is {WALLTIME_FORMS}")
    try:
        return parse_walltime(str(value))
    except ValueError as error:
        raise ValueError(f"{error} (write {WALLTIME_FORMS})") from None


def _memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"memory is {MEMORY_FORMS}")
    try:
        return parse_memory(str(value))
    except ValueError as error:
        raise ValueError(f"{error} (write {MEMORY_FORMS})") from None


Walltime = Annotated[int, BeforeValidator(_walltime)]
"""Seconds; written as a walltime."""
Memory = Annotated[int, BeforeValidator(_memory)]
"""Megabytes; written as an amount of memory."""
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Text that stays on one line of a script: no newline, no control character, not empty."""
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""A name that a shell can export."""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError("a value is text or a number")


Scalar = Annotated[str, BeforeValidator(_text)]
"""Text or a number, kept as text."""


class Environment(Strict):
    """What the ranks need around them: modules, then a venv or a conda environment, then lines of set-up, variables.

    ``python: current`` means the interpreter that runs hpclaunch.
    """

    modules: tuple[Line, ...] = ()
    venv: Line | None = None
    conda: Line | None = None
    python: Line | None = None
    setup: tuple[Line, ...] = ()
    variables: dict[VariableName, Scalar] = {}

    @model_validator(mode="after")
    def _one_python(self) -> Environment:
        if self.venv and self.conda:
            raise ValueError("'venv' and 'conda' exclude each other; keep one of them")
        return self


M = TypeVar("M", bound=BaseModel)


def read(path: Path, model: type[M], **extra: Any) -> M:
    """Return ``path`` as a ``model``; ``extra`` keys are added by the program, not by the file.

    Raises InvalidFile with every fault at once, each with the file and the key.
    """
    content = read_yaml(path)
    taken = [
        Fault(where=f"{path}: {key}", what="this key is set by hpclaunch itself") for key in extra if key in content
    ]
    if taken:
        raise InvalidFile(taken)
    try:
        return model.model_validate({**content, **extra})
    except ValidationError as error:
        raise InvalidFile([_fault(path, model, dict(detail)) for detail in error.errors()]) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises InvalidFile for unreadable, oversized, aliased or repeated content."""
    try:
        raw = path.read_bytes()
        if len(raw) > _LARGEST_FILE:
            raise InvalidFile(Fault(where=str(path), what=f"larger than {_LARGEST_FILE // 1024} KB"))
        content = _construct(raw.decode("utf-8"))
    except OSError as error:
        raise InvalidFile(Fault(where=str(path), what=f"cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError:
        raise InvalidFile(Fault(where=str(path), what="is not UTF-8 text")) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidFile(Fault(where=str(path), what=" ".join(f"is not valid YAML: {error}".split()))) from None
    if content is None:
        return {}
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
    """Refuse aliases (a small file can stand for a huge one) and keys said twice (YAML would keep the last)."""
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
                raise yaml.YAMLError(f"line {line}: the key {repeated[0]!r} is said twice")
            waiting.extend(part for pair in node.value for part in pair)


def _fault(path: Path, model: type[BaseModel], detail: dict[str, Any]) -> Fault:
    location = [str(part) for part in detail["loc"] if part != "[key]"]
    where = f"{path}: {'.'.join(location)}" if location else str(path)
    if detail["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        return Fault(
            where=where, what=f"unknown key{did_you_mean(location[-1], known)}", allowed=", ".join(sorted(known))
        )
    if detail["type"] == "missing":
        return Fault(where=where, what="this key is needed and not there")
    if detail["type"] == "string_pattern_mismatch":
        return Fault(where=where, what=f"{detail['input']!r} holds a character that may not stand here, or is empty")
    message = str(detail["msg"]).removeprefix("Value error, ")
    return Fault(where=where, what=message[:1].lower() + message[1:])


def _fields_at(model: type[BaseModel], location: list[str]) -> list[str]:
    """Return the keys that the model at this place of the file admits."""
    current: Any = model
    for part in location:
        found = _models_in(current.model_fields[part].annotation) if part in current.model_fields else [current]
        current = found[0] if found else current
    return list(current.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]
