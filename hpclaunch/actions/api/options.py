"""The keywords of the Python interface, and how they become a request: the words and the checks of the command line."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from hpclaunch.actions.requesting import typed_values
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Fault, InvalidRequest, did_you_mean, shorten
from hpclaunch.core.spec import Request

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.guidelines.choice import Objective

Name = str | os.PathLike[str]
"""A text, a path, or a run (whose path is its run directory)."""
Names = Name | Sequence[Name]
Value = bool | int | float | str
Settings = Mapping[str, Value | Sequence[Value]]
Time = int | str | timedelta
"""Whole seconds, a text as on the command line (``"2:00:00"``, ``"30m"``), or a timedelta."""
Program = Name | Sequence[Name]
"""A job's name, the path of a script, a program on PATH; or the words of a command, as `subprocess.run` takes them."""


class PlaceOptions(TypedDict, total=False):
    """Where a job runs, on how much, and with which settings. What is left out, or None, hpclaunch chooses.

    ``walltime`` in seconds or as text; ``memory`` per node in MB or as text (``"64G"``). ``settings``: the job's
    hyper-parameters by name. ``hosts``: a file with hosts, for a site without a scheduler.
    """

    site: str | None
    nodes: int | None
    tasks_per_node: int | None
    cpus_per_task: int | None
    gpus_per_node: int | None
    account: str | None
    partition: str | None
    qos: str | None
    walltime: Time | None
    memory: int | str | None
    settings: Settings | None
    recipe: str | None
    hosts: Name | None
    accept_unverified: bool


class SubmitOptions(PlaceOptions, total=False):
    """The keywords of `submit`: the flags of ``hpclaunch submit``, each under its own name with underscores.

    Four flags have another word here: ``settings`` (``--set``), ``environment`` (``--env``), ``modules``
    (``--module``), ``from_trial`` (``--from``). ``node_type`` may be a mapping: ``{"cpu": 1, "gpu": 4}``. ``sweep``:
    the values of each parameter, ``{"learning_rate": [0.1, 0.01], "seed": range(5)}``. ``after``, ``after_any``: runs,
    or their names. ``arguments``: the program's own, as after ``--``. ``from_script``: the program is a batch script of
    Slurm to take in; ``as_is``: one to submit unchanged.
    """

    arguments: Sequence[Name]
    node_type: str | Mapping[str, int] | None
    gpu_view: str | None
    launcher: str | None
    strategy: str | None
    framework: str | None
    name: str | None
    after: Names | None
    after_any: Names | None
    restarts: int | None
    signal: str | None
    python: Name | None
    venv: Name | None
    conda: Name | None
    environment_name: Name | None
    modules: Names | None
    environment: Mapping[str, Value] | None
    setup: Names | None
    from_script: bool
    as_is: bool
    include: Names | None
    code_in_place: bool
    broadcast: bool | None
    from_trial: str | None
    sweep: Mapping[str, str | Iterable[Value]] | None
    at_once: int | None
    sbatch: Names | None
    data_dir: Name | None
    synthetic: bool
    samples: bool | None
    runs_dir: Name | None


class PlanOptions(PlaceOptions, total=False):
    """The keywords of `plan`: the flags of ``hpclaunch plan``.

    ``global_batch`` in samples; ``deadline``: the longest time; ``budget``: the highest cost, in the unit of the site;
    ``weight``: of time against cost, between 0 and 1, or ``prefer`` one of them; ``calibration``: a file with
    measurements.
    """

    node_type: str | None
    environment_name: Name | None
    global_batch: int | None
    deadline: Time | None
    budget: float | None
    weight: float | None
    prefer: Literal["time", "cost"] | None
    calibration: Name | None


def refuse_unknown(verb: str, options: Mapping[str, object], allowed: type) -> None:
    """Raise TypeError, as Python does, for a keyword that the verb does not have."""
    known = [*getattr(allowed, "__annotations__", {})]
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{near}; it has {', '.join(known)}")


def submit_request(system: System, program: Program, options: SubmitOptions) -> Request:
    """Return the request of a submission. Raises InvalidRequest for a value that no command line could have."""
    node_type = options.get("node_type")
    if isinstance(node_type, Mapping):
        node_type = ",".join(f"{name}:{number}" for name, number in node_type.items())
    software = typed_values.software_of(
        _text("python", options.get("python")),
        _text("venv", options.get("venv")),
        _text("conda", options.get("conda")),
        _text("environment_name", options.get("environment_name")),
        _texts("modules", options.get("modules")),
        [f"{name}={_spell_value('environment', value)}" for name, value in (options.get("environment") or {}).items()],
    )
    from_script = program if _flag("from_script", options.get("from_script")) else None
    request = Request(
        **_program_of(
            program, _texts("arguments", options.get("arguments")), from_script, options.get("as_is") or False
        ),
        **_place_of(options),
        **typed_values.nodes_of(_text("node_type", node_type), _whole_number("nodes", options.get("nodes"))),
        gpu_view=_text("gpu_view", options.get("gpu_view")),
        launcher=_text("launcher", options.get("launcher")),
        strategy=_text("strategy", options.get("strategy")),
        framework=_text("framework", options.get("framework")),
        data_dir=_text("data_dir", options.get("data_dir")),
        synthetic=_flag("synthetic", options.get("synthetic")) or False,
        restarts=_whole_number("restarts", options.get("restarts"), 0),
        signal=_text("signal", options.get("signal")),
        **software,
        **typed_values.code_of(
            _texts("include", options.get("include")),
            _flag("code_in_place", options.get("code_in_place")) or False,
            _flag("broadcast", options.get("broadcast")),
        ),
        **typed_values.training_of(
            system,
            _text("from_trial", options.get("from_trial")),
            _settings(options.get("settings")),
            _text("recipe", options.get("recipe")),
        ),
        sweep=typed_values.axes_of(_axes(options.get("sweep"))),
        **typed_values.name_of(_text("name", options.get("name")), _texts("sbatch", options.get("sbatch"))),
        after=_texts("after", options.get("after")),
        after_any=_texts("after_any", options.get("after_any")),
        at_once=_whole_number("at_once", options.get("at_once")),
        samples=_flag("samples", options.get("samples")),
        setup=_texts("setup", options.get("setup")),
    )
    if from_script is None:
        return request
    from hpclaunch.actions.requesting.from_script import request_from_script

    return request_from_script(system, request, _text("program", from_script) or "")


def runs_folder(options: SubmitOptions) -> str | None:
    """Return the folder for run directories, if one is given."""
    return _text("runs_dir", options.get("runs_dir"))


def plan_request(job: Name, options: PlanOptions) -> Request:
    """Return the request of a plan. Raises InvalidRequest."""
    return Request(
        target=os.fspath(job),
        **_place_of(options),
        node_type=_text("node_type", options.get("node_type")),
        nodes=_whole_number("nodes", options.get("nodes")),
        environment=_text("environment_name", options.get("environment_name")),
        settings=typed_values.settings_of(_settings(options.get("settings"))),
        recipe=_text("recipe", options.get("recipe")),
    )


def plan_objective(options: PlanOptions) -> Objective:
    """Return what a plan is for. Raises InvalidRequest."""
    deadline = _seconds("deadline", options.get("deadline"))
    return typed_values.objective_of(deadline, options.get("budget"), options.get("weight"), options.get("prefer"))


def global_batch_of(options: PlanOptions) -> int | None:
    """Return the global batch size in samples, if one is given. Raises InvalidRequest."""
    return _whole_number("global_batch", options.get("global_batch"))


class _Place(TypedDict):
    """Fields of a request that a submission and a plan have."""

    site: str | None
    tasks_per_node: int | None
    cpus_per_task: int | None
    gpus_per_node: int | None
    account: str | None
    partition: str | None
    qos: str | None
    walltime: int | None
    memory: int | None
    hosts_file: str | None
    accept_unverified: bool


def _place_of(options: PlaceOptions) -> _Place:
    memory = options.get("memory")
    return _Place(
        site=_text("site", options.get("site")),
        tasks_per_node=_whole_number("tasks_per_node", options.get("tasks_per_node")),
        cpus_per_task=_whole_number("cpus_per_task", options.get("cpus_per_task")),
        gpus_per_node=_whole_number("gpus_per_node", options.get("gpus_per_node"), 0),
        account=_text("account", options.get("account")),
        partition=_text("partition", options.get("partition")),
        qos=_text("qos", options.get("qos")),
        walltime=_seconds("walltime", options.get("walltime")),
        memory=typed_values.megabytes_of(memory) if isinstance(memory, str) else _whole_number("memory", memory),
        hosts_file=_text("hosts", options.get("hosts")),
        accept_unverified=_flag("accept_unverified", options.get("accept_unverified")) or False,
    )


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


def _whole_number(name: str, value: Any, least: int = 1) -> int | None:
    """Return a whole number that is at least ``least``; None if it is not given."""
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
        return typed_values.seconds_of(value, name)
    return _whole_number(name, round(value.total_seconds()) if isinstance(value, timedelta) else value)


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


def _settings(settings: Settings | None) -> list[str]:
    return [f"{key}={_spell_value(f'settings: {key}', value)}" for key, value in (settings or {}).items()]


def _axes(sweep: Mapping[str, str | Iterable[Value]] | None) -> list[str]:
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
