"""The options of a training script (--name=value, true/false), from parameters.json; it needs no TensorFlow."""

from __future__ import annotations

import argparse
import json
import operator
import os
import pkgutil
import sys
from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence, Tuple

from hpclaunch.training.optimization import learning_rate
from hpclaunch.training.rank import strategies

TRAINING_PARAMETERS = "parameters.json"  # beside this module
OF_A_JOB = "parameters.json"  # beside a job's script; its job.yaml says "parameters: {from: parameters.json}"
FROM = "from"
_NOT_TYPED = object()
Row = Dict[str, Any]
_BOUNDS = (("at_least", operator.ge), ("above", operator.gt), ("below", operator.lt), ("at_most", operator.le))


class Parser(argparse.ArgumentParser):
    """A parser of options. divisors: options, each with one whose value it must divide."""

    divisors: Sequence[Tuple[str, str]] = ()


def job_parser(description: str, script: str) -> argparse.ArgumentParser:
    """A parser with the parameters of a job: those in the file parameters.json beside its `script`."""
    return parser(description, of_job(script))


def of_job(script: str) -> dict[str, Any]:
    """The parameters of a job: those in the file parameters.json beside its `script`."""
    with open(os.path.join(os.path.dirname(os.path.abspath(script)), OF_A_JOB), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def parser(description: str, parameters: Mapping[str, Any]) -> argparse.ArgumentParser:
    """A parser with these parameters, and with the options that hpclaunch itself passes to a program.

    parameters: as in a job file, such as {"from": "images", "epochs": 12}: groups of the training techniques, the
    program's own defaults, and its own parameters, such as {"size": {"default": 64, "help": "pixels per side"}}.
    """
    made = Parser(description=description, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--data-dir", default="", help="the data set's folder or its parent (empty: HPCLAUNCH_DATA_DIR)")
    made.add_argument(
        "--default", metavar="NAME=VALUE", action="append", help="another default for one of the options below"
    )
    strategies.add_option(made)
    groups: Dict[str, Any] = {}
    rows = rows_of(parameters)
    made.divisors = [(name, other) for name, row in rows.items() for other in _several(row.get("divides", ()))]
    for name, row in rows.items():
        title = row.get("group", "of this program")
        if title not in groups:
            groups[title] = made.add_argument_group(title)
        _add(groups[title], name, row)
    return made


def rows_of(parameters: Mapping[str, Any]) -> Dict[str, Row]:
    """The parameters, a row for each: its default, type, bounds, choices, help and group.

    Raises KeyError for an unknown group. hpclaunch checks a job's file before it submits the job.
    """
    groups = _training_parameters()["groups"]
    named = parameters.get(FROM, [])
    rows: Dict[str, Row] = {}
    for name in [named] if isinstance(named, str) else named:
        rows.update(_group(groups, name))
    for name, value in parameters.items():
        if name != FROM:
            rows[name] = {**rows.get(name, {}), **(value if isinstance(value, dict) else {"default": value})}
    return rows


def parse(made: argparse.ArgumentParser, words: Sequence[str] | None = None) -> tuple[argparse.Namespace, set[str]]:
    """Read the command line: the values, and the names of the typed options.

    A value of --default is a default, and does not count as typed.
    """
    words = sys.argv[1:] if words is None else words
    names = vars(made.parse_args(words))
    defaults = ["--" + word for word in names.pop("default") or ()]
    asked = made.parse_args([*defaults, *words])
    del asked.default
    for name, other in getattr(made, "divisors", ()):
        value, whole = getattr(asked, name), getattr(asked, other)
        if whole % value:
            made.error("--{}={} does not divide --{}={}".format(name, value, other, whole).replace("_", "-"))
    typed = made.parse_args(words, argparse.Namespace(**dict.fromkeys(names, _NOT_TYPED)))
    return asked, {name for name in names if getattr(typed, name) is not _NOT_TYPED}


def _several(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


def chosen(made: argparse.ArgumentParser, words: Sequence[str] | None = None) -> set[str]:
    """The names of the options that are typed, or that --default gives another default."""
    words = sys.argv[1:] if words is None else words
    defaults = made.parse_args(words).default or ()
    return parse(made, words)[1] | {word.partition("=")[0].replace("-", "_") for word in defaults}


def data_dir(typed: str) -> str:
    """The data folder: the typed one, else HPCLAUNCH_DATA_DIR, else empty."""
    return typed or os.environ.get("HPCLAUNCH_DATA_DIR", "")


def boolean(text: str) -> bool:
    """Read true or false (also 1/0, yes/no, on/off); raises for anything else."""
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise argparse.ArgumentTypeError("{!r}: true or false is expected".format(text))


def epochs(text: str) -> tuple[float, ...]:
    """Read epochs such as 30,60,80; raises for anything else."""
    try:
        return learning_rate.epochs_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def number(kind: Callable[[str], Any], row: Row) -> Callable[[str], Any]:
    """A type for argparse: a number of `kind` (int or float) within the row's bounds; with bounds it is finite."""
    bounds = [(name, row[name], holds) for name, holds in _BOUNDS if row.get(name) is not None]
    allowed = " and ".join("{} {}".format(name.replace("_", " "), bound) for name, bound, _ in bounds)

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        finite = value is not None and (not bounds or float("-inf") < value < float("inf"))
        if not finite or not all(holds(value, bound) for _, bound, holds in bounds):
            raise argparse.ArgumentTypeError("{!r}: a number {} is expected".format(text, allowed).replace("  ", " "))
        return value

    return read


def check_default(name: str, row: Row) -> None:
    """Raise ValueError if the default of a row is not a value that its option would accept."""
    default = row["default"]
    text = str(default).lower() if isinstance(default, bool) else str(default)
    try:
        _reader(row)(text)
    except argparse.ArgumentTypeError as error:
        raise ValueError("{}: {}".format(name, error)) from None
    except ValueError:
        raise ValueError("{}: {!r} is not a value of the type {}".format(name, default, row.get("type"))) from None
    if row.get("choices") and default not in row["choices"]:
        raise ValueError("{}: {!r} is not one of {}".format(name, default, ", ".join(row["choices"])))


def _add(group: Any, name: str, row: Row) -> None:
    default, reader = row["default"], _reader(row)
    if row.get("type") in ("float", "epochs"):  # JSON's 5 is 5.0, and its "30,60" is (30.0, 60.0)
        default = reader(str(default))
    group.add_argument(
        "--" + name.replace("_", "-"),
        type=reader,
        default=default,
        choices=row.get("choices"),
        help=row.get("help", "").replace("%", "%%") or " ",
    )


def _reader(row: Row) -> Callable[[str], Any]:
    """The function that reads the text of an option: by the row's type, or by the type of its default."""
    kind = row.get("type") or {bool: "bool", int: "int", float: "float"}.get(type(row["default"]), "text")
    readers: Dict[str, Callable[[str], Any]] = {
        "bool": boolean,
        "int": number(int, row),
        "float": number(float, row),
        "text": str,
        "epochs": epochs,
    }
    return readers[kind]


def _group(groups: Mapping[str, Any], name: str) -> Dict[str, Row]:
    """The rows of a group, or of all the groups that it lists."""
    held = groups[name]
    if isinstance(held, list):
        return {key: row for part in held for key, row in _group(groups, part).items()}
    return {key: {**row, "group": name.replace("_", " ")} for key, row in held.items()}


def default_of(name: str) -> Any:
    """The default of an option of the training techniques. Raises KeyError for an unknown one."""
    groups = _training_parameters()["groups"].values()
    rows = {option: row for rows in groups if isinstance(rows, dict) for option, row in rows.items()}
    return rows[name]["default"]


class Idle(NamedTuple):
    """An option that has no effect on a training: for lack of `needs`; its value if not given; and why, in words."""

    name: str
    needs: str
    off: Any
    why: str


def idle(asked: Any) -> list[Idle]:
    """The options without effect on this training, by the rows `effects` of parameters.json."""
    found = []
    for name, row in _training_parameters()["effects"].items():
        value = getattr(asked, name, row["off"])
        if value == row["off"] or not (value or row["off"]):
            continue
        why = _why_idle(asked, row)
        if why:
            needs = row["needs"] if "values" in row else row["needs"][0]
            found.append(
                Idle(name, needs, row["off"] or type(value)(), "--{} has {}".format(name, why).replace("_", "-"))
            )
    return found


def _why_idle(asked: Any, row: Mapping[str, Any]) -> str:
    """Why an option has no effect on this training; empty if it has."""
    if "values" not in row:
        if any(getattr(asked, need, False) for need in row["needs"]):
            return ""
        needs = ["--" + need + "=true" * isinstance(getattr(asked, need, 0), bool) for need in row["needs"]]
        return "an effect only with " + " or ".join(filter(None, (", ".join(needs[:-1]), needs[-1])))
    other = getattr(asked, row["needs"], None)
    if other is None or other in row["values"]:
        return ""
    if "instead" in row:
        return "no effect with --{}={}: use --{}".format(row["needs"], other, row["instead"])
    return "an effect only with --{}={}, not with {}".format(row["needs"], " or ".join(row["values"]), other)


class Conflict(NamedTuple):
    """Two options that exclude each other: `other`, whose default may give way; and why, in words."""

    other: str
    gives_way: bool
    why: str


def conflicts(asked: Any) -> list[Conflict]:
    """The options of this training that exclude others, by the rows `conflicts` of parameters.json."""
    found = []
    for name, rows in _training_parameters()["conflicts"].items():
        if _is_off(getattr(asked, name, False)):
            continue
        this = _option_in_words(name, getattr(asked, name))
        for row in rows:
            value = getattr(asked, row["other"], False)
            is_excluded = value in row["values"] if "values" in row else not _is_off(value)
            if not is_excluded:
                continue
            step = "omit one of them"
            if "instead" in row:
                step = "use {}, not {}".format(_option_in_words(row["instead"], True), this)
            why = "{} cannot be combined with {}, {}: {}".format(
                this, _option_in_words(row["other"], value), row["why"], step
            )
            found.append(Conflict(row["other"], row.get("gives_way", False), why))
    return found


def _is_off(value: Any) -> bool:
    """Whether it is false, 0, an empty text, or 1 of something that is divided or grouped if there are more."""
    return not value or (value == 1 and value is not True)


def _option_in_words(name: str, value: Any) -> str:
    """An option as it is typed."""
    text = str(value).lower() if isinstance(value, bool) else value
    return "--{}={}".format(name.replace("_", "-"), text)


def _training_parameters() -> Any:
    content = pkgutil.get_data(__name__, TRAINING_PARAMETERS)  # also from the archive that a run has of this library
    assert content is not None
    return json.loads(content.decode("utf-8"))
