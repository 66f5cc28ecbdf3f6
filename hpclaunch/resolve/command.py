"""The command of a rank: program, script, parameters, and what a person typed after ``--``."""

from __future__ import annotations

import re

from hpclaunch.config.job import Job, spell
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import Request, Surroundings
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.software import Software
from hpclaunch.resolve.strategies import words_of as strategy_words

_PLACE = re.compile(r"\{code\}|\{run_dir\}")


def command_of(
    job: Job, request: Request, strategy: str, software: Software, around: Surroundings, ledger: Ledger
) -> tuple[str, ...]:
    """Return argv: every parameter as ``--name=value``, a strategy of TensorFlow, then what was typed, unchanged."""
    code = f"{around.run_dir}/code"
    program: tuple[str, ...]
    if job.script:
        program = (software.python, f"{code}/{job.script}")
    else:
        places = {"{code}": code, "{run_dir}": around.run_dir}
        most = 1 if job.source_only else 0  # a script's own name may hold what looks like a place
        program = tuple(_PLACE.sub(lambda found: places[found[0]], word, count=most) for word in job.command)
    parameters = parameters_of(job, request, ledger)
    for argument in request.arguments:
        if "\0" in argument:
            ledger.fault("an argument cannot hold a NUL character")
    return (*program, *parameters, *strategy_words(strategy), *request.arguments)


def parameters_of(job: Job, request: Request, ledger: Ledger) -> tuple[str, ...]:
    """Return ``--name=value`` for every parameter; a typed one that the job lacks or cannot read is a fault.

    Those of a sweep are not among them: every run has its own.
    """
    typed, swept = _typed(job, request, ledger), dict(request.sweep)
    values = {}
    for key, parameter in job.parameters.items():
        if key in swept:
            continue
        try:
            values[key] = parameter.parse(typed[key]) if key in typed else parameter.default
        except ValueError as error:
            ledger.fault(str(error), where=f"--set {key}", next=f"hpclaunch jobs show {job.name}")
    return tuple(f"--{key.replace('_', '-')}={spell(value)}" for key, value in values.items())


def _typed(job: Job, request: Request, ledger: Ledger) -> dict[str, str]:
    typed = dict(request.settings)
    if request.synthetic:
        typed.setdefault("synthetic", "true")
    for key in typed:
        if key in job.parameters:
            continue
        if job.parameters:
            near = did_you_mean(key, job.parameters)
            ledger.fault(f"{job.name} has no parameter {key!r}{near}", allowed=", ".join(job.parameters))
        else:
            ledger.fault(
                f"{job.name} declares no parameters, so {key!r} cannot be set",
                next="write its own options after --, as in: hpclaunch submit train.py -- --lr 0.1",
            )
    return typed
