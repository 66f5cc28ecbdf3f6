"""Reads the parameters of a job file: the job's own, and those of the training techniques."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from hpclaunch.config.fileformat import Before, Faults, Place, value_of
from hpclaunch.config.parameters import Conflict, Effect, Parameter, ParameterName, several
from hpclaunch.config.plain_files import read_json
from hpclaunch.core.errors import InvalidFile, did_you_mean
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.records import record

FROM = "from"
TRAINING_PARAMETERS = Path("training", "parameters.json")
"""A data file inside the package hpclaunch; hpclaunch.training.options reads it too (decision 25)."""
_Rows = dict[str, Parameter]
_OWN_ROW = "{default: …, help: …} for one of the job's own"


@record
class _Change:
    """What a job file may change of a parameter that comes with ``from``.

    ``divides`` and ``less_than`` take the place of its own.
    """

    # None: the file does not set it. A file cannot set null, which is none of these types.
    default: bool | int | float | str = None  # type: ignore[assignment]
    help: str = None  # type: ignore[assignment]
    divides: Annotated[tuple[ParameterName, ...], Before(several)] = ()
    less_than: Annotated[tuple[ParameterName, ...], Before(several)] = ()


def _row(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


def read_parameters(value: Any, place: Place, faults: Faults) -> _Rows:
    """Return a job's parameters by name: those of ``from``, then its own. Errors are added to ``faults``.

    ``from`` names groups of the training techniques, and JSON files beside the job file, which have the form of
    ``parameters``. The defaults of ``from`` are the program's own, so the command does not repeat them.
    """
    if not isinstance(value, Mapping) or FROM not in value:
        return value_of(dict[ParameterName, Annotated[Parameter, Before(_row)]], value, place, faults)  # type: ignore[no-any-return]
    rows: _Rows = {}
    before = len(faults)
    for source, where in _sources(value[FROM], place / FROM, faults):
        rows |= _file(source, where, faults) if source.endswith(".json") else _group(source, where, faults)
    return rows if len(faults) > before else _add_own(value, rows, place, faults)


def json_files_of(job_file: Path) -> list[Path]:
    """Return the JSON files beside a job file that it takes parameters from. Raises InvalidFile."""
    from hpclaunch.config.documents import read_yaml  # only for a job file that is not hpclaunch's own

    value = read_yaml(job_file).get("parameters")
    named = value.get(FROM, []) if isinstance(value, Mapping) else []
    return [
        job_file.parent / source
        for source, _ in _sources(named, Place(str(job_file), ()), [])
        if source.endswith(".json")
    ]


def _sources(named: Any, place: Place, faults: Faults) -> list[tuple[str, Place]]:
    """Return each name in ``from``, and its place in the file."""
    if isinstance(named, str):
        return [(named, place)]
    names = value_of(tuple[str, ...], named, place, faults)
    return [(name, place / number) for number, name in enumerate(names) if isinstance(name, str)]


def _group(name: str, place: Place, faults: Faults) -> _Rows:
    """Return the parameters of a group of the training techniques."""
    file = training_parameters_of(Path(place.file).parent)
    content = read_json(file)
    groups, effects, conflicts = (content.get(part, {}) for part in ("groups", "effects", "conflicts"))
    if name not in groups:
        near, allowed = did_you_mean(name, groups), f"{', '.join(groups)}, or a JSON file in the job's folder"
        faults.append(place.fault(f"no group of parameters is called {name!r}{near}", allowed=allowed))
        return {}
    rows: _Rows = {}
    for part in _parts(groups, name):
        for key, row in groups[part].items():
            ours: dict[str, Any] = {"choices": tuple(row.get("choices", ())), "group": part.replace("_", " ")}
            try:  # faster than value_of; a test reads the file with value_of
                effect = _effect_of(effects[key]) if key in effects else None
                ours |= {"effect": effect, "conflicts": tuple(map(_conflict_of, conflicts.get(key, ())))}
                rows[key] = Parameter(**{**row, **ours, "builtin": row.get("default")})
            except (TypeError, ValueError) as error:  # a file beside a run's code may be of another version
                faults.append(Place(str(file), ("groups", part, key)).fault(str(error)))
    return rows


def _effect_of(row: Mapping[str, Any]) -> Effect:
    return Effect(**{**row, "needs": tuple(several(row["needs"])), "values": tuple(row.get("values", ()))})


def _conflict_of(row: Mapping[str, Any]) -> Conflict:
    return Conflict(**{**row, "values": tuple(row.get("values", ()))})


def _parts(groups: Mapping[str, Any], name: str) -> list[str]:
    """Return the groups with the parameters of a group: the group itself, or those that it lists."""
    if not isinstance(groups[name], list):
        return [name]
    return [part for inner in groups[name] for part in _parts(groups, inner)]


def training_parameters_of(folder: Path) -> Path:
    """Return the file that a program in ``folder`` reads: from the copy beside it, as in RUN/code, or the installed."""
    beside = folder / "hpclaunch" / TRAINING_PARAMETERS
    return beside if os.path.isfile(beside) else PACKAGE / TRAINING_PARAMETERS


def _file(name: str, place: Place, faults: Faults) -> _Rows:
    """Return the parameters in a JSON file of the job, which the job's program reads too."""
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
        faults.append((inside / FROM).fault("names another JSON file", allowed="groups of parameters"))
        return {}
    before = len(faults)
    rows = read_parameters(content, inside, faults)
    if len(faults) > before:
        return {}
    return {key: row if row.builtin == row.default else replace(row, builtin=row.default) for key, row in rows.items()}


def _add_own(value: Mapping[str, Any], rows: _Rows, place: Place, faults: Faults) -> _Rows:
    """Return the rows with the job's own defaults in place of theirs, and with the job's own parameters."""
    found = dict(rows)
    for key, written in value.items():
        where = place / key
        if key == FROM:
            continue
        if key in rows:
            found[key] = _override(rows[key], written, where, faults)
        elif isinstance(written, Mapping):
            value_of(ParameterName, key, where, faults)
            found[key] = value_of(Parameter, written, where, faults)
        else:
            near = did_you_mean(str(key), rows)
            allowed = f"{', '.join(rows)}; {_OWN_ROW}"
            faults.append(where.fault(f"'from' contains no parameter of this name{near}", allowed=allowed))
    return found


def _override(row: Parameter, written: Any, place: Place, faults: Faults) -> Parameter:
    """Return a parameter of ``from`` with the job's own default or help text."""
    before = len(faults)
    change = value_of(_Change, _row(written), place, faults)
    if len(faults) > before:
        return row
    try:
        changed = row if change.default is None else row.with_default(change.default)
    except ValueError as error:
        faults.append(place.fault(str(error)))
        return row
    changed = changed if change.help is None else replace(changed, help=change.help)
    divides, less_than = change.divides or changed.divides, change.less_than or changed.less_than
    return replace(changed, divides=divides, less_than=less_than)
