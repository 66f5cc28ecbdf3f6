"""The runs of a sweep: every combination of the typed values, which are checked in the same way as those of --set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter, listed, spell
from hpclaunch.config.site import Site
from hpclaunch.core.array_size import MOST_RUNS
from hpclaunch.core.errors import did_you_mean
from hpclaunch.core.spec import Layout, Pairs, Request, Restarts, Sweep
from hpclaunch.core.units import count
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions

FORMS = 'NAME=V1,V2,… or NAME=1..10; a value with a comma stands in quotes: NAME="a,b",c'
_ITEM = r'(?s)(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^",][^,]*)?)(?:,|\Z)'
_FREE_NAME = "[A-Za-z][A-Za-z0-9_.-]{0,63}"
"""What can be an option of any program, and a name in braces."""
_ANY = Parameter(default="")
"""What is known of a parameter that no job file declares: its values are texts, and 1..10 are ten of them."""
_RANGE = r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})"


def sweep_of(case: Case, launcher: str, layout: Layout, decisions: Decisions) -> Sweep | None:
    """Return the requested sweep, or None; everything that cannot be swept becomes a fault."""
    job, request = case.job, case.request
    if not request.sweep:
        if request.at_once is not None:
            decisions.fault("--at-once needs a sweep", next="add --sweep NAME=V1,V2,…, or leave --at-once out")
        return None
    _check_place(case, launcher, layout, decisions)
    axes: list[tuple[str, tuple[str, ...]]] = []
    before: set[str] = set()
    for key, text in request.sweep:
        where, parameter = f"--sweep {key}", parameter_of(job, key)
        if parameter is None:
            _refuse_unknown(job, key, where, decisions)
        elif key in before:
            decisions.fault("the parameter is named twice", where=where, next="write all its values in one --sweep")
        elif key in dict(request.settings) or (key == "synthetic" and request.synthetic):
            what = "the parameter is swept and set as well"
            decisions.fault(what, where=where, next="leave out either --sweep or --set for it")
        elif values := values_of(parameter, text, where, decisions):
            axes.append((key, values))
        before.add(key)
    if not axes:
        return None  # every one of them is a fault
    free = not job.parameters
    filled = tuple(name for name, _ in axes if free and is_filled(name, request.arguments))
    sweep = Sweep(
        axes=tuple(axes),
        at_once=request.at_once or 0,
        followers=case.advice.followers,
        free=free,
        filled=filled,
        options=option_words_of([name for name, _ in axes if name not in filled], case, decisions) if free else (),
    )
    if sweep.count > MOST_RUNS:
        sizes = " x ".join(str(len(values)) for _, values in axes)
        decisions.fault(f"this sweep has {sizes} = {sweep.count} runs", allowed=f"at most {MOST_RUNS}", where="--sweep")
    return sweep


def option_words_of(names: Sequence[str], case: Case, decisions: Decisions) -> Pairs:
    """Return the options with which a program without declared parameters gets values that stand in no argument."""
    from hpclaunch.resolve.program.option_words import option_words  # it reads the program, which few requests need

    return option_words(names, case, decisions)


def workers_of(case: Case, launcher: str, layout: Layout, decisions: Decisions) -> Sweep | None:
    """Return the workers of a search as the runs of an array, one for each trial at a time; None in one allocation."""
    if not case.request.sweep:
        return None
    _check_place(case, launcher, layout, decisions)
    ((name, number),) = case.request.sweep
    return Sweep(axes=((name, tuple(map(str, range(int(number))))),), free=True)


def parameter_of(job: Job, key: str) -> Parameter | None:
    """Return the parameter of this name; of a job that declares none, any name is one, with a text as its value."""
    if job.parameters:
        return job.parameters.get(key)
    return _ANY if re.fullmatch(_FREE_NAME, key) else None


def is_filled(name: str, arguments: Sequence[str]) -> bool:
    """Whether a ``{NAME}`` in the typed arguments takes the values of this name."""
    return any(f"{{{name}}}" in argument for argument in arguments)


def axes_of(job: Job, request: Request) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the swept parameters with their values; an axis that ``sweep_of`` refuses is left out."""
    unused, typed = Decisions(), dict(request.settings)
    axes = {
        key: values_of(job.parameters[key], text, "", unused)
        for key, text in request.sweep
        if key in job.parameters and key not in typed
    }
    return tuple((key, values) for key, values in axes.items() if values)


def restarts_in_array(site: Site, restarts: Restarts, sweep: Sweep | None, decisions: Decisions) -> Restarts:
    """Return how one run of an array continues: a job that the run submits itself would not belong to the array."""
    if sweep is None or restarts.by != "resubmit":
        return restarts
    decisions.warnings.append(
        f"{site.name} cannot requeue jobs, so runs of an array do not restart by themselves: use hpclaunch resume"
    )
    return replace(restarts, by="none")


def _check_place(case: Case, launcher: str, layout: Layout, decisions: Decisions) -> None:
    site, job = case.site, case.job
    row = site.scheduler_row
    if not row.array_index:
        what = f"{site.name} has no scheduler, and therefore no job arrays"
        if row.has_queue:
            what = f"{site.name} has {row.title}, with which hpclaunch makes no job arrays"
        next_step = "choose a Slurm site with --site, or submit each run with --set"
        decisions.fault(what, where="--sweep", next=next_step)
    if any("{run_dir}" in word for word in job.command) and not job.source_only:
        decisions.fault(
            "the job's command contains {run_dir}, but every run of an array has its own run directory",
            where="--sweep",
            next="let the program read HPCLAUNCH_RUN_DIR from its environment",
        )
    if LAUNCHERS[launcher].over_ssh and layout.nodes > 1:
        decisions.fault(
            f"{launcher} reads one list of hosts on several nodes, but every run of an array has its own nodes",
            where="--sweep",
            next=f"--launcher {site.scheduler_row.usual_launcher}, or --nodes 1",
        )


def _refuse_unknown(job: Job, key: str, where: str, decisions: Decisions) -> None:
    if job.parameters:
        near = did_you_mean(key, job.parameters)
        allowed = listed(job.parameters, job.name)
        decisions.fault(f"{job.name} has no parameter {key!r}{near}", allowed=allowed, where=where)
    else:
        decisions.fault(
            f"{key!r} cannot be the name of an option",
            where=where,
            allowed="a letter, then letters, digits, '_', '.' and '-'; at most 64 characters",
            next="--sweep lr=0.1,0.01 gives each run a word --lr=…, or a value for {lr} in the arguments",
        )


def values_of(parameter: Parameter, text: str, where: str, decisions: Decisions) -> tuple[str, ...]:
    """Return the values as the command line spells them; each must have the parameter's type and may occur once."""
    items = _items(text)
    if items is None:
        decisions.fault("a value is empty, or a quotation mark is missing", where=where, allowed=FORMS)
        return ()
    found: dict[str, None] = {}
    for item, quoted in items:
        try:
            values = [item] if quoted else _numbers(parameter, item)
            spelled = [spell(parameter.parse(value)) for value in values]
        except ValueError as error:
            decisions.fault(str(error), where=where)
            continue
        twice = next((value for value in spelled if value in found), None)
        if twice is not None:
            decisions.fault(f"{twice!r} is listed twice", where=where, next="list every value once")
        found.update(dict.fromkeys(spelled))
    return tuple(found)


def _items(text: str) -> list[tuple[str, bool]] | None:
    """Return (value, whether it was quoted) for each value between commas; None if one is empty or a quote is open."""
    items, position = [], 0
    while position <= len(text):
        found = re.compile(_ITEM).match(text, position)
        if found is None or (found["quoted"] is None and not found["plain"]):
            return None
        quoted = found["quoted"] is not None
        items.append((found["quoted"].replace('""', '"') if quoted else found["plain"], quoted))
        if not found[0].endswith(",") or found.end() == position:
            break
        position = found.end()
    return items


def _numbers(parameter: Parameter, item: str) -> list[str]:
    """Return the whole numbers of a range such as ``1..10`` if the parameter can be a number, else the item itself."""
    found = re.fullmatch(_RANGE, item)
    if found is None or not (parameter is _ANY or parameter.value_type in ("int", "float")):
        return [item]
    first, last = int(found[1]), int(found[2])
    if last < first:
        raise ValueError(f"{item} ends before it begins")
    if last - first >= MOST_RUNS:
        raise ValueError(f"{item} has {count(last - first + 1, 'value')}; at most {MOST_RUNS} are allowed")
    return [str(number) for number in range(first, last + 1)]
