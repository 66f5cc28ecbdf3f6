"""``search``: the terms of a search from files and flags, its allocation, and its start."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.program_source import with_program_options
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.preparing.submit import Prepared, prepare_case
from hpclaunch.actions.queueing.array_parts import submit_array
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.actions.queueing.start import create_run, follow_present, refuse_untrusted
from hpclaunch.actions.system import System
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.job import Job
from hpclaunch.config.plain_files import read_text_file
from hpclaunch.core.errors import Fault, InvalidFile, InvalidRequest, Refused, unwritable
from hpclaunch.core.records import record
from hpclaunch.core.spec import Pairs, Request
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.sweep import parameter_of, values_of
from hpclaunch.runs import Run
from hpclaunch.search.adaptive import missing_optuna
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.names import idle, renamed, unfit
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import SearchTerms, faults_of, with_changes

_RESTARTS = 50
"""How often the allocation of a search starts again, if the job does not say it: the next one makes what is left."""
_VALIDATION, _VALIDATION_SHARE = "validation_part", "0.2"
"""The share of the training samples that validate a trial, if nothing else says it: that of the article's script."""


@record
class TypedSearch:
    """What was typed of a search: where its space stands, and what replaces the terms in the file.

    ``at_once``: the trials at the same time. ``cpus``: the CPUs of one trial.
    """

    request: Request
    space_file: str | None = None
    config_file: str | None = None
    sweep: Pairs = ()
    names: Pairs = ()
    at_once: int | None = None
    cpus: int | None = None
    changes: dict[str, Any]


@record
class PreparedSearch:
    """A search that can be started: its allocation, and its record. ``notices``: remarks on the terms."""

    prepared: Prepared
    searched: SearchRecord
    notices: tuple[str, ...] = ()


def prepare_search(system: System, typed: TypedSearch, runs_dir: str | None = None) -> PreparedSearch:
    """Read the terms, and resolve and render the script of the allocation; nothing is written or asked.

    Raises HpclaunchError with every problem of the terms. Problems of the allocation are in ``prepared.faults``.
    """
    request = typed.request
    case = with_program_options(load(system, request, runs_dir, program_job(system, request)))
    terms = _terms_of(system, typed, case.job)
    settings, notices = _settings_for(terms, case)
    notices = (*notices, *_ranges_of_all_numbers(system, typed, case.job))
    request = replace(case.request, search=terms.space.names, settings=settings, recipe="job")
    job = replace(
        case.job,
        restarts=case.job.restarts if case.job.restarts is not None else _RESTARTS,
        resources=replace(case.job.resources, tasks_per_node=None, cpus_per_task=None, gpus_per_node=None),
    )
    space_file = typed.space_file or typed.config_file or ""
    prepared = _prepare_shares(system, typed, replace(case, request=request, job=job, space_file=space_file))
    trials, sweep = prepared.spec.trials, prepared.spec.sweep
    at_once = 1
    if sweep:
        at_once = sweep.count
    elif trials:
        at_once = trials.per_node * prepared.spec.layout.nodes
    searched = SearchRecord(
        terms=terms,
        target=case.job.name,
        at_once=at_once,
        created=prepared.spec.created,
        free=not job.parameters,
        options=trials.options if trials else (),
    )
    return PreparedSearch(prepared=prepared, searched=searched, notices=notices)


def _prepare_shares(system: System, typed: TypedSearch, case: Case) -> Prepared:
    """Resolve and render the allocation: one whose nodes the workers divide, or an array that the scheduler packs.

    It can pack the trials where jobs share nodes. Then every trial at a time is a small job, unless a number of nodes
    is typed.
    """
    at_once, nodes = typed.at_once or 1, case.request.nodes
    cpus = typed.cpus and typed.cpus * -(-at_once // (nodes or 1))
    whole = replace(case.request, at_once=typed.at_once, cpus_per_task=cpus)
    prepared = prepare_case(system, replace(case, request=whole))
    spec = prepared.spec
    if nodes is not None or at_once < 2 or spec.layout.whole_nodes or not case.site.scheduler_row.array_index:
        return prepared
    own = typed.cpus or (None if spec.layout.gpus_per_node else spec.layout.cpus_per_core)
    packed = replace(case.request, nodes=1, sweep=(("worker", str(at_once)),), cpus_per_task=own)
    return prepare_case(system, replace(case, request=packed))


def start_search(system: System, ready: PreparedSearch) -> Run:
    """Check, create the run directory with the record of the search, submit. Raises HpclaunchError."""
    from hpclaunch.actions.preparing.preflight import check
    from hpclaunch.actions.preparing.this_machine import confirm_head_node

    prepared = follow_present(system, ready.prepared)
    for delay in check(prepared):
        system.warn(delay)
    refuse_untrusted(system, prepared)
    confirm_head_node(system, prepared.case)
    run = create_run(system, prepared)
    try:
        SearchFolder(run.path).write(ready.searched)
    except OSError as error:
        raise unwritable(run.path, error) from None
    if run.tasks:
        return submit_array(run, prepared.job_script, range(run.tasks))
    return hand_over(run, prepared.text, prepared.spec.walltime)


def _terms_of(system: System, typed: TypedSearch, job: Job) -> SearchTerms:
    """Return the terms, in the job's own names. Raises InvalidFile, InvalidRequest or Refused with all their faults."""
    sources = [typed.space_file is not None, typed.config_file is not None, bool(typed.sweep)]
    if sum(sources) != 1:
        what = "the space of the search is missing" if not any(sources) else "the space of the search is given twice"
        allowed = "one of --space FILE.yaml, --config comet.json, --sweep NAME=V1,V2,… (repeatable)"
        raise InvalidRequest(Fault(what=what, allowed=allowed, next="hpclaunch search JOB --sweep seed=1..5"))
    faults: list[Fault] = []
    terms = _read_terms(system, typed, job, faults)
    if faults:
        raise (InvalidRequest if typed.sweep else InvalidFile)(faults)
    space = renamed(terms.space, dict(typed.names), faults)
    terms = with_changes(replace(terms, space=space), **typed.changes)
    if not terms.metric and _VALIDATION in job.parameters:
        terms = replace(terms, metric="val_loss")
    faults += unfit(space, job.parameters, job.name, [name for name, _ in typed.request.settings])
    faults += idle(space, job.parameters, dict(typed.request.settings)) if not faults else []
    faults += _note_earlier_meaning(faults_of(terms), system, typed, job) if not faults else []
    faults += missing_optuna(terms) if not faults else []
    if faults:
        raise Refused(faults)
    return terms


def _read_terms(system: System, typed: TypedSearch, job: Job, faults: list[Fault]) -> SearchTerms:
    if typed.sweep:
        return SearchTerms(space=_space_of_words(typed.sweep, job, faults))
    if typed.config_file is not None:
        from hpclaunch.search.comet import terms_in

        return terms_in(read_text_file(system.cwd / typed.config_file), typed.config_file, faults)
    from hpclaunch.search.space_file import terms_of

    file = typed.space_file or ""
    names = dict(typed.names)
    whole = {name for name, row in job.parameters.items() if row.value_type == "int"}
    whole |= {old for old, new in names.items() if new in whole}
    return terms_of(read_yaml(system.cwd / file), file, whole, faults)


def _note_earlier_meaning(faults: list[Fault], system: System, typed: TypedSearch, job: Job) -> list[Fault]:
    """Return the faults; those of ranges that may be meant as whole numbers say that earlier versions took them so."""
    names = [dict(typed.names).get(name, name) for name in _unsaid_ranges(system, typed, job)] if faults else []
    note = "earlier versions of hpclaunch tried the whole numbers of this range"
    return [replace(one, what=f"{one.what} ({note})") if one.where in names else one for one in faults]


def _unsaid_ranges(system: System, typed: TypedSearch, job: Job) -> list[str]:
    """Return the ranges of a space file that may be meant as whole numbers, as they were before ``int: true``."""
    if typed.space_file is None or job.parameters:  # the type of a parameter says what is meant
        return []
    from hpclaunch.search.space_file import unsaid_ranges

    return unsaid_ranges(read_yaml(system.cwd / typed.space_file))


def _ranges_of_all_numbers(system: System, typed: TypedSearch, job: Job) -> list[str]:
    """Return a notice if ranges of a space file may be meant as whole numbers."""
    names = _unsaid_ranges(system, typed, job)
    if not names:
        return []
    what = f"{', '.join(names)}: any number of the range is tried, where earlier versions of hpclaunch tried whole ones"
    return [f"{typed.space_file}: {what}; int: true tries whole numbers only, int: false says that any number is meant"]


def _space_of_words(words: Pairs, job: Job, faults: list[Fault]) -> SearchSpace:
    """Return the space of ``--sweep NAME=V1,V2``; unknown names are left to the comparison with the job."""
    decisions, dimensions = Decisions(), []
    for name, text in words:
        parameter = parameter_of(job, name)
        if parameter is None:
            dimensions.append(Dimension(name=name, values=(text,)))
            continue
        values = values_of(parameter, text, f"--sweep {name}", decisions)
        dimensions.append(Dimension(name=name, values=tuple(parameter.parse(value) for value in values)))
    faults += decisions.faults
    return SearchSpace(dimensions=tuple(dimensions))


def _settings_for(terms: SearchTerms, case: Case) -> tuple[Pairs, tuple[str, ...]]:
    """Return the settings of the trials: a metric of the validation needs samples for it, which few jobs keep."""
    settings, parameters = case.request.settings, case.job.parameters
    typed = {name for name, _ in settings}
    row = parameters.get(_VALIDATION)
    if not terms.metric.startswith("val_") or row is None or row.default or typed & {_VALIDATION, "validate_on"}:
        return settings, ()
    if {_VALIDATION, "validate_on"} & set(terms.space.names):
        return settings, ()
    on = parameters.get("validate_on")
    if on is not None and on.default != "validation":
        return settings, ()
    notice = f"{terms.metric} needs samples for the validation: {_VALIDATION}={_VALIDATION_SHARE} is set; "
    return (*settings, (_VALIDATION, _VALIDATION_SHARE)), (notice + f"--set {_VALIDATION}=0.1 takes another share",)


def folder_of(run: Run) -> SearchFolder:
    """Return the folder of a search. Raises NotFound if the run is none."""
    folder = SearchFolder(run.path)
    if not os.path.isfile(run.path / "search.json"):
        folder.read()
    return folder


def output_path(cwd: Path, name: str) -> Path:
    """Return where a file of results is written. Raises Refused if its folder does not exist."""
    path = cwd / name
    if not path.parent.is_dir():
        raise Refused(Fault(where=name, what=f"the folder {path.parent} does not exist", next="name another file"))
    return path
