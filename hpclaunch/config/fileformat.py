"""Reads YAML files into frozen dataclasses, and reports all faults of a file at once, each with file and key."""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from hpclaunch.config.kept_values import read_kept
from hpclaunch.config.wording import shown
from hpclaunch.core.errors import Fault, InvalidFile, did_you_mean, shorten
from hpclaunch.core.records import placed_record, record
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.core.spec import FRAMEWORKS
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS, parse_memory, parse_walltime
from hpclaunch.launchers import LAUNCHERS

_NOUNS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


# --- the types of value that the files share


@placed_record
class Before:
    """Marks a type whose written value is first converted by ``convert``, which raises ValueError for a fault."""

    convert: Callable[[Any], Any]


@placed_record
class ReadBy:
    """Marks a type that ``read`` reads: from the written value, its place, and the list that it adds faults to."""

    read: Callable[[Any, "Place", "Faults"], Any]


@placed_record
class Matching:
    """Marks a text that must match completely; ``what`` says what is allowed."""

    pattern: re.Pattern[str]
    what: str


@placed_record
class AtLeast:
    """Marks a number with a lower bound, or a mapping or list with a least number of members."""

    least: int


@placed_record
class AtMost:
    """Marks a number with an upper bound."""

    most: int


@record
class OneOf:
    """Marks a text that must be one of the names of a table."""

    names: tuple[str, ...]


def _walltime(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"a walltime must be {WALLTIME_FORMS}")
    try:
        return parse_walltime(str(value))
    except ValueError as error:
        raise ValueError(f"{error} (write {WALLTIME_FORMS})") from None


def _memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"memory must be {MEMORY_FORMS}")
    try:
        return parse_memory(str(value))
    except ValueError as error:
        raise ValueError(f"{error} (write {MEMORY_FORMS})") from None


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError("is not text or a number")


Walltime = Annotated[int, Before(_walltime)]
"""Seconds; the file writes a walltime."""
Memory = Annotated[int, Before(_memory)]
"""Megabytes; the file writes an amount of memory."""
Scalar = Annotated[str, Before(_scalar)]
"""Text or a number, stored as text."""
PositiveInt = Annotated[int, AtLeast(1)]
NotNegative = Annotated[float, AtLeast(0)]
_ONE_LINE = Matching(re.compile(r"[^\x00-\x1f\x7f]+"), "text on one line, not empty, no control character")
Line = Annotated[str, _ONE_LINE]
"""Text that fits on one line of a script."""
ScalarLine = Annotated[str, Before(_scalar), _ONE_LINE]
"""Text or a number that fits on one line of a script."""
VariableName = Annotated[str, Matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "letters, digits and _, no digit first")]
"""A name that a shell can export."""
TypeName = Annotated[
    str, Matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*"), "letters, digits and _ . + -, a letter or digit first")
]
"""A name that can be a folder of measurements, and part of ``--node-type A:1,B:4``."""
LauncherName = Annotated[str, OneOf(names=tuple(LAUNCHERS))]
FrameworkName = Annotated[str, OneOf(names=FRAMEWORKS)]
SchedulerName = Annotated[str, OneOf(names=tuple(SCHEDULERS))]
RuntimeName = Annotated[str, OneOf(names=tuple(RUNTIMES))]


@record
class Environment:
    """The software environment of the ranks: modules, a venv or a conda environment, lines of set-up, variables.

    ``python: current`` is the interpreter that runs hpclaunch. ``container`` is an image for the site's runtime.
    ``sbatch``: options by which the scheduler itself provides the software (``--uenv=IMAGE`` at CSCS).
    """

    modules: tuple[Line, ...] = field(default=(), metadata=shown("{}"))
    container: Line | None = field(default=None, metadata=shown("{}"))
    venv: Line | None = field(default=None, metadata=shown("{}"))
    conda: Line | None = field(default=None, metadata=shown("{}"))
    python: Line | None = field(default=None, metadata=shown("{}"))
    setup: tuple[Line, ...] = field(default=(), metadata=shown("{}", joiner="; "))
    variables: dict[VariableName, Scalar] = field(default_factory=dict)
    sbatch: tuple[Line, ...] = field(default=(), metadata=shown("with {}"))

    def __post_init__(self) -> None:
        if self.venv and self.conda:
            raise ValueError("'venv' and 'conda' cannot be used together; remove one of them")

    @property
    def has_python(self) -> bool:
        """Whether it determines which Python runs."""
        return bool(self.venv or self.conda or self.python or self.container)

    def under(self, stronger: "Environment") -> "Environment":
        """Return one environment, in which ``stronger`` overrides this one.

        The lines of set-up of both are joined. A container replaces the modules of the weaker level, and what its
        scheduler provides.
        """
        software = stronger if stronger.has_python else self
        weaker_modules = () if stronger.container else self.modules
        return Environment(
            modules=stronger.modules or weaker_modules,
            container=software.container,
            venv=software.venv,
            conda=software.conda,
            python=software.python,
            setup=(*self.setup, *stronger.setup),
            variables={**self.variables, **stronger.variables},
            sbatch=stronger.sbatch or (() if stronger.container else self.sbatch),
        )


# --- from plain values to dataclasses

T = TypeVar("T")
INTERNAL = {"internal": True}
"""Marks a field (``metadata=INTERNAL``) that the program sets, and a file must not."""
Faults = list[Fault]
_FAULTY = object()
_MOST_FAULTS = 100
"""A file with more was not written as one of hpclaunch's, and its faults are not all listed."""
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


def read(path: Path, cls: type[T], kept: Path | None = None, **extra: Any) -> T:
    """Return the content of ``path`` as a ``cls`` (a dataclass); ``extra`` are values that the program sets.

    ``kept``: the folder in which `kept_values` keeps what was read. Raises InvalidFile with all faults at once, each
    with the file and the key.
    """
    content = read_kept(path, kept)
    own = {*extra, *(item.name for item in dataclasses.fields(cls) if item.metadata == INTERNAL)}  # type: ignore[arg-type]
    taken = "hpclaunch itself sets this key"
    faults = [Fault(where=f"{path}: {key}", what=taken, next="leave it out") for key in content if key in own]
    rest = {key: member for key, member in content.items() if key not in own}
    value = _read_record(cls, rest, Place(str(path), ()), faults, extra)
    if faults:
        raise InvalidFile(faults)
    return typing.cast(T, value)


class Place(NamedTuple):
    """Where a value is written: the file, and the keys that lead to it."""

    file: str
    keys: tuple[str, ...]

    def __truediv__(self, key: object) -> "Place":
        return Place(self.file, (*self.keys, str(key)))

    def fault(self, what: str, allowed: str = "") -> Fault:
        where = f"{self.file}: {'.'.join(self.keys)}" if self.keys else self.file
        return Fault(where=where, what=what, allowed=allowed)


@record
class KeyFault:
    """A fault that a record finds at a key below it, after its values were read one by one."""

    keys: tuple[str, ...]
    what: str
    allowed: str = ""


class KeyFaults(ValueError):
    """All faults of a record, each with its keys."""

    def __init__(self, faults: Sequence[KeyFault]) -> None:
        super().__init__("; ".join(f"{'.'.join(fault.keys)}: {fault.what}" for fault in faults))
        self.faults = faults


def value_of(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    """Return ``value`` as ``cls``. If it is invalid, note the fault and return a placeholder, so reading continues.

    Raises InvalidFile at once if there are very many faults already.
    """
    if len(faults) >= _MOST_FAULTS:
        raise InvalidFile(faults)
    reader = _READERS.get(typing.get_origin(cls))
    if reader is None:
        reader = _read_record if dataclasses.is_dataclass(cls) else _read_plain
    return reader(cls, value, place, faults)


def _read_plain(cls: type, value: Any, place: Place, faults: Faults) -> Any:
    if cls is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            faults.append(place.fault(f"{_describe(value)} is too large"))
            return _FAULTY
    if type(value) is not cls:
        faults.append(place.fault(f"{_describe(value)} is not {_NOUNS[cls]}"))
        return _FAULTY
    return value


def _describe(value: Any) -> str:
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value)) or shorten(repr(value), 80)


def _read_constrained(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    base, *constraints = typing.get_args(cls)
    for constraint in constraints:
        if isinstance(constraint, ReadBy):
            return constraint.read(value, place, faults)
        if isinstance(constraint, Before):
            try:
                value = constraint.convert(value)
            except ValueError as error:
                faults.append(place.fault(str(error)))
                return _FAULTY
    before = len(faults)
    value = value_of(base, value, place, faults)
    if len(faults) > before:
        return value  # the other constraints cannot judge a value of a wrong type
    for constraint in constraints:
        faults += _violations(constraint, value, place)
    return value


def _violations(constraint: Any, value: Any, place: Place) -> Faults:
    """Return how a value of the right type violates one constraint."""
    found: Faults = []
    if isinstance(constraint, Matching) and not constraint.pattern.fullmatch(value):
        found.append(place.fault(f"{_describe(value)} is not allowed here", allowed=constraint.what))
    if isinstance(constraint, OneOf) and value not in constraint.names:
        found.append(_choice_fault(value, constraint.names, place))
    if isinstance(constraint, AtLeast):
        is_number = isinstance(value, int | float)
        size = value if is_number else len(value)
        if size < constraint.least:
            what = f"{value} is too small" if is_number else "has too few members"
            found.append(place.fault(what, allowed=f"at least {constraint.least}"))
    if isinstance(constraint, AtMost) and value > constraint.most:
        found.append(place.fault(f"{value} is too large", allowed=f"at most {constraint.most}"))
    return found


def _read_union(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    """Return the value as the first type that accepts it; if none does, note the faults of the last one.

    The last type is the most specific one, so its faults are the most helpful.
    """
    arms = typing.get_args(cls)
    if value is None and type(None) in arms:
        return None
    attempt: Faults = []
    for arm in arms:
        # A whole number stays one where both types of number are allowed.
        becomes_float = arm is float and int in arms and type(value) is int
        if arm is type(None) or becomes_float:
            continue
        attempt = []
        found = value_of(arm, value, place, attempt)
        if not attempt:
            return found
    faults += attempt
    return _FAULTY


def _read_choice(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    allowed = typing.get_args(cls)
    if value not in allowed or type(value) is not type(allowed[0]):  # True equals 1
        faults.append(_choice_fault(value, allowed, place))
    return value


def _choice_fault(value: Any, allowed: tuple[Any, ...], place: Place) -> Fault:
    near = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return place.fault(f"{_describe(value)} is not allowed{near}", allowed=", ".join(map(str, allowed)))


def _read_list(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    if not isinstance(value, list | tuple):
        faults.append(place.fault(f"{_describe(value)} is not a list"))
        return ()
    return tuple(value_of(typing.get_args(cls)[0], member, place / index, faults) for index, member in enumerate(value))


def _read_mapping(cls: Any, value: Any, place: Place, faults: Faults) -> Any:
    if not isinstance(value, Mapping):
        faults.append(place.fault(f"{_describe(value)} is not a mapping"))
        return {}
    key_cls, member_cls = typing.get_args(cls)
    return {
        value_of(key_cls, key, place / key, faults): value_of(member_cls, member, place / key, faults)
        for key, member in value.items()
    }


def _read_record(cls: Any, value: Any, place: Place, faults: Faults, extra: Mapping[str, Any] = _NOTHING) -> Any:
    """Return a mapping as a dataclass; ``extra`` are values that the program sets.

    The dataclass's module must keep its annotations as types (no ``from __future__ import annotations``).
    """
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        faults.append(place.fault(f"{_describe(value)} is not a mapping"))
        return _FAULTY
    before = len(faults)
    known = {item.name: item for item in dataclasses.fields(cls) if item.metadata != INTERNAL}
    unknown = [key for key in value if key not in known]
    faults += [_unknown_key(key, sorted(known), place) for key in unknown[:_MOST_FAULTS]]
    given = dict(extra)
    for key, member in value.items():
        if key in known:
            given[key] = value_of(known[key].type, member, place / key, faults)
    missing = [name for name, item in known.items() if name not in given and _is_required(item)]
    faults += [(place / name).fault("this key is required, but missing") for name in missing]
    # A dataclass checks its fields against each other, which needs all of them to be right.
    return _FAULTY if len(faults) > before else _construct(cls, given, place, faults)


def _construct(cls: Any, given: Mapping[str, Any], place: Place, faults: Faults) -> Any:
    """Return the dataclass with these fields; what its own check finds becomes faults."""
    try:
        return cls(**given)
    except KeyFaults as errors:
        for fault in errors.faults:
            where = Place(place.file, (*place.keys, *fault.keys))
            faults.append(where.fault(fault.what, allowed=fault.allowed))
    except ValueError as error:
        faults.append(place.fault(str(error)))
    return _FAULTY


def _unknown_key(key: object, allowed: list[str], place: Place) -> Fault:
    near = did_you_mean(str(key), allowed)
    return (place / shorten(str(key))).fault(f"unknown key{near}", allowed=", ".join(allowed))


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


_READERS: dict[Any, Callable[[Any, Any, Place, Faults], Any]] = {
    Annotated: _read_constrained,
    types.UnionType: _read_union,
    typing.Union: _read_union,
    Literal: _read_choice,
    tuple: _read_list,
    dict: _read_mapping,
}
