"""The command of a rank: program, script, parameters, and what a person typed after ``--``."""

from __future__ import annotations

import re

from hpclaunch.config.job import Job, spell
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.strategies import words_of as strategy_words

_PLACE = re.compile(r"\{code\}|\{run_dir\}")


def command_of(case: Case, strategy: str, python: str, decisions: Decisions) -> tuple[str, ...]:
    """Return argv: every parameter as ``--name=value``, a strategy of TensorFlow, then what was typed, unchanged."""
    job, arguments, run_dir = case.job, case.request.arguments, case.context.run_dir
    code = f"{run_dir}/code"
    program: tuple[str, ...]
    if job.script:
        program = (python, f"{code}/{job.script}")
    else:
        places = {"{code}": code, "{run_dir}": run_dir}
        most = 1 if job.source_only else 0  # a script's own name may hold what looks like a place
        program = tuple(_PLACE.sub(lambda found: places[found[0]], word, count=most) for word in job.command)
    parameters = parameters_of(job, case.request, decisions)
    for argument in arguments:
        if "\0" in argument:
            decisions.fault("an argument cannot hold a NUL character")
    return (*program, *parameters, *strategy_words(strategy), *arguments)


def parameters_of(job: Job, request: Request, decisions: Decisions) -> tuple[str, ...]:
    """Return ``--name=value`` for every parameter; a typed one that the job lacks or cannot read is a fault.

    Those of a sweep are not among them: every run has its own.
    """
    typed, swept = _typed_parameters(job, request, decisions), dict(request.sweep)
    values = {}
    for key, parameter in job.parameters.items():
        if key in swept:
            continue
        try:
            values[key] = parameter.parse(typed[key]) if key in typed else parameter.default
        except ValueError as error:
            decisions.fault(str(error), where=f"--set {key}", next=f"hpclaunch jobs show {job.name}")
    return tuple(f"--{key.replace('_', '-')}={spell(value)}" for key, value in values.items())


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
