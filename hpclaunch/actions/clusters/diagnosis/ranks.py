"""Whether all ranks ran where they should, and whether their files came back to this machine. Pure."""

from __future__ import annotations

import re
from collections import Counter

from hpclaunch.actions.clusters.diagnosis.evidence import PATHS, Check, ProbeEvidence, hint_of
from hpclaunch.core.units import count


def path_check(evidence: ProbeEvidence) -> Check:
    """Return the check of the run directory: the nodes and this machine must see the same files in it.

    A rank leaves two traces: a line in the log, and its report. Each trace may be missing for a reason of its own.
    """
    run = evidence.spec["run_dir"]
    if evidence.has_no_log:
        return _lost_check(
            evidence, f"the log folder {run}/logs does not exist on the nodes, so the job could not start"
        )
    if evidence.log is None and not evidence.ranks:
        return _lost_check(
            evidence, f"the job ended as {evidence.state}, but neither its log nor its files are in {run}"
        )
    logged = {int(number) for number in re.findall(r"\bdoctor: rank (\d+) on ", evidence.log or "")}
    # A rank that the launcher gave no number logs and reports as rank 0 (training/doctor/rank_probe.py).
    reported = {int(rank.get("rank") or 0) for rank in evidence.ranks}
    without_report = sorted(logged - reported)
    if without_report:
        ran = f"{count(len(without_report), 'rank')} ran"
        what = f"{ran}, but their files in {run} are not visible here (rank {without_report[0]} first)"
        return _lost_check(evidence, what)
    if not reported:
        return Check(name=PATHS, verdict="PASS", what=f"the job's log came back to {run}/logs")
    without_line = reported - logged
    if without_line:
        what = f"the log lacks the output of {count(len(without_line), 'rank')}"
        return Check(name=PATHS, verdict="WARN", what=what, next="look at logs/ in the run directory")
    hosts = count(len({rank["host"] for rank in evidence.ranks}), "node")
    what = f"{hosts} and this machine see the same code, log and results in {run}"
    return Check(name=PATHS, verdict="PASS", what=what)


def _lost_check(evidence: ProbeEvidence, what: str) -> Check:
    hint = f"{hint_of(PATHS, evidence.scheduler)}; folders.runs in the site file makes it the default"
    return Check(name=PATHS, verdict="FAIL", what=what, next=hint)


def rank_check(evidence: ProbeEvidence) -> Check:
    """Return the check of the layout: so many ranks on so many hosts, the same number on each."""
    layout = evidence.spec["layout"]
    nodes, tasks = layout["nodes"], layout["tasks_per_node"]
    hosts = Counter(evidence.values_of("host"))
    shape = f"{count(nodes, 'node')} x {count(tasks, 'task')}"
    seen = ", ".join(f"{host} {number}" for host, number in sorted(hosts.items())[:4])
    if len(hosts) == nodes and set(hosts.values()) == {tasks}:
        return Check(name="ranks", verdict="PASS", what=f"{nodes * tasks} on {shape}, as requested: {seen}")
    what = f"{sum(hosts.values())} of {nodes * tasks} ranks were seen ({seen}), but {shape} were requested"
    hint = "the launcher started another number of tasks: check 'launchers' and 'task_directives' in the site file"
    return Check(name="ranks", verdict="FAIL", what=what, next=hint)
