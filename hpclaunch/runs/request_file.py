"""Reads what a person typed for a run (``request.json``), with the type of every value checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import json_object
from hpclaunch.core.spec import Request
from hpclaunch.runs.create import REQUEST


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_list_of_pairs(value: object) -> bool:
    return isinstance(value, list) and all(_is_list_of_texts(pair) and len(pair) == 2 for pair in value)


_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "str": (_is_text, "a text"),
    "int": (_is_number, "a whole number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "tuple[str, ...]": (_is_list_of_texts, "a list of texts"),
    "Pairs": (_is_list_of_pairs, "a list of pairs of texts"),
}
"""The type of a request's field -> how its value in the file is checked, and what is allowed."""


WITHOUT_REQUEST = "resume it without --nodes, --walltime and --recipe"


def read_request(run_dir: Path, otherwise: str = WITHOUT_REQUEST) -> tuple[Request, Path]:
    """Return the request of a run, and the folder in which it was typed. Names that are not known are left out.

    ``otherwise``: what the user can do without the file. Raises Refused if the file is missing, or with every value
    that has another type than its field.
    """
    file = run_dir / REQUEST
    recorded = json_object(inside.read_text(run_dir, REQUEST))
    problems = [problem for field in fields(Request) if (problem := _problem(field.name, str(field.type), recorded))]
    problems += [] if _is_text(recorded.get("cwd")) else ["'cwd' must be a text"]
    if problems:
        what = f"the file with the run's request is missing or damaged: {'; '.join(problems)}"
        raise Refused(Fault(where=str(file), what=what, next=otherwise))
    values = {field.name: _restore_tuples(recorded[field.name]) for field in fields(Request) if field.name in recorded}
    return Request(**values), Path(recorded["cwd"])


_REQUIRED = frozenset(field.name for field in fields(Request) if field.default is MISSING)


def _problem(name: str, annotation: str, recorded: dict[str, Any]) -> str:
    """Return what is wrong with one value; an empty text if it can be used, or has its default."""
    optional = annotation.endswith(" | None")
    is_valid, allowed = _TYPES[annotation.removesuffix(" | None")]
    if name not in recorded:
        return f"'{name}' is missing" if name in _REQUIRED else ""
    value = recorded[name]
    return "" if is_valid(value) or (optional and value is None) else f"'{name}' must be {allowed}"


def _restore_tuples(value: Any) -> Any:
    """Return JSON's lists as tuples, which they were before they were written."""
    return tuple(map(_restore_tuples, value)) if isinstance(value, list) else value
