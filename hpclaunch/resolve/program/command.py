"""The command of a rank: program, script, parameters, and what a person typed after ``--``."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter, listed, pairs_of, spell
from hpclaunch.core.array_size import MOST_RUNS
from hpclaunch.core.errors import nearest
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record
from hpclaunch.core.spec import Choice, Pairs, Request, parameter_word
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.sweep import axes_of
from hpclaunch.resolve.strategies import words_of as strategy_words

_PLACE = r"\{code\}|\{run_dir\}"


@record
class Parameters:
    """The parameters of a run that are not swept: the value of each, and the words of the command that pass them on.

    A typed value is always passed, as ``--name=value``. A default is passed only if the program does not already have
    it. ``--default=name=value`` stands for a default of the job file that differs from the program's own, so that the
    program can tell it from a typed value. A typed value that cannot be read stays as typed.
    """

    values: Pairs
    words: tuple[str, ...]


def command_of(case: Case, strategy: str, python: str, parameters: Parameters, decisions: Decisions) -> tuple[str, ...]:
    """Return argv: the program, its parameters, the TensorFlow strategy if there is one, then the typed arguments."""
    job, arguments, run_dir = case.job, case.request.arguments, case.context.run_dir
    code = job.folder if job.in_place else f"{run_dir}/code"
    program: tuple[str, ...]
    if job.script:
        program = (python, f"{code}/{job.script}")
    else:
        places = {"{code}": code, "{run_dir}": run_dir}
        most = 1 if job.source_only else 0  # 0: all; a script's own name may contain what looks like a placeholder
        program = tuple(re.sub(_PLACE, lambda found: places[found[0]], word, count=most) for word in job.command)
    if case.request.include and (job.in_place or not job.source_only):
        decisions.fault(
            "only files beside a script of your own are chosen: a job is copied completely, a command not at all",
            where="--include",
            allowed="the path of a script, without --code-in-place",
            next="leave --include out",
        )
    for argument in arguments:
        if "\0" in argument:
            decisions.fault("an argument cannot contain a NUL character", where="after --")
    return (*program, *parameters.words, *strategy_words(strategy), *arguments)


def parameters_of(job: Job, request: Request, decisions: Decisions) -> Parameters:
    """Return the parameters; a typed one that the job does not have, or that cannot be read, becomes a fault."""
    typed, swept = _typed_parameters(job, request, decisions), {*(request.search or dict(request.sweep))}
    values, words = [], []
    for key, parameter in job.parameters.items():
        if key in swept:
            continue
        value = _spell_typed(job, key, typed[key], decisions) if key in typed else spell(parameter.default)
        values.append((key, value))
        if key in typed:
            decisions.choices.append(Choice(key=f"parameters.{key}", value=value, origin=_origin(request, key)))
            words.append(parameter_word(key, value))
        elif parameter.builtin is None or parameter.builtin != parameter.default:
            words.append(parameter_word(key, value, default=parameter.builtin is not None))
    _check_required(job, dict(values), typed, decisions)
    _check_pairs(job, dict(values), {} if request.search else dict(axes_of(job, request)), decisions)
    return Parameters(values=tuple(values), words=tuple(words))


def _check_required(job: Job, values: dict[str, str], typed: dict[str, str], decisions: Decisions) -> None:
    """Refuse a request that leaves out a required parameter. One that is typed, but empty, is a fault already."""
    for name, value in values.items():
        row = job.parameters[name]
        if row.required and not value and name not in typed:
            what = f"{job.name} needs a value of {name!r}" + (f": {row.help}" if row.help else "")
            decisions.fault(what, where=f"--set {name}", next=f"--set {name}=VALUE")


def _check_pairs(job: Job, values: dict[str, str], swept: Mapping[str, Sequence[str]], decisions: Decisions) -> None:
    """Refuse a value that does not fit that of another parameter, as the job file says it must, also in a sweep."""
    texts = {**{name: (text,) for name, text in values.items()}, **swept}
    for pair in pairs_of(job.parameters):
        both = (pair.name, pair.other)
        runs = itertools.product(*(_readable(job.parameters[name], texts.get(name, ())) for name in both))
        checked = (pair.misfit(*chosen) for chosen in itertools.islice(runs, MOST_RUNS))  # more are refused anyway
        what = next(filter(None, checked), "")
        if what:
            of_sweep = [name for name in both if name in swept]
            where = f"--sweep {of_sweep[0]}" if of_sweep else f"--set {pair.name}"
            decisions.fault(what, where=where, next=f"set {pair.name}, or {pair.other}")


def _readable(parameter: Parameter, texts: Sequence[str]) -> list[object]:
    """The values of these texts; one that cannot be read is a fault already."""
    found: list[object] = []
    for text in texts:
        with contextlib.suppress(ValueError):
            found.append(parameter.parse(text))
    return found


def _spell_typed(job: Job, key: str, text: str, decisions: Decisions) -> str:
    """Return a typed value in the spelling that the program gets; a value that cannot be read becomes a fault."""
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
    for key, value in typed.items():
        if key in job.parameters:
            continue
        where = f"--set {key}" if key in dict(request.settings) else "--synthetic"
        if job.parameters:
            near = nearest(key, job.parameters)
            what = f"{job.name} has no parameter {key!r}" + (f"; did you mean {near!r}?" if near else "")
            corrected = near and key in dict(request.settings)
            after = f"--set {shell_word(f'{near}={value}')}" if corrected else f"hpclaunch jobs show {job.name}"
            decisions.fault(what, allowed=listed(job.parameters, job.name), where=where, next=after)
        else:
            decisions.fault(
                f"{job.name} declares no parameters, so {key!r} cannot be set",
                where=where,
                next="write the program's own options after --, as in: hpclaunch submit train.py -- --lr 0.1",
            )
    return typed
