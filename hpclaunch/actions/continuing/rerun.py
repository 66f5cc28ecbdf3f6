"""``rerun``: the same run again, from its record, as a new run; what cannot be the same is listed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.continuing.recorded_job import named_job, nodes_before, recorded_job
from hpclaunch.actions.continuing.rerun_differences import RerunDifference, differences_of
from hpclaunch.actions.following.identity import require_own_site
from hpclaunch.actions.preparing.active_python import without_active_python
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.predecessors import lasting
from hpclaunch.actions.preparing.preflight import notices_of
from hpclaunch.actions.preparing.submit import Prepared, prepare_case, with_predecessors
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import write_text
from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec, Request
from hpclaunch.runs import Run
from hpclaunch.runs.request_file import read_request

RERUN = "rerun.json"
"""The file in a new run's directory that names the run it repeats, and what is not the same."""
_TEXTS = ("node_type", "launcher", "strategy", "account", "partition", "qos")
_NUMBERS = ("tasks_per_node", "cpus_per_task", "gpus_per_node")


@record
class Rerun:
    """A run that is to be made again: the recorded one, the new one as it is prepared, and what differs.

    ``system`` is that of the folder where the first one was submitted; ``request`` what was typed then.
    """

    of: Run
    system: System
    request: Request
    prepared: Prepared
    differences: tuple[RerunDifference, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the run that is repeated, and what is not the same, as plain values."""
        different = [{"what": one.what, "before": one.before, "now": one.now} for one in self.differences]
        return {"rerun_of": str(self.of.path), "not_the_same": different}


def prepare_rerun(system: System, run: Run, runs_dir: str | None = None) -> Rerun:
    """Plan and render a run again from its recorded request and its own copy of the code.

    Node count, layout, places, launcher, walltime and every parameter are those of the record, whatever files and the
    planner would choose now. The new directory is made beside the old one unless ``runs_dir`` names another folder.
    Raises Refused for a run without its request, of another machine, or of an array whose words cannot be set alone.
    """
    require_own_site(run)
    recorded, folder = _read_request(run)
    waits = lasting((*recorded.after, *recorded.after_any))  # the jobs that it waited for are over
    request = replace(recorded, site=run.site, after=waits, after_any=())
    if run.index >= 0:
        request = _request_of_task(run, request)
    if not recorded.further_nodes:
        request = replace(request, nodes=nodes_before(run) or request.nodes)
    environment = without_active_python(system.environment)
    git_state = system.git_state if _is_in_place(run) else lambda snapshot: run.git
    there = replace(system, cwd=folder, environment=environment, git_state=git_state)
    prepared = _prepare(there, run, request, runs_dir)
    pinned = _pin_choices(run, prepared.spec, request)
    if pinned != request:
        # What the files choose now is replaced by what they chose then, if the site still accepts it.
        again = _prepare(there, run, pinned, runs_dir)
        prepared = prepared if again.faults else again
    found = differences_of(run, prepared)
    return Rerun(of=run, system=there, request=recorded, prepared=prepared, differences=found)


def rerun_notices(rerun: Rerun) -> list[str]:
    """Return the notices for the user on the new run, as a submission shows them."""
    return notices_of(rerun.prepared)


def submit_rerun(rerun: Rerun) -> Run:
    """Submit the new run as ``submit`` does, and write into its directory which run it repeats. See ``start``."""
    prepared, system = rerun.prepared, rerun.system
    run = start(system, prepared, named_job(system, rerun.request, otherwise=prepared.case.job))
    try:
        write_text(run.path / RERUN, json.dumps({"format": 1, **rerun.to_json()}, indent=2) + "\n")
    except OSError as error:
        system.warn(f"{run.path / RERUN} cannot be written, so the new run does not name the old one: {error.strerror}")
    return run


def _read_request(run: Run) -> tuple[Request, Path]:
    after = f"a new run of its code: hpclaunch submit {run.home / 'code'}"
    if not run.spec():
        what = f"{run.label} has no spec.json that can be read, so what it ran with is not known"
        raise Refused(Fault(where=str(run.home / "spec.json"), what=what, next=after))
    request, folder = read_request(run.home, after)
    if not folder.is_dir():
        what = f"the folder where {run.label} was submitted no longer exists"
        raise Refused(Fault(where=str(folder), what=what, next=f"make it again, or {after}"))
    return request, folder


def _is_in_place(run: Run) -> bool:
    code = run.spec().get("code")
    return isinstance(code, dict) and bool(code.get("in_place"))


def _request_of_task(run: Run, request: Request) -> Request:
    """Return the request of one run of an array: its values are settings. Raises Refused if they are free words."""
    sweep = run.spec().get("sweep")
    values = runs.swept(run)
    if not isinstance(sweep, dict) or sweep.get("free") or not values:
        what = f"{run.label} is one run of an array whose program declares no parameters, so its values are words"
        if not values:
            what = f"{run.label} is one run of an array, and its values are not recorded"
        array = run.home.name
        raise Refused(Fault(what=what, next=f"hpclaunch rerun {array} makes the whole array again"))
    return replace(request, sweep=(), at_once=None, settings=(*request.settings, *values.items()))


def _prepare(system: System, run: Run, request: Request, runs_dir: str | None) -> Prepared:
    """Plan and render the request with the run's own job; every parameter has its recorded value."""
    job = recorded_job(system, run, request)
    if job is not None and not _is_in_place(run):
        job = replace(job, recorded=True)
    case = with_predecessors(system, load(system, request, runs_dir or str(run.home.parent), job))
    if case.job.training is None or run.tasks:
        return prepare_case(system, advised(case))
    from hpclaunch.actions.continuing.resumed_recipe import keep_recipe

    case, remark = keep_recipe(case, run)
    prepared = prepare_case(system, case)
    return replace(prepared, notices=(*prepared.notices, remark)) if remark else prepared


def _pin_choices(run: Run, spec: JobSpec, request: Request) -> Request:
    """Return the request with the recorded places and sizes where they were chosen, and would be others now."""
    if spec.further or request.further_nodes:
        return request
    recorded = run.spec()
    layout = recorded.get("layout")
    before = {name: recorded.get(name) for name in _TEXTS} | {"walltime": recorded.get("walltime")}
    before |= {name: layout.get(name) for name in _NUMBERS} if isinstance(layout, dict) else {}
    now = {name: getattr(spec, name) for name in (*_TEXTS, "walltime")}
    now |= {name: getattr(spec.layout, name) for name in _NUMBERS}
    others: dict[str, Any] = {
        name: value
        for name, value in before.items()
        if getattr(request, name) is None and value and type(value) is type(now[name]) and value != now[name]
    }
    return replace(request, **others)
