"""``doctor``: runs a short probe job through the site's scheduler and judges what its ranks report.

It also shows the nodes, and keeps the measured all-reduces for later plans.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.all_reduce import AllReduceReport, all_reduce_report
from hpclaunch.actions.clusters.diagnosis.device import DeviceReport, device_report
from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence, Verdict
from hpclaunch.actions.clusters.diagnosis.process_sets import inside_report
from hpclaunch.actions.clusters.diagnosis.refusals import refusals
from hpclaunch.actions.clusters.diagnosis.topology import NodeTopology, topologies
from hpclaunch.actions.clusters.kept_measurements import keep_measured
from hpclaunch.actions.preparing.submit import Prepared, prepare
from hpclaunch.actions.preparing.this_machine import misplaced
from hpclaunch.actions.queueing.start import start
from hpclaunch.actions.queueing.wait import wait
from hpclaunch.actions.system import System
from hpclaunch.config.job import Job, Resources
from hpclaunch.config.source_age import age_words, old_origins
from hpclaunch.core.errors import Fault, HpclaunchError, Interrupted
from hpclaunch.core.files import json_object, read_end, read_text
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import JAX, PYTORCH, TENSORFLOW, Request
from hpclaunch.core.units import count
from hpclaunch.core.version import __version__
from hpclaunch.launchers import launcher_row
from hpclaunch.runs import Run
from hpclaunch.schedulers import scheduler_of

MARKER = "HPCLAUNCH_DOCTOR_MARK"
"""A variable that only the submitting shell has; rank_probe.py looks for it."""
FOLDER = PACKAGE / "training" / "doctor"
SCRIPT = "rank_probe.py"
PROBE = str(FOLDER / SCRIPT)
"""The target in the request of a probe."""
FRAMEWORKS = (TENSORFLOW, PYTORCH, JAX)
"""What a probe can be made for."""
WALLTIME = 10 * 60
NODES = 2
_FILE_DELAY_S = 15
"""How long to wait for files of other nodes (NFS caches attributes for 3 to 60 s)."""
_LONGEST_LOG = 200_000
_MOST_OLD = 8
"""Keys with old sources that are named."""


@record
class Report:
    """The checks of a site, and the run of the probe if there is one.

    ``nodes``: those that its ranks saw; of several that are alike the first. ``all_reduce``: the measured times, if
    there are several ranks; ``device``: the speed of the slowest rank's device, if all measured one; ``kept``: the
    files in which a plan finds them; ``not_kept``: why it will not find all of them.
    """

    site: str
    checks: tuple[Check, ...]
    run: Run | None = None
    nodes: tuple[NodeTopology, ...] = ()
    all_reduce: AllReduceReport | None = None
    device: DeviceReport | None = None
    kept: tuple[str, ...] = ()
    not_kept: str = ""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != "FAIL" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        run = self.run.to_json() if self.run else None
        return {
            "site": self.site,
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
            "run": run,
            "nodes": [asdict(node) for node in self.nodes],
            "all_reduce": self.all_reduce.to_json() if self.all_reduce else None,
            "device": asdict(self.device) if self.device else None,
            "kept": list(self.kept),
            "not_kept": self.not_kept,
        }


def examine(system: System, request: Request, runs_dir: str | None = None) -> Report:
    """Submit the probe, wait for its end, and return the checks. A refused submission is a failed check.

    Raises HpclaunchError if no site file can be used, and Interrupted if a person interrupts the wait; the job then
    continues.
    """
    prepared, remarks = _prepare_probe(system, request, runs_dir)
    first_checks = (*_installation_checks(prepared), *_site_checks(prepared), *remarks)
    run: Run | None = None
    # The scheduler's programs inherit the environment of this process, not the one that System supplies.
    os.environ[MARKER] = "set where the probe was submitted"
    try:
        run = start(system, prepared)
        system.tell(
            f"submitted {run.label} as job {run.job_id}; waiting for its end (Ctrl-C stops waiting, not the job; "
            f"later: hpclaunch doctor --from {run.label})"
        )
        run = _wait_for_end(system, run)
    except KeyboardInterrupt:
        raise _interruption(run) from None
    except HpclaunchError as error:
        return Report(site=prepared.spec.site, checks=(*first_checks, *_refusal_checks(prepared, error)), run=run)
    finally:
        del os.environ[MARKER]
    found = _report_of_ranks(system, run)
    return replace(found, checks=(*first_checks, *found.checks))


def probe_job() -> Job:
    """Return the job of the probe; it requests the site's usual resources."""
    resources = Resources(walltime=WALLTIME, exit_wait=30)
    summary = "what every rank gets, for hpclaunch doctor"
    return Job(name="doctor", folder=str(FOLDER), summary=summary, script=SCRIPT, resources=resources)


def _prepare_probe(system: System, request: Request, runs_dir: str | None) -> tuple[Prepared, list[Check]]:
    """Prepare the probe: on two nodes, to see problems between nodes, or one; without a queue, with two ranks."""
    request = replace(request, restarts=0)
    first = prepare(system, replace(request, nodes=request.nodes or 1), runs_dir, probe_job())
    if not scheduler_row(first.spec.scheduler).has_queue:
        if first.spec.layout.world_size > 1 or request.tasks_per_node is not None:
            return first, []
        pair = prepare(system, replace(request, nodes=1, tasks_per_node=2), runs_dir, probe_job())
        return (pair if _has_launcher(pair) and not pair.faults else first), []  # faults: one GPU for two ranks
    if request.nodes is not None:
        return first, []
    several = prepare(system, replace(request, nodes=NODES), runs_dir, probe_job())
    if several.faults and not first.faults:
        what = f"only one node was tested: {NODES} nodes are not possible ({several.faults[0].what})"
        return first, [Check(name="request", verdict="WARN", what=what, next="problems between nodes were not tested")]
    return several, []


def _has_launcher(prepared: Prepared) -> bool:
    """Whether the launcher's program is installed beside the Python of the probe."""
    python = prepared.spec.command[0]
    place = str(Path(python).parent) if "/" in python else _search_path(prepared)
    return all(
        shutil.which(name, path=place)
        for name in launcher_row(prepared.spec.launcher).programs_at(prepared.spec.scheduler, prepared.spec.contained)
    )


def _search_path(prepared: Prepared) -> str:
    return prepared.case.context.environment.get("PATH", os.defpath)


def _installation_checks(prepared: Prepared) -> list[Check]:
    """Return the checks of this machine: hpclaunch and the scheduler's programs."""
    version = platform.python_version()
    checks = [Check(name="hpclaunch", verdict="PASS", what=f"{__version__} with Python {version} ({sys.executable})")]
    row = scheduler_row(prepared.spec.scheduler)
    near = os.pathsep.join([str(Path(sys.executable).parent), _search_path(prepared)])
    found = [name for name in row.programs if shutil.which(name, path=near)]
    missing = [name for name in row.programs if name not in found]
    verdict: Verdict = "PASS"
    if missing and row.needs_all_programs:
        verdict = "FAIL"
    elif not found:
        verdict = "WARN"
    what = f"{', '.join(found)}" + (f"; missing: {', '.join(missing)}" if missing else "")
    hint = "" if verdict == "PASS" else row.programs_hint
    return [*checks, Check(name="programs", verdict=verdict, what=what.removeprefix("; "), next=hint)]


def _site_checks(prepared: Prepared) -> list[Check]:
    """Return the checks of the site file against the nodes and partitions that the scheduler shows, if it does."""
    site = prepared.case.site
    if not site.scheduler_row.has_queue or misplaced(prepared.case, prepared.spec):
        return []
    scheduler = scheduler_of(site.scheduler)
    with scheduler.asking(prepared.spec.clusters):
        found = scheduler.compare(site)
    today = date.fromisoformat(prepared.case.context.now[:10])
    words, old = age_words(site, today), old_origins(site, today)
    age = f"; its newest source is {words}" if words else ""
    if old:
        age += f"; only old sources for {', '.join(old[:_MOST_OLD])}" + (", ..." if len(old) > _MOST_OLD else "")
    if found is None:
        return [Check(name="site file", verdict="PASS", what=age.removeprefix("; "))] if age else []
    if not found.differences:
        shown = f"{count(found.nodes, 'node')} in {count(found.partitions, 'partition')}"
        return [Check(name="site file", verdict="PASS", what=f"as {site.scheduler_row.title} shows its {shown}{age}")]
    advice = f"correct it in {_place_of(prepared)}; to compare all of it: hpclaunch sites check {site.name}"
    aged = [Check(name="site file", verdict="PASS", what=age.removeprefix("; "))] if age else []
    return aged + [
        Check(name="site file", verdict="FAIL" if one.wrong else "WARN", what=f"{one.key}: {one.what}", next=advice)
        for one in found.differences
    ]


def _place_of(prepared: Prepared) -> str:
    """Return where to correct the site file: a bundled one is copied first."""
    name = prepared.case.site.name
    if prepared.case.context.own_site:
        return f"the site file of {name}"
    return f"a copy of your own (hpclaunch sites show {name} --yaml > site_configs/{name}.yaml)"


def _refusal_checks(prepared: Prepared, error: HpclaunchError) -> list[Check]:
    """Return a failed check for every reason why the probe was refused."""
    name = prepared.spec.scheduler
    with scheduler_of(name).asking(prepared.spec.clusters):
        offered = [] if misplaced(prepared.case, prepared.spec) else scheduler_of(name).gpu_types()
    return refusals(error.faults, prepared.spec.directives, offered, scheduler_row(name))


def _wait_for_end(system: System, run: Run) -> Run:
    shown = ""
    for (now,) in wait([run], None, 0, system.tell):
        run = now
        words = f"{run.label}: {run.state}" + (f" ({run.reason})" if run.reason else "")
        if words != shown:
            system.tell(words)
        shown = words
    return run


def _interruption(run: Run | None) -> Interrupted:
    if run is None:
        return Interrupted(Fault(what="interrupted before the probe was submitted"))
    what, name = f"interrupted; {run.label} continues", run.label
    return Interrupted(
        Fault(what=what, next=f"when it has ended: hpclaunch doctor --from {name}; or hpclaunch cancel {name}")
    )


def report_of(system: System, run: Run) -> Report:
    """Return the report of a probe that was submitted earlier. Raises HpclaunchError if the run is not a probe."""
    if run.name != "doctor" or not run.spec():
        raise HpclaunchError(
            Fault(where=run.label, what="is not a probe of hpclaunch doctor", next="hpclaunch runs list")
        )
    if not run.final:
        raise HpclaunchError(
            Fault(where=run.label, what=f"has not ended ({run.state})", next=f"hpclaunch wait {run.label}")
        )
    return _report_of_ranks(system, run)


def _report_of_ranks(system: System, run: Run) -> Report:
    """Return the report of an ended probe, and keep its all-reduces. Raises HpclaunchError if its files are damaged."""
    try:
        evidence = _evidence_of(run)
        measured, device = all_reduce_report(evidence), device_report(evidence)
        kept, not_kept = keep_measured(system, run, evidence, (measured, inside_report(evidence)), device)
        return Report(
            site=run.site,
            checks=tuple(diagnose(evidence)),
            run=run,
            nodes=topologies(evidence.ranks),
            all_reduce=measured,
            device=device,
            kept=kept,
            not_kept=not_kept,
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        what = "the spec of this probe, or what its ranks reported, is damaged"
        raise HpclaunchError(Fault(where=str(run.path), what=what, next="hpclaunch doctor runs a new one")) from None


def _evidence_of(run: Run) -> ProbeEvidence:
    """Return what the ranks and the script wrote into the run directory."""
    spec = run.spec()
    layout = spec["layout"]
    ranks = _read_ranks(run, int(layout["nodes"]) * int(layout["tasks_per_node"]))
    logs = sorted((run.path / "logs").glob("*.out"))  # the job's, and the ranks' own where they have any
    log = "".join(read_end(path, _LONGEST_LOG).decode("utf-8", errors="replace") for path in logs) if logs else None
    return ProbeEvidence(
        spec=spec,
        state=run.state,
        exit_code=run.exit_code,
        reason=run.reason,
        log=log,
        ranks=ranks,
        mark=MARKER,
        mpi_types=_mpi_types(spec),
    )


def _mpi_types(spec: Mapping[str, Any]) -> list[str]:
    """Return the MPI types that the run's launcher supports."""
    return scheduler_of(spec["scheduler"]).mpi_types() if launcher_row(spec["launcher"]).mpi_option else []


def _read_ranks(run: Run, expected: int) -> Sequence[dict[str, Any]]:
    """Return what the ranks reported, by rank number; waits for files that NFS may still delay."""
    deadline = time.monotonic() + (_FILE_DELAY_S if run.state == "COMPLETED" else 0)
    while True:
        files = sorted((run.path / "doctor").glob("rank-*.json"))
        if len(files) >= expected or time.monotonic() >= deadline:
            break
        time.sleep(0.5)
    found = [facts for file in files if (facts := json_object(read_text(file)))]
    return sorted(found, key=lambda facts: facts.get("rank") or 0)


def summary_of(report: Report) -> str:
    """Return the result as one line."""
    failed = sum(check.verdict == "FAIL" for check in report.checks)
    warned = sum(check.verdict == "WARN" for check in report.checks)
    if failed:
        return f"{report.site}: {count(failed, 'check')} failed"
    return f"{report.site}: every check passed" + (f", {count(warned, 'warning')}" if warned else "")
