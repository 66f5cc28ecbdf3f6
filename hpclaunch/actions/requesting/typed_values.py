"""Reads the values of a request as a person types them, or as a program gives them; it looks at no file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from hpclaunch.actions.requesting.typed_times import seconds_of
from hpclaunch.core.errors import Fault, InvalidRequest, shorten
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.spec import Request
from hpclaunch.core.units import CONTROL, MEMORY_FORMS, parse_memory

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.guidelines.choice import Objective


def megabytes_of(memory: str | None) -> int | None:
    """Return ``--memory`` in megabytes; None if it was not typed. Raises InvalidRequest."""
    try:
        return None if memory is None else parse_memory(memory)
    except ValueError as error:
        raise InvalidRequest(Fault(where="--memory", what=str(error), allowed=MEMORY_FORMS)) from None


_WORK = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMGT]?)")
_WORK_SIZES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def amount_of_work(text: str | None) -> float | None:
    """Return an amount such as 5000, 1.2M or 300G. Raises InvalidRequest."""
    if text is None:
        return None
    found = _WORK.fullmatch(text[:40])
    amount = float(found[1]) * _WORK_SIZES[found[2]] if found else 0.0
    if not 1 <= amount <= 1e18:
        what, allowed = f"{text[:80]!r} is no amount of work", "a number of 1 or more, with k, M, G or T after it"
        raise InvalidRequest(Fault(where="--work", what=what, allowed=allowed, next="--work 5M"))
    return amount


def settings_of(set_: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``--set KEY=VALUE``. Raises InvalidRequest."""
    return tuple(_pair("--set", text, "KEY=VALUE") for text in set_)


def axes_of(sweep: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``--sweep NAME=VALUES``. Raises InvalidRequest."""
    return tuple(_pair("--sweep", text, "NAME=V1,V2,… or NAME=1..10") for text in sweep)


def _pair(flag: str, text: str, form: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise InvalidRequest(Fault(where=flag, what=f"{os.fsdecode(text)!r} is not {form}"))
    return key, value


class TypedProgram(TypedDict):
    """What to run, by the names of the fields of a request."""

    target: str
    arguments: tuple[str, ...]
    is_command: bool
    as_is: bool


def program_of(
    target: str | None, arguments: tuple[str, ...], from_script: object = None, as_is: bool = False
) -> TypedProgram:
    """Return what to run; without a target, that is a command, typed after ``--``. Raises InvalidRequest.

    ``from_script``: the batch script that names the program, so that no target is typed.
    """
    if from_script is not None and (target is not None or as_is):
        other = "--as-is" if as_is else repr(target)
        what = f"the batch script names the program, so {other} cannot be typed, too"
        next_step = f"hpclaunch submit --from-script {shell_word(str(from_script))}"
        raise InvalidRequest(Fault(where="--from-script", what=what, next=next_step))
    if as_is and target is None:
        what, next_step = "the batch script is missing", "hpclaunch submit --as-is ./train.slurm"
        raise InvalidRequest(Fault(where="--as-is", what=what, allowed="the path of a script", next=next_step))
    if target is not None or from_script is not None:
        return TypedProgram(target=target or "", arguments=arguments, is_command=False, as_is=as_is)
    command = next(iter(arguments), "")
    if command and not any(place in command for place in ("{code}", "{run_dir}", "\0")):
        return TypedProgram(target=command, arguments=arguments[1:], is_command=True, as_is=False)
    what = f"{command!r} cannot be a command" if arguments else "what to run is missing"
    allowed = "a job, the path of a script, a program on PATH, or a command after --"
    next_step = "hpclaunch submit ./train.py -- ARGUMENTS; or hpclaunch submit -- COMMAND ARGUMENTS"
    raise InvalidRequest(Fault(what=what, allowed=allowed, next=next_step))


class TypedSoftware(TypedDict):
    """What the flags of the software say, by the names of the fields of a request."""

    python: str | None
    venv: str | None
    conda: str | None
    environment: str | None
    modules: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def software_of(
    python: str | None,
    venv: str | None,
    conda: str | None,
    environment: str | None,
    modules: Sequence[str],
    env: Sequence[str],
) -> TypedSoftware:
    """Return what the flags of the software say. Raises InvalidRequest."""
    places = [("--python", python), ("--venv", venv), ("--conda", conda), ("--environment", environment)]
    typed = [flag for flag, value in places if value is not None]
    if len(typed) > 1:
        raise InvalidRequest(
            Fault(where=" and ".join(typed), what="cannot be used together", next="leave one of them out")
        )
    for flag, value in [*places, *(("--module", name) for name in modules)]:
        if value is not None and (not value or CONTROL.search(value)):
            what = f"{os.fsdecode(shorten(value))!r} is empty, or has a control character"
            raise InvalidRequest(Fault(where=flag, what=what, allowed="text on one line", next=f"{flag} NAME"))
    return TypedSoftware(
        python=python,
        venv=venv,
        conda=conda,
        environment=environment,
        modules=tuple(modules),
        variables=tuple(_variable(text) for text in env),
    )


_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def _variable(text: str) -> tuple[str, str]:
    name, value = _pair("--env", text, "NAME=VALUE")
    if not _VARIABLE.fullmatch(name) or name.startswith("HPCLAUNCH_"):
        what = f"{os.fsdecode(shorten(name))!r} cannot be set"
        allowed = "letters, digits and _, no digit first; not HPCLAUNCH_…, which hpclaunch sets itself"
        raise InvalidRequest(Fault(where="--env", what=what, allowed=allowed, next="--env NAME=VALUE"))
    return name, value


_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"


class TypedName(TypedDict):
    """The run's name and its further sbatch options, by the names of the fields of a request."""

    name: str | None
    sbatch: tuple[str, ...]


def name_of(name: str | None, sbatch: Sequence[str]) -> TypedName:
    """Return the run's name (None: not typed) and the other sbatch options: --job-name is the name, too.

    Raises InvalidRequest for a name that no run can have, and for two of them.
    """
    option = "--job-name="
    typed = [(f"--sbatch {option}", text.removeprefix(option)) for text in sbatch if text.startswith(option)]
    typed += [("--name", name)] if name is not None else []
    for flag, value in typed:
        if not re.fullmatch(_NAME, value):
            what = f"{os.fsdecode(shorten(value))!r} cannot be the name of a run"
            allowed = "a letter, then letters, digits, '_', '.' and '-'; at most 64 characters"
            raise InvalidRequest(Fault(where=flag, what=what, allowed=allowed, next="--name NAME"))
    names = dict.fromkeys(value for _, value in typed)
    if len(names) > 1:
        what = f"the run would have {len(names)} names: {', '.join(names)}"
        raise InvalidRequest(Fault(where=typed[-1][0], what=what, allowed="one name", next=f"--name {typed[-1][1]}"))
    others = tuple(text for text in sbatch if not text.startswith(option))
    return TypedName(name=next(iter(names), None), sbatch=others)


class TypedNodes(TypedDict):
    """Node types and their node counts, by the names of the fields of a request."""

    node_type: str | None
    nodes: int | None
    further_nodes: tuple[tuple[str, str], ...]


_NODES_OF_A_TYPE = r"([^:,]+):([1-9][0-9]{0,6})"


def nodes_of(node_type: str | None, nodes: int | None) -> TypedNodes:
    """Return the node types of ``--node-type NAME`` or ``NAME:NODES,NAME:NODES``. Raises InvalidRequest."""
    if node_type is None or not set(":,") & set(node_type):
        return TypedNodes(node_type=node_type, nodes=nodes, further_nodes=())
    found = [re.fullmatch(_NODES_OF_A_TYPE, part) for part in node_type.split(",")]
    counted = [(match[1], match[2]) for match in found if match is not None]
    if len(counted) < len(found):
        what = f"{os.fsdecode(shorten(node_type))!r} does not say how many nodes of each type"
        allowed = "NAME, or NAME:NODES,NAME:NODES, with 1 to 9999999 nodes of each"
        raise InvalidRequest(Fault(where="--node-type", what=what, allowed=allowed, next="--node-type cpu:1,gpu:4"))
    if nodes is not None:
        what = "--node-type already says how many nodes of each type"
        raise InvalidRequest(Fault(where="--nodes", what=what, next="leave --nodes out"))
    (first, count), *further = counted
    return TypedNodes(node_type=first, nodes=int(count), further_nodes=tuple(further))


class TypedTraining(TypedDict):
    """The settings and the recipe of a request, by the names of its fields."""

    settings: tuple[tuple[str, str], ...]
    recipe: str | None


def training_of(system: System, from_: str | None, set_: Sequence[str], recipe: str | None) -> TypedTraining:
    """Return the settings of ``--set``, above those of the trial that ``--from`` names, and the recipe below both.

    Settings of a trial are those of a whole training, so the planner changes nothing beside them.
    """
    settings = settings_of(set_)
    if from_ is None:
        return TypedTraining(settings=settings, recipe=recipe)
    from hpclaunch.actions.measuring.search_results import settings_of as settings_of_trial

    own, trial = settings_of_trial(system, from_)
    system.tell(f"--from {from_}: {trial}, " + " ".join(f"{name}={value}" for name, value in own))
    below = tuple(pair for pair in own if pair[0] not in dict(settings))
    return TypedTraining(settings=(*below, *settings), recipe=recipe or "job")


_FIELDS = {"hosts": "hosts_file", "module": "modules", "env": "variables", "set_": "settings"}
"""Flag -> the field of a request, where they have not the same name."""


def request_of(system: System, typed: Mapping[str, Any], several_types: bool = False, **program: Any) -> Request:
    """Return the request of a command: what was ``typed``, by the names of its flags, and the fields of its program.

    A walltime and a memory that are numbers are in seconds and in megabytes. ``several_types``: the command takes more
    than one node type. Raises InvalidRequest for a value that no request can
    have.
    """
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in typed.items()}
    if several_types:
        values |= nodes_of(values["node_type"], values["nodes"])
    for name, read in (("walltime", seconds_of), ("memory", megabytes_of)):
        if isinstance(values[name], str):
            values[name] = read(values[name])
    software = [values.pop(name) for name in ("python", "venv", "conda", "environment", "module", "env")]
    values |= software_of(*software)
    if "set_" in values:
        values |= training_of(system, values.pop("from_", None), values.pop("set_"), values.get("recipe"))
    if "sweep" in values:
        values["sweep"] = axes_of(values["sweep"])
    if "name" in values:
        values |= name_of(values["name"], values["sbatch"])
    return Request(**program, **{_FIELDS.get(name, name): value for name, value in values.items()})


PREFERENCES = {"time": 2 / 3, "cost": 1 / 3}
"""Weights of time: the best batch is w / (1 - w) times the critical one, so twice or half of it."""


def objective_of(deadline_s: int | None, budget: float | None, weight: float | None, prefer: str | None) -> Objective:
    """Return what a plan is for: time against cost, the longest time, and the highest cost. Raises InvalidRequest."""
    from hpclaunch.guidelines.choice import Objective

    if weight is not None and prefer is not None:
        what = Fault(where="--weight and --prefer", what="cannot be used together", next="leave one of them out")
        raise InvalidRequest(what)
    if prefer is not None and prefer not in PREFERENCES:
        raise _refusal_of("--prefer", repr(prefer), ", ".join(PREFERENCES))
    if weight is not None and not 0 < weight < 1:
        raise _refusal_of("--weight", str(weight), "above 0 and below 1")
    if budget is not None and not (0 < budget < math.inf):
        raise _refusal_of("--budget", str(budget), "a number above 0")
    chosen = PREFERENCES[prefer] if prefer else weight or 0.5
    return Objective(weight=chosen, deadline_s=deadline_s, budget=budget)


def _refusal_of(where: str, typed: str, allowed: str) -> InvalidRequest:
    return InvalidRequest(Fault(where=where, what=f"{typed} is not allowed", allowed=allowed))
