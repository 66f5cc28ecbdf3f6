"""The hyper-parameters of a job: rows of its own, and those of the catalogue that its program reads too."""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from math import inf
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from hpclaunch.config.documents import read_json
from hpclaunch.config.fileformat import INTERNAL, Before, Faults, Matching, Place, value_of
from hpclaunch.core.errors import InvalidFile, did_you_mean
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.records import record

Value = bool | int | float | str
Type = Literal["bool", "int", "float", "text", "epochs"]
ParameterName = Annotated[str, Matching(re.compile("[a-z][a-z0-9_]*"), "small letters, digits and _")]
FROM = "from"
CATALOGUE = Path("training", "parameters.json")
"""In the package hpclaunch; a data file, which hpclaunch.training.options reads too."""
_TYPES: dict[type, Type] = {bool: "bool", int: "int", float: "float", str: "text"}
_NOUNS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "text": "text",
    "epochs": "epochs above 0 in ascending order, such as 30,60,80",
}


@record
class Parameter:
    """A hyper-parameter. Its default fixes its type, unless ``type`` does; ``choices`` are all that is allowed.

    A number may have bounds: ``at_least``, ``above``, ``below`` and ``at_most``; one that has some is finite.
    ``group`` is a heading for readers. ``builtin`` is the value that the program takes without being told; None where
    hpclaunch does not know it.
    """

    default: bool | int | float | str
    help: str = ""
    type: Type | None = None
    choices: tuple[Value, ...] = ()
    at_least: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    at_most: int | float | None = None
    group: str = ""
    builtin: Value | None = field(default=None, metadata=INTERNAL)

    def __post_init__(self) -> None:
        if self.type is not None:
            object.__setattr__(self, "default", _converted(self.default, self.type))
        if not self.bounds:
            return
        if self.kind not in ("int", "float"):
            raise ValueError("only a number has bounds (at_least, above, below, at_most)")
        limits = (self.at_least, self.above, self.below, self.at_most)
        if not all(-inf < limit < inf for limit in limits if limit is not None):
            raise ValueError("a bound is a finite number")
        for value in (self.default, *self.choices):
            if not self._is_within(value):
                raise ValueError(f"{spell(value)}, the default or a choice, is not {self.bounds}")

    @property
    def kind(self) -> Type:
        """What its values are."""
        return self.type or _TYPES[self.default.__class__]

    @property
    def bounds(self) -> str:
        """What a number must be, such as ``at least 0 and below 1``; empty without bounds."""
        said = {"at least": self.at_least, "above": self.above, "below": self.below, "at most": self.at_most}
        return " and ".join(f"{word} {bound}" for word, bound in said.items() if bound is not None)

    def parse(self, text: str) -> Value:
        """Return typed text as this parameter's type. Raises ValueError saying what is allowed."""
        return self._admitted(_read_text(text, self.kind), repr(text))

    def with_default(self, value: Value) -> "Parameter":
        """Return it with another default, as a file writes it. Raises ValueError saying what is allowed."""
        return replace(self, default=self._admitted(_converted(value, self.kind), repr(value)))

    def _admitted(self, value: Value, shown: str) -> Value:
        if self.choices and value not in self.choices:
            allowed = [spell(choice) for choice in self.choices]
            raise ValueError(f"{shown} is not one of {', '.join(allowed)}{did_you_mean(spell(value), allowed)}")
        if self.bounds and not self._is_within(value):
            raise ValueError(f"{shown} is not a number that is {self.bounds}")
        return value

    def _is_within(self, value: Any) -> bool:
        return (
            -inf < value < inf
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
        )


def spell(value: Value) -> str:
    """Return a value as a job's command line takes it: ``true`` and ``false`` for booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_text(text: str, kind: Type) -> Value:
    """Return typed text as a value. Raises ValueError."""
    if kind == "bool":
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"{text!r} is not true or false")
    if kind in ("text", "epochs"):
        return _converted(text, kind)
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {_NOUNS[kind]}") from None


def _converted(value: Value, kind: Type) -> Value:
    """Return a value of a file as that kind: a whole number as a number too, epochs always spelled alike."""
    try:
        if kind == "float" and value.__class__ is int:
            return float(value)
        if kind == "epochs" and isinstance(value, str):
            return _epochs(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{value!r} is not {_NOUNS[kind]}") from None
    if _TYPES[value.__class__] != kind:
        raise ValueError(f"{value!r} is not {_NOUNS[kind]}")
    return value


def _epochs(text: str) -> str:
    """Return epochs in one spelling: ``30.0, 60`` is ``30,60``. Raises ValueError."""
    found = [float(part) for part in text.split(",")] if text.strip() else []
    if not all(0 < epoch < inf for epoch in found) or found != sorted(set(found)):
        raise ValueError
    return ",".join(str(int(epoch)) if epoch.is_integer() else str(epoch) for epoch in found)


# --- reading the parameters of a job file

_Rows = dict[str, Parameter]
_OWN_ROW = "{default: …, help: …} for a parameter of the job's own"


@record
class _Change:
    """What a job may say of a parameter of the catalogue."""

    # None: the file does not say it. Null is none of these types, so a file cannot say that.
    default: bool | int | float | str = None  # type: ignore[assignment]
    help: str = None  # type: ignore[assignment]


def _row(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


def read_parameters(value: Any, place: Place, faults: Faults) -> _Rows:
    """Return a job's parameters by name: those that ``from`` names, then its own. What is wrong is added to ``faults``.

    ``from`` names groups of the catalogue, and JSON files beside the job file, which hold the same as ``parameters``.
    What ``from`` says is what the program takes without being told.
    """
    if not isinstance(value, Mapping) or FROM not in value:
        return value_of(dict[ParameterName, Annotated[Parameter, Before(_row)]], value, place, faults)  # type: ignore[no-any-return]
    rows: _Rows = {}
    before = len(faults)
    for source, where in _sources(value[FROM], place / FROM, faults):
        rows |= _file(source, where, faults) if source.endswith(".json") else _group(source, where, faults)
    return rows if len(faults) > before else _with_own(value, rows, place, faults)


def _sources(named: Any, place: Place, faults: Faults) -> list[tuple[str, Place]]:
    """Return each name in ``from``, and where it stands."""
    if isinstance(named, str):
        return [(named, place)]
    names = value_of(tuple[str, ...], named, place, faults)
    return [(name, place / number) for number, name in enumerate(names) if isinstance(name, str)]


def _group(name: str, place: Place, faults: Faults) -> _Rows:
    """Return the parameters of a group of the catalogue."""
    catalogue = catalogue_of(Path(place.file).parent)
    groups = read_json(catalogue).get("groups", {})
    if name not in groups:
        near, allowed = did_you_mean(name, groups), f"{', '.join(groups)}, or a JSON file in the job's folder"
        faults.append(place.fault(f"the catalogue has no group {name!r}{near}", allowed=allowed))
        return {}
    rows: _Rows = {}
    for part in _parts(groups, name):
        for key, row in groups[part].items():
            ours = {"choices": tuple(row.get("choices", ())), "group": part.replace("_", " ")}
            try:  # quicker than value_of; tests read the catalogue as a person's file
                rows[key] = Parameter(**{**row, **ours, "builtin": row.get("default")})
            except (TypeError, ValueError) as error:  # the catalogue of a run's code may be of another version
                faults.append(Place(str(catalogue), ("groups", part, key)).fault(str(error)))
    return rows


def _parts(groups: Mapping[str, Any], name: str) -> list[str]:
    """Return the groups that hold the parameters of a group: itself, or those that it names."""
    if not isinstance(groups[name], list):
        return [name]
    return [part for inner in groups[name] for part in _parts(groups, inner)]


def catalogue_of(folder: Path) -> Path:
    """Return the catalogue that a program in ``folder`` reads: of the package beside it, as in RUN/code, or of ours."""
    beside = folder / "hpclaunch" / CATALOGUE
    return beside if beside.is_file() else PACKAGE / CATALOGUE


def _file(name: str, place: Place, faults: Faults) -> _Rows:
    """Return the parameters in a JSON file of the job, which its program reads too."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        faults.append(place.fault(f"{name!r} is not a file in the job's folder"))
        return {}
    file = Path(place.file).parent / name
    try:
        content = read_json(file)
    except InvalidFile as error:
        faults += error.faults
        return {}
    inside = Place(str(file), ())
    if any(source.endswith(".json") for source, _ in _sources(content.get(FROM, []), inside, [])):
        faults.append((inside / FROM).fault("names another file", allowed="groups of the catalogue"))
        return {}
    before = len(faults)
    rows = read_parameters(content, inside, faults)
    if len(faults) > before:
        return {}
    return {key: row if row.builtin == row.default else replace(row, builtin=row.default) for key, row in rows.items()}


def _with_own(value: Mapping[str, Any], rows: _Rows, place: Place, faults: Faults) -> _Rows:
    """Return the rows with the job's own defaults over them, and with its own parameters."""
    found = dict(rows)
    for key, written in value.items():
        where = place / key
        if key == FROM:
            continue
        if key in rows:
            found[key] = _changed(rows[key], written, where, faults)
        elif isinstance(written, Mapping):
            value_of(ParameterName, key, where, faults)
            found[key] = value_of(Parameter, written, where, faults)
        else:
            near = did_you_mean(str(key), rows)
            allowed = f"{', '.join(rows)}; {_OWN_ROW}"
            faults.append(where.fault(f"'from' brings no parameter of this name{near}", allowed=allowed))
    return found


def _changed(row: Parameter, written: Any, place: Place, faults: Faults) -> Parameter:
    """Return a parameter of the catalogue with the job's own default, or its own help."""
    before = len(faults)
    change = value_of(_Change, _row(written), place, faults)
    if len(faults) > before:
        return row
    try:
        changed = row if change.default is None else row.with_default(change.default)
    except ValueError as error:
        faults.append(place.fault(str(error)))
        return row
    return changed if change.help is None else replace(changed, help=change.help)
