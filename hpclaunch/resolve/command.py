"""The command of a rank: program, script, parameters, and what a person typed after ``--``."""

from __future__ import annotations

import re

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import Choice, Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.strategies import words_of as strategy_words

_PLACE = re.compile(r"\{code\}|\{run_dir\}")


def command_of(case: Case, strategy: str, python: str, decisions: Decisions) -> tuple[str, ...]:
    """Return argv: the parameters that the program must be told, a strategy of TensorFlow, then what was typed."""
    job, arguments, run_dir = case.job, case.request.arguments, case.context.run_dir
    code = f"{run_dir}/code"
    program: tuple[str, ...]
    if job.script:
        program = (python, f"{code}/{job.script}")
    else:
        places = {"{code}": code, "{run_dir}": run_dir}
        most = 1 if job.source_only else 0  # a script's own name may hold what looks like a place
        program = tuple(_PLACE.sub(lambda found: places[found[0]], word, count=most) for word in job.command)
    parameters = parameter_words(job, case.request, decisions)
    for argument in arguments:
        if "\0" in argument:
            decisions.fault("an argument cannot hold a NUL character")
    return (*program, *parameters, *strategy_words(strategy), *arguments)


def parameter_words(job: Job, request: Request, decisions: Decisions) -> tuple[str, ...]:
    """Return what the program must be told of its parameters; a typed one that the job cannot take is a fault.

    A typed value is always told, as ``--name=value``. Of the others only those are told that the program does not take
    by itself; ``--default=name=value`` where the job file has another default than the program, so that the program
    still knows what was typed. Values of a sweep are not among them: every run has its own.
    """
    typed, swept = _typed_parameters(job, request, decisions), dict(request.sweep)
    words = []
    for key, parameter in job.parameters.items():
        option = key.replace("_", "-")
        if key in swept:
            continue
        if key in typed:
            value = _parsed(job, key, typed[key], decisions)
            decisions.choices.append(Choice(key=f"parameters.{key}", value=value, origin=_origin(request, key)))
            words.append(f"--{option}={value}")
        elif parameter.builtin is None:
            words.append(f"--{option}={spell(parameter.default)}")
        elif parameter.builtin != parameter.default:
            words.append(f"--default={option}={spell(parameter.default)}")
    return tuple(words)


def values_of(job: Job, request: Request) -> dict[str, str]:
    """Return the value of every parameter but those of a sweep, however it is typed; unreadable text stays as it is."""
    decisions = Decisions()
    typed, swept = _typed_parameters(job, request, decisions), dict(request.sweep)
    return {
        key: _parsed(job, key, typed[key], decisions) if key in typed else spell(parameter.default)
        for key, parameter in job.parameters.items()
        if key not in swept
    }


def _parsed(job: Job, key: str, text: str, decisions: Decisions) -> str:
    """Return a typed value in the one spelling that the program gets; one that cannot be read is a fault."""
    try:
        return spell(job.parameters[key].parse(text))
    except ValueError as error:
        decisions.fault(str(error), where=f"--set {key}", next=f"hpclaunch jobs show {job.name}")
        return text


def _origin(request: Request, key: str) -> str:
    return "--set" if key in dict(request.settings) else "--synthetic"


def _typed_parameters(job: Job, request: Request, decisions: Decisions) -> dict[str, str]:
    typed = dict(request.settings)
    if request.synthetic:
        typed.setdefault("synthetic", "true")
    for key in typed:
        if key in job.parameters:
            continue
        if job.parameters:
            near = did_you_mean(key, job.parameters)
            decisions.fault(f"{job.name} has no parameter {key!r}{near}", allowed=", ".join(job.parameters))
        else:
            decisions.fault(
                f"{job.name} declares no parameters, so {key!r} cannot be set",
                next="write its own options after --, as in: hpclaunch submit train.py -- --lr 0.1",
            )
    return typed
