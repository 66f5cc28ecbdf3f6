"""``resume``: continues an ended run in its own directory, if wanted on another number of nodes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial

from hpclaunch import runs
from hpclaunch.actions.continuing.recorded_job import named_job, nodes_before, recorded_job
from hpclaunch.actions.following.identity import elsewhere, require_own_site
from hpclaunch.actions.following.states import unsubmitted_fault
from hpclaunch.actions.preparing.active_python import without_active_python
from hpclaunch.actions.preparing.advice import advised
from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.predecessors import lasting
from hpclaunch.actions.preparing.preflight import check
from hpclaunch.actions.preparing.submit import Prepared, follow_live_limit, prepare_case, with_predecessors
from hpclaunch.actions.queueing.hand_over import hand_over
from hpclaunch.actions.queueing.retry import for_another_start, script_of, start_in_array
from hpclaunch.actions.queueing.start import refuse_untrusted
from hpclaunch.actions.system import System
from hpclaunch.core.errors import Fault, Refused, unwritable
from hpclaunch.core.files import read_text, write_text
from hpclaunch.core.records import record
from hpclaunch.core.run_states import NEVER_QUEUED
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import LIBRARY, SAMPLER
from hpclaunch.runs import Run
from hpclaunch.runs.recorded_layout import ranks_of, walltime_of
from hpclaunch.runs.request_file import read_request


@record
class Changes:
    """What a resumed run gets instead of what it had; None: the same. ``walltime`` is in seconds."""

    nodes: int | None = None
    walltime: int | None = None
    recipe: str | None = None

    @property
    def none(self) -> bool:
        """Whether nothing changes, so that the run's own script is used."""
        return self.nodes is None and self.walltime is None and self.recipe is None


def resume(system: System, run: Run, changes: Changes) -> tuple[Run, list[str]]:
    """Submit an ended run again; its program continues from its checkpoints. Returns the run and warnings.

    With changes the script is planned and rendered again, from the request and the code in the run directory. The run
    keeps its global batch, optimizer, schedule and rate, unless a ``recipe`` is named. Raises Refused for a run that
    has not ended or that completed, and for a number of ranks that cannot share its batch.
    """
    require_own_site(run)
    if run.tasks or run.index >= 0:
        return _resume_in_array(run, changes), []
    _refuse_unended(run)
    earlier = (*run.earlier, run.job_id) if run.job_id else run.earlier
    if changes.none and not run.allocation:  # the script of a run in an allocation has the options of that
        script = script_of(run)
        try:
            os.utime(run.script)  # the script counts its restarts from here
        except OSError as error:
            raise unwritable(run.script, error) from None
        text = for_another_start(run, script, run.excluded).text
        return hand_over(run, text, walltime_of(run.spec()), earlier=earlier), []
    prepared, remarks = _prepare_resumed(system, run, changes)
    prepared = follow_live_limit(system, prepared)
    delays = check(prepared)
    _refuse_untrusted(system, run, prepared)
    warnings = [*prepared.notices, *remarks, *delays]
    text = for_another_start(run, prepared.job_script, run.excluded).text
    write = partial(_write, run, prepared, len(earlier))
    return hand_over(run, text, prepared.spec.walltime, write=write, earlier=earlier), warnings


def _resume_in_array(run: Run, changes: Changes) -> Run:
    """Submit one run of an array again, or all its runs that ended without completing, as an array."""
    if not changes.none:
        what = f"{run.label} belongs to a job array, whose runs share one script"
        raise Refused(Fault(what=what, next="resume it without --nodes, --walltime and --recipe"))
    if run.index >= 0:
        _refuse_unended(run)
        ended = [run]
    else:
        ended = [task for task in runs.tasks_of(run) if task.final and task.state != "COMPLETED"]
        if not ended:
            _refuse_unended(run)
    for task in ended:
        try:
            task.path.mkdir(mode=0o700, exist_ok=True)
            (task.path / "resumed").touch()  # the script counts its restarts from here
        except OSError as error:
            raise unwritable(task.path, error) from None
    return start_in_array(run, [task.index for task in ended], run.excluded, run.excluded_because)


def _refuse_unended(run: Run) -> None:
    name = run.label
    if run.state == "COMPLETED":
        raise Refused(Fault(what=f"{name} has completed: there is nothing to resume", next=f"hpclaunch results {name}"))
    if run.state in NEVER_QUEUED:
        raise Refused(unsubmitted_fault(run))
    if not run.final:
        what = f"{name} has not ended: its last known state is {run.state}"
        raise Refused(Fault(what=what, next=f"hpclaunch wait {name}, or hpclaunch cancel {name}"))


def _prepare_resumed(system: System, run: Run, changes: Changes) -> tuple[Prepared, list[str]]:
    """Plan and render the run's recorded request again, with the changes; returns remarks on the batch, too."""
    typed, folder = read_request(run.path)
    if changes.nodes is not None and typed.further_nodes:
        what = f"{run.label} has nodes of several types, and --nodes does not say which of them to count"
        next_step = "resume it without --nodes; for other numbers of nodes: hpclaunch submit --node-type NAME:NODES,…"
        raise Refused(Fault(what=what, where="--nodes", next=next_step))
    waits = lasting((*typed.after, *typed.after_any))  # the jobs that it waited for are over
    request = replace(typed, site=run.site, after=waits, after_any=())
    if clusters := elsewhere(run):
        request = replace(request, sbatch=(*request.sbatch, f"--clusters={clusters}"))
    # The same node count as before, unless another is typed: the planner might choose another one now.
    nodes, walltime = changes.nodes or nodes_before(run) or request.nodes, changes.walltime or request.walltime
    request = replace(request, nodes=nodes, walltime=walltime, recipe=changes.recipe or request.recipe)
    there = replace(system, cwd=folder, environment=without_active_python(system.environment))
    case = with_predecessors(there, load(there, request, job=recorded_job(there, run, request)))
    case = replace(case, context=replace(case.context, run_dir=str(run.path)))
    if changes.recipe is None and case.job.training is not None:
        from hpclaunch.actions.continuing.resumed_recipe import keep_recipe

        case, remark = keep_recipe(case, run)
        return prepare_case(there, case), [remark] if remark else []
    prepared = prepare_case(there, advised(case))
    if changes.recipe is None:
        return prepared, _other_world(run, prepared)
    from hpclaunch.actions.continuing.resumed_recipe import new_recipe

    return prepared, new_recipe(run, prepared)


def _refuse_untrusted(system: System, run: Run, prepared: Prepared) -> None:
    """Raise Refused if the new script would start programs of the project here that the user never named.

    What the user named is the job of the first submission; its code is now the run's copy of it.
    """
    if scheduler_row(run.scheduler).has_queue:
        return
    request, folder = read_request(run.path)
    there = replace(system, cwd=folder)
    named = named_job(there, request, otherwise=prepared.case.job)
    refuse_untrusted(there, replace(prepared, case=replace(prepared.case, job=named)))


def _write(run: Run, prepared: Prepared, number: int) -> None:
    """Write the new script, library and spec; the old ones stay beside them with a number in their names."""
    spec = json.dumps(prepared.spec.to_json(), indent=2) + "\n"
    script = prepared.script
    beside = [(LIBRARY, script.library), *([(SAMPLER, script.sampler)] if script.sampler else [])]
    try:
        for name, text in (*beside, ("job.sh", prepared.text), ("spec.json", spec)):
            stem, _, ending = name.partition(".")
            write_text(run.path / f"{stem}.{number}.{ending}", read_text(run.path / name))
            write_text(run.path / name, text)
    except OSError as error:
        raise unwritable(run.path, error) from None


def _other_world(run: Run, prepared: Prepared) -> list[str]:
    """Return a remark on another number of ranks, for a job whose batch hpclaunch does not know."""
    ranks, layout = ranks_of(run.spec()), prepared.spec.layout
    if ranks in (0, layout.world_size):
        return []
    what = (
        f"world size {layout.world_size} instead of {ranks}: the batch size of every rank stays as its program has it"
    )
    return [f"{what}, so the global batch size changes with the ranks"]
