"""The keywords of the Python interface, and how they become a request: the words and the checks of the command line."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from hpclaunch.actions.requesting import typed_times, typed_values
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, InvalidRequest, did_you_mean, shorten
from hpclaunch.core.keyword_types import Name, Settings, Time, Value
from hpclaunch.core.spec import PlaceOptions, Request, SubmitOptions

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.guidelines.choice import Objective

Program = Name | Sequence[Name]
"""A job's name, the path of a script, a program on PATH; or the words of a command, as `subprocess.run` takes them."""


class PlanOptions(PlaceOptions, total=False):
    """The keywords of `plan`: the flags of ``hpclaunch plan``.

    ``global_batch`` in samples; ``deadline``: the longest time; ``budget``: the highest cost, in the unit of the site;
    ``weight``: of time against cost, between 0 and 1, or ``prefer`` one of them; ``calibration``: a file with
    measurements; ``restarts``: how often it may start again; ``work``: how much a measured program of one's own is to
    train, such as ``"5M"``.
    """

    node_type: str | None
    environment_name: Name | None
    global_batch: int | None
    deadline: Time | None
    budget: float | None
    weight: float | None
    prefer: Literal["time", "cost"] | None
    calibration: Name | None
    restarts: int | None
    work: str | None


def refuse_unknown(verb: str, options: Mapping[str, object], allowed: type) -> None:
    """Raise TypeError, as Python does, for a keyword that the verb does not have."""
    known = [*getattr(allowed, "__annotations__", {})]
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{near}; it has {', '.join(known)}")


def submit_request(system: System, program: Program, options: SubmitOptions) -> Request:
    """Return the request of a submission. Raises InvalidRequest for a value that no command line could have."""
    typed = _flag_values(options, SubmitOptions, _OF_THE_PROGRAM)
    from_script = program if _flag("from_script", options.get("from_script")) else None
    arguments = _texts("arguments", options.get("arguments"))
    what = _program_of(program, arguments, from_script, options.get("as_is") or False)
    request = typed_values.request_of(system, typed, several_types=True, **what)
    if from_script is None:
        return request
    from hpclaunch.actions.requesting.from_script import request_from_script

    return request_from_script(system, request, _text("program", from_script) or "")


def runs_folder(options: SubmitOptions) -> str | None:
    """Return the folder for run directories, if one is given."""
    return _text("runs_dir", options.get("runs_dir"))


def plan_request(job: Name, options: PlanOptions) -> Request:
    """Return the request of a plan. Raises InvalidRequest."""
    typed = _flag_values(options, PlanOptions, _OF_THE_PLAN)
    settings = typed_values.settings_of(typed.pop("set_"))
    return Request(target=os.fspath(job), hosts_file=typed.pop("hosts"), settings=settings, **typed)


def plan_objective(options: PlanOptions) -> Objective:
    """Return what a plan is for. Raises InvalidRequest."""
    deadline = _seconds("deadline", options.get("deadline"))
    return typed_values.objective_of(deadline, options.get("budget"), options.get("weight"), options.get("prefer"))


def global_batch_of(options: PlanOptions) -> int | None:
    """Return the global batch size in samples, if one is given. Raises InvalidRequest."""
    return whole_number("global_batch", options.get("global_batch"))


def work_of(options: PlanOptions) -> float | None:
    """Return how much is to be trained, in what the program's rate counts. Raises InvalidRequest."""
    return typed_values.amount_of_work(_text("work", options.get("work")))


def _program_of(
    program: Program, arguments: tuple[str, ...], from_script: Program | None, as_is: bool
) -> typed_values.TypedProgram:
    """Return what to run: a list is a command, anything else a job, a script or a program."""
    if from_script is not None:
        return typed_values.program_of(None, arguments, from_script, as_is)
    if isinstance(program, str | os.PathLike):
        return typed_values.program_of(os.fspath(program), arguments, as_is=as_is)
    return typed_values.program_of(None, (*_texts("program", program), *arguments))


def _refusal(name: str, value: object, allowed: str) -> InvalidRequest:
    return InvalidRequest(Fault(where=name, what=f"{shorten(repr(value))} is not allowed", allowed=allowed))


def _text(name: str, value: Any) -> str | None:
    """Return a text or a path as text; None if it is not given."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise _refusal(name, value, "text")


def _texts(name: str, values: Any) -> tuple[str, ...]:
    """Return texts; a single one is a sequence of one."""
    if values is None:
        return ()
    one = isinstance(values, str | os.PathLike)
    if not one and not isinstance(values, Iterable):
        raise _refusal(name, values, "text, or a sequence of texts")
    found = [_text(name, value) for value in ([values] if one else values)]
    return tuple(text for text in found if text is not None)


def whole_number(name: str, value: Any, least: int = 1) -> int | None:
    """Return a whole number that is at least ``least``; None if it is not given. Raises InvalidRequest."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise _refusal(name, value, f"a whole number, at least {least}")
    return number


def _flag(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise _refusal(name, value, "True or False")


def _seconds(name: str, value: Any) -> int | None:
    """Return a time in seconds; None if it is not given. Raises InvalidRequest."""
    if isinstance(value, str):
        return typed_times.seconds_of(value, name)
    return whole_number(name, round(value.total_seconds()) if isinstance(value, timedelta) else value)


def _megabytes(name: str, value: Any) -> int | None:
    return typed_values.megabytes_of(value) if isinstance(value, str) else whole_number(name, value)


def _node_types(name: str, value: Any) -> str | None:
    """Return node types as ``--node-type`` has them."""
    if isinstance(value, Mapping):
        value = ",".join(f"{node_type}:{number}" for node_type, number in value.items())
    return _text(name, value)


def _spell_value(name: str, value: Any) -> str:
    """Return a value as the command line spells it: ``true``, ``0.1``, and ``30,60`` for a sequence."""
    if isinstance(value, bool | int | float | str):
        return spell(value)
    if isinstance(value, Sequence):
        return ",".join(_spell_value(name, one) for one in value)
    as_plain = getattr(value, "tolist", None)  # a number or an array of NumPy
    if callable(as_plain):
        return _spell_value(name, as_plain())
    raise _refusal(name, value, "True, False, a number, text, or a sequence of these")


def _settings(_name: str, settings: Settings | None) -> list[str]:
    return [f"{key}={_spell_value(f'settings: {key}', value)}" for key, value in (settings or {}).items()]


def _variables(name: str, variables: Mapping[str, Value] | None) -> list[str]:
    return [f"{key}={_spell_value(name, value)}" for key, value in (variables or {}).items()]


def _axes(_name: str, sweep: Mapping[str, str | Iterable[Value]] | None) -> list[str]:
    """Return the axes of a sweep as ``--sweep`` has them; a text is one already."""
    return [
        f"{key}={values if isinstance(values, str) else ','.join(_quote_value(key, value) for value in values)}"
        for key, values in (sweep or {}).items()
    ]


def _quote_value(key: str, value: Value) -> str:
    """Return one value of an axis, in quotes if it would be read as several."""
    text = _spell_value(f"sweep: {key}", value)
    if isinstance(value, str) and (not text or re.search(r'[",]|\.\.', text)):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text


_OF_THE_PROGRAM = ("arguments", "from_script", "as_is", "runs_dir")
_OF_THE_PLAN = ("global_batch", "deadline", "budget", "weight", "prefer", "calibration", "work")
"""Keywords that are no flag of a request."""
_FLAGS = {"settings": "set_", "modules": "module", "environment": "env", "environment_name": "environment"}
_FLAGS |= {"from_trial": "from_"}
"""Keyword -> the flag of the command line, where it has another name."""
_MAY_BE_ZERO = ("gpus_per_node", "restarts")
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "str | None": _text,
    "Name | None": _text,
    "Names | None": _texts,
    "int | None": lambda name, value: whole_number(name, value, 0 if name in _MAY_BE_ZERO else 1),
    "bool": lambda name, value: _flag(name, value) or False,
    "bool | None": _flag,
    "Time | None": _seconds,
    "int | str | None": _megabytes,
    "str | Mapping[str, int] | None": _node_types,
    "Settings | None": _settings,
    "Mapping[str, Value] | None": _variables,
    "Mapping[str, str | Iterable[Value]] | None": _axes,
}
"""The type of a keyword -> the function that reads its value: a new keyword is one line of `SubmitOptions`."""


def _flag_values(options: Mapping[str, Any], allowed: type, others: Sequence[str]) -> dict[str, Any]:
    """Return flag -> value of all keywords but the ``others``, as the command line has them. Raises InvalidRequest."""
    return {
        _FLAGS.get(name, name): _READERS[kind.__forward_arg__](name, options.get(name))
        for name, kind in allowed.__annotations__.items()
        if name not in others
    }
