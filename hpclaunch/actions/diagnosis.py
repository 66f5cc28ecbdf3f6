"""What a probe job's ranks reported -> PASS, WARN or FAIL for each promise of the script, and a next step. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from hpclaunch.actions.gpu_checks import gpu_check
from hpclaunch.actions.probe_evidence import HINTS, Check, Facts, ProbeEvidence
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count
from hpclaunch.launchers import LauncherRow, launcher_row
from hpclaunch.schedulers import UNOPENED_LOG

_OLDEST_TENSORFLOW, _NEWEST_TENSORFLOW = (2, 9), (2, 15)
"""TensorFlow versions that Horovod 0.28.1 works with (see training/rank/placement.py)."""


def diagnose(evidence: ProbeEvidence) -> list[Check]:
    """Return all checks, in the order in which a run would fail."""
    if _has_not_begun(evidence):
        return [_end_check(evidence)]
    path_check = _path_check(evidence)
    if not evidence.ranks:
        # Paths that failed already explain why no rank reported.
        if path_check.verdict != "PASS":
            return [path_check]
        return [path_check, _step_check(evidence) or _end_check(evidence)]
    checks = [
        path_check,
        _rank_check(evidence),
        _mpi_check(evidence),
        gpu_check(evidence),
        *_cpu_checks(evidence),
        _environment_check(evidence),
        _tensorflow_check(evidence),
        _horovod_check(evidence),
    ]
    explained = any(check.verdict == "FAIL" for check in checks)
    if evidence.state == "COMPLETED" or explained:
        return checks
    return [*checks, _end_check(evidence)]


def _end_check(evidence: ProbeEvidence) -> Check:
    """Return the failed check of a job that did not end as it should."""
    code = f", exit code {evidence.exit_code}" if evidence.exit_code not in ("", "0:0") else ""
    ended = f"the job ended as {evidence.state}{code}"
    if evidence.state == "UNKNOWN":
        ended = "the state of the job is unknown"
    reason = f" ({evidence.reason})" if evidence.reason else ""
    line = _error_line(evidence.log or "")
    what = f"{ended}{reason}" + (f": {line}" if line else "")
    run = evidence.spec["run_dir"].rpartition("/")[2]
    hint = f"read its log: hpclaunch logs {run}" if evidence.log is not None else "try again: hpclaunch doctor"
    return Check(name="job", verdict="FAIL", what=what, next=hint)


def _step_check(evidence: ProbeEvidence) -> Check | None:
    """Return a failed check if srun started no rank because it lacks the MPI type, else None."""
    lines = [" ".join(line.split()) for line in (evidence.log or "").splitlines()]
    error = next((line for line in lines if re.search(r"error: .*(mpi/\w|MPI (plugin|type))", line, re.IGNORECASE)), "")
    if not error:
        return None
    what = f"srun does not support --mpi={_mpi_type(evidence)}: {error[:200]}"
    return Check(name="MPI", verdict="FAIL", what=what, next=_mpi_hint(evidence))


def _has_no_log(evidence: ProbeEvidence) -> bool:
    """Whether the scheduler could not open the job's log."""
    return evidence.reason == UNOPENED_LOG


def _has_not_begun(evidence: ProbeEvidence) -> bool:
    """Whether the job never ran, for example because it was cancelled in the queue."""
    left_nothing = evidence.log is None and not evidence.ranks
    # Without a log folder a job leaves nothing either, although it began.
    return left_nothing and not _has_no_log(evidence) and evidence.state not in ("COMPLETED", "FAILED", "TIMEOUT")


def _error_line(log: str) -> str:
    """Return the most useful line of the log: the script's own error, else srun's or Slurm's, else the last line."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    for form in (r"hpclaunch: .*", r"(srun|slurmstepd|sbatch): (fatal|error): .*", r".*(rror|annot|ailed).*"):
        found = [line for line in lines if re.fullmatch(form, line)]
        if found:
            return found[0][:300]
    return lines[-1][:300] if lines else ""


def _path_check(evidence: ProbeEvidence) -> Check:
    run = evidence.spec["run_dir"]
    hint = f"{HINTS['shared paths']}; folders.runs in the site file makes it the default"
    if _has_no_log(evidence):
        what = f"the log folder {run}/logs does not exist on the nodes, so the job could not start"
        return Check(name="shared paths", verdict="FAIL", what=what, next=hint)
    if evidence.log is None and not evidence.ranks:
        what = f"the job ended as {evidence.state}, but neither its log nor its files are in {run}"
        return Check(name="shared paths", verdict="FAIL", what=what, next=hint)
    logged = set(re.findall(r"\bdoctor: rank (\d+) on ", evidence.log or ""))
    # A rank that the launcher gave no number logs and reports as rank 0 (training/doctor/rank_probe.py).
    reported = [str(rank.get("rank") or 0) for rank in evidence.ranks]
    lost = sorted(map(int, logged.difference(reported)))
    if lost:
        what = f"{count(len(lost), 'rank')} ran, but their files in {run} are not visible here (rank {lost[0]} first)"
        return Check(name="shared paths", verdict="FAIL", what=what, next=hint)
    if not evidence.ranks:
        return Check(name="shared paths", verdict="PASS", what=f"the job's log came back to {run}/logs")
    silent = [number for number in reported if number not in logged]
    if silent:
        what = f"the log lacks the output of {count(len(silent), 'rank')}"
        return Check(name="shared paths", verdict="WARN", what=what, next="look at logs/ in the run directory")
    hosts = count(len({rank["host"] for rank in evidence.ranks}), "node")
    what = f"{hosts} and this machine see the same code, log and results in {run}"
    return Check(name="shared paths", verdict="PASS", what=what)


def _rank_check(evidence: ProbeEvidence) -> Check:
    layout = evidence.spec["layout"]
    nodes, tasks = layout["nodes"], layout["tasks_per_node"]
    hosts = Counter(rank["host"] for rank in evidence.ranks)
    shape = f"{count(nodes, 'node')} x {count(tasks, 'task')}"
    seen = ", ".join(f"{host} {number}" for host, number in sorted(hosts.items())[:4])
    if len(hosts) == nodes and set(hosts.values()) == {tasks}:
        return Check(name="ranks", verdict="PASS", what=f"{nodes * tasks} on {shape}, as requested: {seen}")
    what = f"{sum(hosts.values())} of {nodes * tasks} ranks were seen ({seen}), but {shape} were requested"
    hint = "the launcher started another number of tasks: check 'launchers' and 'task_directives' in the site file"
    return Check(name="ranks", verdict="FAIL", what=what, next=hint)


def _launcher(evidence: ProbeEvidence) -> LauncherRow:
    return launcher_row(evidence.spec["launcher"])


def _mpi_type(evidence: ProbeEvidence) -> str:
    typed = [word.removeprefix("--mpi=") for word in evidence.spec["launch"] if word.startswith("--mpi=")]
    seen = [rank.get("assigned", {}).get("SLURM_MPI_TYPE", "") for rank in evidence.ranks]
    return next(filter(None, typed[:1] or seen), "")


def _mpi_hint(evidence: ProbeEvidence) -> str:
    if not _launcher(evidence).is_step:
        return "check 'launchers' in the site file; hpclaunch submit --launcher tries another"
    types = ", ".join(name for name in evidence.mpi_types if name not in (_mpi_type(evidence), "none"))
    others = f"srun has {types}" if types else "srun --mpi=list shows the types"
    return f"set mpi under launchers.options.srun in the site file: {others} (Open MPI uses pmix)"


def _mpi_check(evidence: ProbeEvidence) -> Check:
    launcher, mpi_type = evidence.spec["launcher"], _mpi_type(evidence)
    launch = f"{launcher} --mpi={mpi_type}" if mpi_type and _launcher(evidence).is_step else launcher
    size = evidence.spec["layout"]["nodes"] * evidence.spec["layout"]["tasks_per_node"]
    worlds = [rank["world"] for rank in evidence.ranks if "world" in rank]
    if not worlds:
        reached_mpi = any(rank["step"] == "world" for rank in evidence.ranks)
        hint = _mpi_hint(evidence) if reached_mpi else "correct TensorFlow and Horovod first (below)"
        return Check(name="MPI", verdict="FAIL", what=_describe_missing_world(evidence, launch), next=hint)
    problem = _world_problem(worlds, size, launch)
    if problem:
        return Check(name="MPI", verdict="FAIL", what=problem, next=_mpi_hint(evidence))
    files = [path.rpartition("/")[2] for path in worlds[0]["libraries"] if "/libmpi" in path]
    library = f" ({files[0]})" if files else ""
    return Check(name="MPI", verdict="PASS", what=f"{count(size, 'rank')} in one job under {launch}{library}")


def _world_problem(worlds: Sequence[Facts], size: int, launch: str) -> str:
    """Return what is wrong with the ranks' worlds, of which there should be one of ``size`` ranks; else nothing."""
    sizes = sorted({world["size"] for world in worlds})
    if sizes == [1] and size != 1:
        return f"under {launch} each rank starts as a separate one-rank job; {size} ranks in one job were requested"
    if sizes != [size]:
        numbers = ", ".join(map(str, sizes))
        return f"under {launch} the ranks form jobs of {numbers} ranks; {size} ranks in one job were requested"
    if len(worlds) < size or {world["rank"] for world in worlds} != set(range(size)):
        return f"only {len(worlds)} of {size} ranks joined under {launch}"
    if {world["sum"] for world in worlds} != {float(size)}:
        return f"a sum over {count(size, 'rank')} has a wrong result"
    return ""


def _describe_missing_world(evidence: ProbeEvidence, launch: str) -> str:
    if not any(rank["step"] == "world" for rank in evidence.ranks):
        return f"it is unknown whether {launch} joins the ranks: no rank got as far as MPI"
    line = _problem(evidence, "world") or _mpi_error_line(evidence.log or "")
    return f"Horovod started on no rank under {launch}" + (f": {line[:200]}" if line else "")


def _mpi_error_line(log: str) -> str:
    """Return the first error line of MPI or PMI, else the most useful line of the log."""
    lines = [" ".join(line.split()) for line in log.splitlines()]
    own = (line for line in lines if re.search(r"OPAL ERROR|MPI_Init|PMIX? ERROR|PMI2?_Init|mpi/pmi", line))
    return next(own, "") or _error_line(log)


def _cpu_checks(evidence: ProbeEvidence) -> list[Check]:
    layout = evidence.spec["layout"]
    requested, tasks = layout["cpus_per_task"], layout["tasks_per_node"]
    binding = _binding_check(evidence, requested, tasks)
    if not _launcher(evidence).ranks_are_tasks:
        return [binding]  # Slurm's variable describes a task, and here a task is not a rank
    variables = [rank["assigned"] for rank in evidence.ranks]
    seen = {names["SLURM_CPUS_PER_TASK"] for names in variables if "SLURM_CPUS_PER_TASK" in names}
    if seen == {str(requested)}:
        what = f"{requested} for every task, as requested"
        return [Check(name="CPUs per task", verdict="PASS", what=what), binding]
    what = f"{', '.join(sorted(seen)) or 'none'}; {requested} were requested"
    hint = "a TaskProlog or a variable of the site changes it: use --cpus-per-task N"
    return [Check(name="CPUs per task", verdict="FAIL", what=what, next=hint), binding]


def _binding_check(evidence: ProbeEvidence, requested: int, tasks: int) -> Check:
    hint = "set cpu_bind: cores under launchers.options.srun in the site file"
    host = evidence.ranks[0]["host"]
    here = [rank for rank in evidence.ranks if rank["host"] == host]
    sets = [frozenset(rank["cpus"]) for rank in here]
    node_cpus, narrowest = here[0]["node_cpus"], min(map(len, sets))
    used: frozenset[int] = frozenset().union(*sets)
    disjoint = sum(map(len, sets)) == len(used)
    # A rank with all CPUs of its node is not bound too tightly: the node has too few, which the next check reports.
    if narrowest < requested and narrowest < (node_cpus or 0):
        what = f"a rank on {host} may use {narrowest} of its {requested} CPUs"
        return Check(name="CPU binding", verdict="FAIL", what=what, next=hint)
    if node_cpus and tasks * requested > node_cpus:
        what = f"{host} has {node_cpus} CPUs, but Slurm gave {tasks} tasks {requested} each"
        hint = "Slurm is configured with more CPUs than the node has; ranks wait for each other"
        return Check(name="CPU binding", verdict="WARN", what=what, next=hint)
    share_cpus = len(sets) > 1 and not disjoint
    if share_cpus and scheduler_row(evidence.spec["scheduler"]).binds_cpus:
        what = f"not bound: {len(sets)} ranks on {host} share {len(used)} CPUs"
        return Check(name="CPU binding", verdict="WARN", what=what, next=hint)
    own = "to itself" if disjoint else f"and shares them; each has {count(requested, 'thread')}"
    return Check(name="CPU binding", verdict="PASS", what=f"every rank has {count(narrowest, 'CPU')} {own}")


def _environment_check(evidence: ProbeEvidence) -> Check:
    promised = dict(map(tuple, evidence.spec["environment"]))
    pythons = sorted({f"{rank['python']} ({rank['python_version']})" for rank in evidence.ranks})
    if len(pythons) > 1:
        what = f"ranks run different Pythons: {', '.join(pythons)}"
        return Check(name="environment", verdict="FAIL", what=what, next="name one for all nodes under 'environment:'")
    for rank in evidence.ranks:
        wrong = [name for name, value in rank["variables"].items() if name in promised and value != promised[name]]
        if wrong:
            value = rank["variables"][wrong[0]]
            what = f"rank {rank['rank']} has {wrong[0]}={value!r}, but the script sets {promised[wrong[0]]!r}"
            hint = "a profile, a TaskProlog or the container changes it"
            return Check(name="environment", verdict="FAIL", what=what, next=hint)
    stray_check = _stray_check(evidence, promised)
    if stray_check:
        return stray_check
    what = f"{pythons[0]}; {len(promised)} variables as the script sets"
    return Check(name="environment", verdict="PASS", what=what)


def _stray_check(evidence: ProbeEvidence, promised: Mapping[str, str]) -> Check | None:
    """Return a warning if ranks have variables that neither the site nor the job sets, else None."""
    strays = sorted({name for rank in evidence.ranks for name in rank["strays"]})
    exports_nothing = ["export", "NONE"] in list(map(list, evidence.spec["directives"]))
    if exports_nothing and evidence.mark in strays:
        what = "the submitting shell's variables reach the ranks in spite of --export=NONE"
        return Check(name="environment", verdict="WARN", what=what, next="ask the site's staff")
    # Where the shell's variables are exported on purpose, the mark is one of them.
    others = [name for name in strays if name != evidence.mark and name not in promised]
    if others:
        what = f"{', '.join(others)} is set for the ranks, but neither the site nor the job sets it"
        return Check(name="environment", verdict="WARN", what=what, next="a login profile or a module sets it")
    return None


def _problem(evidence: ProbeEvidence, step: str) -> str:
    """Return the first problem that a rank reported in a step; empty if none did."""
    return next((rank["problem"] for rank in evidence.ranks if rank.get("problem") and rank["step"] == step), "")


def _tensorflow_check(evidence: ProbeEvidence) -> Check:
    name = "TensorFlow"
    versions = sorted({rank["tensorflow"]["version"] for rank in evidence.ranks if "tensorflow" in rank})
    hint = "name one with TensorFlow 2.9 to 2.15 under 'environment:' in the settings, the job or the site file"
    if not versions:
        problem = _problem(evidence, "tensorflow") or "no rank has loaded it"
        return Check(name=name, verdict="FAIL", what=f"{evidence.ranks[0]['python']}: {problem}", next=hint)
    if len(versions) > 1:
        return Check(name=name, verdict="FAIL", what=f"ranks have different versions: {', '.join(versions)}", next=hint)
    build = next(rank["tensorflow"] for rank in evidence.ranks if "tensorflow" in rank)
    target = "for CUDA" if build["cuda"] else "for ROCm" if build["rocm"] else "for CPUs"
    number = tuple(map(int, re.findall(r"\d+", versions[0])[:2]))
    fits = _OLDEST_TENSORFLOW <= number <= _NEWEST_TENSORFLOW
    what = f"{versions[0]}, built {target}"
    if fits:
        return Check(name=name, verdict="PASS", what=what)
    return Check(name=name, verdict="FAIL", what=f"{what}; Horovod 0.28 works with 2.9 to 2.15", next=hint)


def _horovod_check(evidence: ProbeEvidence) -> Check:
    builds = [rank["horovod"] for rank in evidence.ranks if "horovod" in rank]
    if not builds:
        problem = _problem(evidence, "horovod") or "no rank has loaded it"
        hint = "correct TensorFlow first (above)"
        if any("tensorflow" in rank for rank in evidence.ranks):
            hint = "build it with this TensorFlow: HOROVOD_WITH_TENSORFLOW=1, and HOROVOD_WITH_MPI=1 for srun"
        return Check(name="Horovod", verdict="FAIL", what=problem, next=hint)
    build, layout = builds[0], evidence.spec["layout"]
    parts = [word for word, key in (("MPI", "mpi"), ("Gloo", "gloo"), ("NCCL", "nccl")) if build[key]]
    what = f"{build['version']}, built with {', '.join(parts) or 'no way to communicate'}"
    if _launcher(evidence).needs_mpi and not build["mpi"]:
        hint = "build it with HOROVOD_WITH_MPI=1, or use --launcher horovodrun on one node"
        return Check(name="Horovod", verdict="FAIL", what=f"{what}: {evidence.spec['launcher']} needs MPI", next=hint)
    has_real_gpus = layout["gpus_per_node"] and not layout["stand_in_gpus"]
    if has_real_gpus and not build["nccl"]:
        hint = "build it with HOROVOD_GPU_OPERATIONS=NCCL"
        return Check(name="Horovod", verdict="WARN", what=f"{what}: gradients go through the host's memory", next=hint)
    return Check(name="Horovod", verdict="PASS", what=what)
