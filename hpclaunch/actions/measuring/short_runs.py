"""Short runs that measure the speed of a job: what they need to know of it, and how their requests are shortened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.preparing.load import load
from hpclaunch.actions.preparing.programs import program_job
from hpclaunch.actions.queueing.wait import wait
from hpclaunch.actions.system import System
from hpclaunch.config.job import Job, looks_like_path
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.spec import Layout, Request
from hpclaunch.guidelines.throughput import Shape
from hpclaunch.planner.job.workload import Workload, workload_of
from hpclaunch.planner.measured.calibrations import with_key
from hpclaunch.planner.measured.measurement import WARM_UP
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from hpclaunch.runs import Run
from hpclaunch.runs.snapshot import missing_script

STEPS, EPOCHS = 100, WARM_UP + 3
"""The most steps in an epoch of a run (at least 30 show the speed), and its number of epochs."""
WALLTIME = 15 * 60


def keyed_case(system: System, request: Request, runs_dir: str | None = None) -> Case:
    """Return the case of a request with the key under which its measurements are stored. Raises HpclaunchError.

    The key holds for every node count and batch size, so all short runs of a job carry it.
    """
    case = with_key(load(system, request, runs_dir, program_job(system, request)))
    missing = missing_script(system.cwd / request.target) if looks_like_path(request.target) else []
    if missing:
        raise Refused(missing)
    if not case.calibration_key:
        what = f"the code of {case.job.name} cannot be read, so its measurements cannot be stored"
        hint = "hpclaunch submit --dry-run with the same words tells why"
        raise Refused(Fault(where=case.job.folder, what=what, next=hint))
    return case


def layout_of_one_node(case: Case) -> Layout:
    """Return the layout that the case has on one node."""
    one_node = replace(case, request=replace(case.request, nodes=1))
    return sizing_of(one_node, Decisions()).layout


def shortenable(job: Job, request: Request) -> Workload:
    """Return the job's numbers. Raises Refused if hpclaunch does not know how to shorten the job."""
    if job.training is None:
        what = f"the job {job.name} has no 'training' section, so hpclaunch does not know how to shorten it"
        raise Refused(
            Fault(what=what, next="add 'training' to its job file (hpclaunch docs job-files); or plan --calibration")
        )
    work = workload_of(job, job.training, request.settings)
    lacking = [role for role in ("epochs", "batch_size_per_rank") if role not in work.names]
    if lacking or work.per_rank is None:
        what = f"{job.name} has no parameter for {', '.join(lacking) or 'batch_size_per_rank'}: it cannot be shortened"
        raise Refused(Fault(what=what, next="name the parameter under training.names in the job file"))
    return work


def shorten(request: Request, work: Workload, shape: Shape, steps: int) -> Request:
    """Return the request of a short run: a few epochs of complete steps.

    An epoch covers the whole data set if the job cannot train on a part of it, or if the data set is too small.
    """
    ours = {work.names["epochs"]: EPOCHS, work.names["batch_size_per_rank"]: shape.per_rank}
    replicas = max(1, shape.nodes * shape.ranks_per_node // work.gpus_per_replica)
    batch = replicas * shape.per_rank * shape.accumulation
    complete_steps = min(steps, work.samples // batch)
    if "train_samples" in work.names and complete_steps:
        ours[work.names["train_samples"]] = complete_steps * batch
    others = tuple(pair for pair in request.settings if pair[0] not in ours)
    settings = (*others, *((name, str(value)) for name, value in ours.items()))
    return replace(request, nodes=shape.nodes, walltime=request.walltime or WALLTIME, restarts=0, settings=settings)


def leave_out_export(job: Job, request: Request) -> Request:
    """Return the request of a run that leaves no trained model, if the job can do so: nobody serves a short run."""
    own = ("export_model", "false")
    return replace(request, settings=(*request.settings, own)) if own[0] in job.parameters else request


def wait_for_ends(system: System, found: Sequence[Run], words_of: Callable[[Run], str] = lambda run: "") -> list[Run]:
    """Wait until runs have ended, and report every change of a state, or of the words that follow it."""
    ended, shown = list(found), dict[Path, str]()
    for ended in wait(list(found), None, 0, system.tell):
        for run in ended:
            words = f"{run.label}: {run.state}{words_of(run)}" + (f" ({run.reason})" if run.reason else "")
            if shown.get(run.path) != words:
                system.tell(words)
            shown[run.path] = words
    return ended
