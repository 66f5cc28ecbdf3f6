"""What a probe job's ranks told -> PASS, WARN or FAIL for each promise of the script, with the next step. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.units import count
from hpclaunch.launchers import LauncherRow, launcher_row

Verdict = Literal["PASS", "WARN", "FAIL"]
Facts = Mapping[str, Any]
"""What one rank wrote (training/doctor/rank_probe.py), or the script's spec as plain values."""

_OLDEST, _NEWEST = (2, 9), (2, 15)
"""TensorFlow versions that Horovod 0.28.1 works with (decision of training/rank/placement.py)."""
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


@record
class Check:
    """One thing that was looked at: what was found, and what to do where it is not as promised."""

    name: str
    verdict: Verdict
    what: str
    next: str = ""


@record
class ProbeEvidence:
    """What is known of the probe job when it has ended. ``spec`` as in spec.json; ``ranks`` by rank.

    ``log``: its text, or None where there is no file; ``mark``: a variable of the submitting shell that no rank should
    see. ``mpi_types``: what ``srun --mpi=list`` shows here.
    """

    spec: Facts
    state: str
    exit_code: str = ""
    reason: str = ""
    log: str | None = None
    ranks: Sequence[Facts] = ()
    mark: str = ""
    mpi_types: Sequence[str] = ()


HINTS = {
    "GPUs": "'gpus' and gpu_type in the site file; sinfo --format='%P %G' shows what Slurm hands out",
    "shared paths": "--runs-dir FOLDER on a file system that all nodes share",
}
"""What helps against what is wrong with a subject."""


def diagnose(evidence: ProbeEvidence) -> list[Check]:
    """Return every check, in the order in which a run would fail."""
    if _has_not_begun(evidence):
        return [_end(evidence)]
    checks = [_paths(evidence)]
    if not evidence.ranks:
        return [*checks, _step(evidence) or _end(evidence)] if checks[0].verdict == "PASS" else checks
    checks += [_ranks(evidence), _mpi(evidence), _gpus(evidence), *_cpus(evidence), *_environment(evidence)]
    checks += [_tensorflow(evidence), _horovod(evidence)]
    known = any(check.verdict == "FAIL" for check in checks)
    return checks if evidence.state == "COMPLETED" or known else [*checks, _end(evidence)]


def _end(evidence: ProbeEvidence) -> Check:
    """How the job ended, where that is not what it should be."""
    code = f", exit code {evidence.exit_code}" if evidence.exit_code not in ("", "0:0") else ""
    reason = f" ({evidence.reason})" if evidence.reason else ""
    said = _complaint(evidence.log or "")
    what = f"the job ended as {evidence.state}{code}{reason}" + (f": {said}" if said else "")
    if evidence.state == "UNKNOWN":
        what = f"nobody knows what became of the job{reason}" + (f": {said}" if said else "")
    run = evidence.spec["run_dir"].rpartition("/")[2]
    hint = f"its whole log: hpclaunch logs {run}" if evidence.log is not None else "hpclaunch doctor tries it again"
    return Check(name="job", verdict="FAIL", what=what, next=hint)


def _step(evidence: ProbeEvidence) -> Check | None:
    """Return why srun started no rank, where it is the type of MPI that it lacks; None for anything else."""
    lines = [" ".join(line.split()) for line in (evidence.log or "").splitlines()]
    said = next((line for line in lines if re.search(r"error: .*(mpi/\w|MPI (plugin|type))", line, re.IGNORECASE)), "")
    if not said:
        return None
    what = f"srun knows no --mpi={_mpi_type(evidence)}: {said[:200]}"
    return Check(name="MPI", verdict="FAIL", what=what, next=_mpi_hint(evidence))


def _has_no_log(evidence: ProbeEvidence) -> bool:
    """Whether Slurm could not open the job's log."""
    return "log could not be opened" in evidence.reason or evidence.exit_code == "0:53"


def _has_not_begun(evidence: ProbeEvidence) -> bool:
    """Whether the job was cancelled in the queue, say: it told nothing, and its state does not say that it ran."""
    silent = evidence.log is None and not evidence.ranks and not _has_no_log(evidence)
    return silent and evidence.state not in ("COMPLETED", "FAILED", "TIMEOUT")


def _complaint(log: str) -> str:
    """Return the line of the log that tells most: the script's own, else srun's or Slurm's, else the last one."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    for form in (r"hpclaunch: .*", r"(srun|slurmstepd|sbatch): (fatal|error): .*", r".*(rror|annot|ailed).*"):
        found = [line for line in lines if re.fullmatch(form, line)]
        if found:
            return found[0][:300]
    return lines[-1][:300] if lines else ""


def _paths(evidence: ProbeEvidence) -> Check:
    run = evidence.spec["run_dir"]
    shared = f"{HINTS['shared paths']}; folders.runs in the site file keeps it"
    if _has_no_log(evidence):
        what = f"the log folder {run}/logs is not there on the nodes: nothing of the job could run"
        return Check(name="shared paths", verdict="FAIL", what=what, next=shared)
    if evidence.log is None and not evidence.ranks:
        what = f"the job ended as {evidence.state}, and neither its log nor its files are in {run}"
        return Check(name="shared paths", verdict="FAIL", what=what, next=shared)
    told = set(re.findall(r"\bdoctor: rank (\d+) on ", evidence.log or ""))
    lost = sorted(int(rank) for rank in told - {str(one.get("rank") or 0) for one in evidence.ranks})
    if lost:
        what = f"{count(len(lost), 'rank')} ran and what they wrote to {run} is not here (rank {lost[0]} first)"
        return Check(name="shared paths", verdict="FAIL", what=what, next=shared)
    if not evidence.ranks:
        return Check(name="shared paths", verdict="PASS", what=f"the job's log came back to {run}/logs")
    hosts = count(len({one["host"] for one in evidence.ranks}), "node")
    what = f"code, log and results of {hosts} are the same files here: {run}"
    silent = [one["rank"] for one in evidence.ranks if str(one.get("rank") or 0) not in told]
    if silent:
        what = f"the log lacks what {count(len(silent), 'rank')} printed"
        return Check(name="shared paths", verdict="WARN", what=what, next="look at logs/ in the run directory")
    return Check(name="shared paths", verdict="PASS", what=what)


def _ranks(evidence: ProbeEvidence) -> Check:
    layout = evidence.spec["layout"]
    nodes, tasks = layout["nodes"], layout["tasks_per_node"]
    hosts = Counter(one["host"] for one in evidence.ranks)
    shape = f"{count(nodes, 'node')} x {count(tasks, 'task')}"
    seen = ", ".join(f"{host} {number}" for host, number in sorted(hosts.items())[:4])
    if len(hosts) == nodes and set(hosts.values()) == {tasks}:
        return Check(name="ranks", verdict="PASS", what=f"{nodes * tasks} on {shape}, as asked: {seen}")
    what = f"{sum(hosts.values())} of {nodes * tasks} ranks were seen ({seen}), and {shape} were asked for"
    hint = "the launcher started another number of tasks: 'launchers' and 'task_directives' in the site file"
    return Check(name="ranks", verdict="FAIL", what=what, next=hint)


def _launcher(evidence: ProbeEvidence) -> LauncherRow:
    return launcher_row(evidence.spec["launcher"])


def _mpi_type(evidence: ProbeEvidence) -> str:
    told = [word.removeprefix("--mpi=") for word in evidence.spec["launch"] if word.startswith("--mpi=")]
    seen = [one.get("told", {}).get("SLURM_MPI_TYPE", "") for one in evidence.ranks]
    return told[0] if told else next(filter(None, seen), "")


def _mpi_hint(evidence: ProbeEvidence) -> str:
    if not _launcher(evidence).is_step:
        return "the site file's launchers; hpclaunch submit --launcher tries another"
    types = ", ".join(name for name in evidence.mpi_types if name not in (_mpi_type(evidence), "none"))
    others = f"srun has {types}" if types else "srun --mpi=list shows the types"
    return f"mpi under launchers.options.srun in the site file: {others} (Open MPI speaks pmix)"


def _mpi(evidence: ProbeEvidence) -> Check:
    launcher, mpi_type = evidence.spec["launcher"], _mpi_type(evidence)
    way = f"{launcher} --mpi={mpi_type}" if mpi_type and _launcher(evidence).is_step else launcher
    size = evidence.spec["layout"]["nodes"] * evidence.spec["layout"]["tasks_per_node"]
    worlds = [one["world"] for one in evidence.ranks if "world" in one]
    hint = _mpi_hint(evidence)
    if not worlds:
        what, before = _describe_split_world(evidence, way), [one for one in evidence.ranks if one["step"] == "world"]
        hint = hint if before else "mend TensorFlow and Horovod first, below"
        return Check(name="MPI", verdict="FAIL", what=what, next=hint)
    problem = _world_problem(worlds, size, way)
    if problem:
        return Check(name="MPI", verdict="FAIL", what=problem, next=hint)
    files = [path.rpartition("/")[2] for path in worlds[0]["libraries"] if "/libmpi" in path]
    library = f" ({files[0]})" if files else ""
    return Check(name="MPI", verdict="PASS", what=f"{count(size, 'rank')} in one world under {way}{library}")


def _world_problem(worlds: Sequence[Facts], size: int, way: str) -> str:
    """Return what is wrong with the worlds that the ranks joined; nothing where one holds them all and sums right."""
    sizes = sorted({world["size"] for world in worlds})
    if sizes != [size]:
        alone = "every rank is a world of its own" if sizes == [1] else f"worlds of {', '.join(map(str, sizes))} ranks"
        return f"under {way} {alone}; {size} were asked for"
    if len(worlds) < size or {world["rank"] for world in worlds} != set(range(size)):
        return f"only {len(worlds)} of {size} ranks joined under {way}"
    if {world["sum"] for world in worlds} != {float(size)}:
        return f"a sum over {count(size, 'rank')} came out wrong"
    return ""


def _describe_split_world(evidence: ProbeEvidence, way: str) -> str:
    steps = Counter(one["step"] for one in evidence.ranks)
    problem = next((one["problem"] for one in evidence.ranks if one.get("problem") and one["step"] == "world"), "")
    if steps["world"]:
        said = problem or _mpi_complaint(evidence.log or "")
        return f"no rank came through Horovod's start under {way}" + (f": {said[:200]}" if said else "")
    return f"whether {way} joins the ranks could not be seen: none came so far"


def _mpi_complaint(log: str) -> str:
    """Return the first line in which MPI or PMI itself complains, else the log's most telling one."""
    lines = [" ".join(line.split()) for line in log.splitlines()]
    own = (line for line in lines if re.search(r"OPAL ERROR|MPI_Init|PMIX? ERROR|PMI2?_Init|mpi/pmi", line))
    return next(own, "") or _complaint(log)


def _visible_gpus(one: Facts) -> list[str] | None:
    """Return the GPUs that Slurm gave a rank by its variables; None where no variable says any."""
    told = one.get("told", {})
    said = next((told[name] for name in _VARIABLES if name in told), None)
    return None if said is None else [word for word in said.split(",") if word not in ("", "NoDevFiles", "-1")]


def _gpus(evidence: ProbeEvidence) -> Check:
    layout = evidence.spec["layout"]
    asked, stand_in = layout["gpus_per_node"], layout["stand_in_gpus"]
    if not asked:
        return Check(name="GPUs", verdict="PASS", what="none asked for")
    blind = [one for one in evidence.ranks if not _has_gpu(one, stand_in)]
    if blind:
        return _report_blind_ranks(blind, len(evidence.ranks), asked)
    for host in sorted({one["host"] for one in evidence.ranks}):
        found = _check_host_gpus(host, [one for one in evidence.ranks if one["host"] == host], layout)
        if found:
            return found
    each = len(_visible_gpus(evidence.ranks[0]) or []) or evidence.ranks[0].get("tensorflow", {}).get("gpus", 0)
    kind = "stand-ins, which compute nothing" if stand_in else "as TensorFlow sees them"
    return Check(name="GPUs", verdict="PASS", what=f"every rank sees {each}, {asked} a node were asked for ({kind})")


def _report_blind_ranks(blind: Sequence[Facts], ranks: int, asked: int) -> Check:
    """Report the ranks without a GPU; one that Slurm gave and a TensorFlow for CPUs cannot see has its own hint."""
    first, given = blind[0], _visible_gpus(blind[0])
    seen = "TensorFlow sees none" if given else "Slurm gave none"
    one = f"rank {first['rank']} on {first['host']}: {seen}"
    what = f"{len(blind)} of {ranks} ranks without a GPU ({one}); {asked} a node were asked for"
    build = next((one["tensorflow"] for one in blind if "tensorflow" in one), None)
    for_cpus = given and build is not None and not (build["cuda"] or build["rocm"])
    hint = "this TensorFlow is built for CPUs: another module, venv or container under 'environment:'"
    return Check(name="GPUs", verdict="FAIL", what=what, next=hint if for_cpus else HINTS["GPUs"])


def _check_host_gpus(host: str, ranks: Sequence[Facts], layout: Facts) -> Check | None:
    """Return what is wrong with the GPUs that the ranks of one host see together; None where nothing is."""
    asked, tasks, seen = layout["gpus_per_node"], layout["tasks_per_node"], _count_gpus_on_host(ranks)
    if not seen or seen >= max(tasks, asked):
        return None
    if seen < tasks:
        what = f"{tasks} ranks on {host} see {count(seen, 'GPU')}: they would share"
        return Check(name="GPUs", verdict="FAIL", what=what, next=HINTS["GPUs"])
    what = f"{host} shows {count(seen, 'GPU')}, and {asked} a node were asked for"
    return Check(name="GPUs", verdict="WARN", what=what, next=HINTS["GPUs"])


def _count_gpus_on_host(ranks: Sequence[Facts]) -> int:
    """Return how many GPUs the ranks of a node see; 0 where that does not show: each sees one, or no variable says."""
    several = [_visible_gpus(one) or [] for one in ranks]
    if len(ranks) > 1 and all(len(devices) == 1 for devices in several):
        return 0  # its own, which the launcher may call number 0 for all of them
    return len({device for devices in several for device in devices})


def _has_gpu(one: Facts, stand_in: bool) -> bool:
    """Whether a rank has a GPU: TensorFlow's word counts where it has any, Slurm's where nothing can compute."""
    sees = one.get("tensorflow", {}).get("gpus")
    return bool(_visible_gpus(one)) if stand_in or sees is None else sees > 0


def _cpus(evidence: ProbeEvidence) -> list[Check]:
    layout = evidence.spec["layout"]
    asked, tasks = layout["cpus_per_task"], layout["tasks_per_node"]
    said = {one["told"]["SLURM_CPUS_PER_TASK"] for one in evidence.ranks if "SLURM_CPUS_PER_TASK" in one["told"]}
    checks = []
    if _launcher(evidence).ranks_are_tasks:
        right = said == {str(asked)}
        what = (
            f"{asked} for every task, as asked" if right else f"{', '.join(sorted(said)) or 'none'}; {asked} asked for"
        )
        hint = "" if right else "a TaskProlog or a variable of the site changes it: --cpus-per-task N"
        checks.append(Check(name="CPUs per task", verdict="PASS" if right else "FAIL", what=what, next=hint))
    return [*checks, _cpu_binding(evidence, asked, tasks)]


def _cpu_binding(evidence: ProbeEvidence, asked: int, tasks: int) -> Check:
    bind = "cpu_bind: cores under launchers.options.srun in the site file"
    here = [one for one in evidence.ranks if one["host"] == evidence.ranks[0]["host"]]
    sets = [frozenset(one["cpus"]) for one in here]
    whole, narrowest = here[0]["node_cpus"], min(map(len, sets))
    apart = sum(map(len, sets)) == len(frozenset().union(*sets))
    if narrowest < asked and narrowest < (whole or 0):
        what = f"a rank on {here[0]['host']} may use {narrowest} of its {asked} CPUs"
        return Check(name="CPU binding", verdict="FAIL", what=what, next=bind)
    if whole and tasks * asked > whole:
        what = f"{here[0]['host']} has {whole} CPUs, and {tasks} tasks x {asked} were given out"
        hint = "its Slurm counts more CPUs than there are; ranks wait for each other"
        return Check(name="CPU binding", verdict="WARN", what=what, next=hint)
    if len(sets) > 1 and not apart and scheduler_row(evidence.spec["scheduler"]).binds_cpus:
        what = f"not bound: {len(sets)} ranks on {here[0]['host']} share {len(frozenset().union(*sets))} CPUs"
        return Check(name="CPU binding", verdict="WARN", what=what, next=bind)
    own = "to itself" if apart else f"and shares them; each has {count(asked, 'thread')}"
    return Check(name="CPU binding", verdict="PASS", what=f"every rank has {count(narrowest, 'CPU')} {own}")


def _environment(evidence: ProbeEvidence) -> list[Check]:
    promised = dict(map(tuple, evidence.spec["environment"]))
    pythons = sorted({f"{one['python']} ({one['python_version']})" for one in evidence.ranks})
    if len(pythons) > 1:
        what = f"ranks run different Pythons: {', '.join(pythons)}"
        return [Check(name="environment", verdict="FAIL", what=what, next="'environment:' names one for all nodes")]
    for one in evidence.ranks:
        wrong = [name for name, value in one["variables"].items() if name in promised and value != promised[name]]
        if wrong:
            value = one["variables"][wrong[0]]
            what = f"rank {one['rank']} has {wrong[0]}={value!r}, and the script sets {promised[wrong[0]]!r}"
            hint = "a profile, a TaskProlog or the container changes it"
            return [Check(name="environment", verdict="FAIL", what=what, next=hint)]
    strays = sorted({name for one in evidence.ranks for name in one["strays"]})
    kept_out = ["export", "NONE"] in list(map(list, evidence.spec["directives"]))
    leaked = kept_out and evidence.mark in strays
    others = [name for name in strays if name != evidence.mark and name not in promised]
    if leaked:
        what, hint = (
            "the submitting shell's variables reach the ranks in spite of --export=NONE",
            "ask the site's staff",
        )
        return [Check(name="environment", verdict="WARN", what=what, next=hint)]
    if others:
        what = f"{', '.join(others)} is set for the ranks, and neither site nor job says so"
        return [Check(name="environment", verdict="WARN", what=what, next="a login profile or a module sets it")]
    return [
        Check(name="environment", verdict="PASS", what=f"{pythons[0]}; {len(promised)} variables as the script sets")
    ]


def _problem(evidence: ProbeEvidence, step: str) -> str:
    return next((one["problem"] for one in evidence.ranks if one.get("problem") and one["step"] == step), "")


def _tensorflow(evidence: ProbeEvidence) -> Check:
    name, versions = (
        "TensorFlow",
        sorted({one["tensorflow"]["version"] for one in evidence.ranks if "tensorflow" in one}),
    )
    hint = "'environment:' in the settings, the job or the site file brings TensorFlow 2.9 to 2.15"
    if not versions:
        said = _problem(evidence, "tensorflow") or "no rank has loaded it"
        return Check(name=name, verdict="FAIL", what=f"{evidence.ranks[0]['python']}: {said}", next=hint)
    if len(versions) > 1:
        return Check(name=name, verdict="FAIL", what=f"ranks have different ones: {', '.join(versions)}", next=hint)
    one = next(one["tensorflow"] for one in evidence.ranks if "tensorflow" in one)
    build = "for CUDA" if one["cuda"] else "for ROCm" if one["rocm"] else "for CPUs"
    number = tuple(map(int, re.findall(r"\d+", versions[0])[:2]))
    fits = _OLDEST <= number <= _NEWEST
    what = f"{versions[0]}, built {build}" + ("" if fits else "; Horovod 0.28 works with 2.9 to 2.15")
    return Check(name=name, verdict="PASS" if fits else "FAIL", what=what, next="" if fits else hint)


def _horovod(evidence: ProbeEvidence) -> Check:
    built = [one["horovod"] for one in evidence.ranks if "horovod" in one]
    if not built:
        said = _problem(evidence, "horovod") or "no rank has loaded it"
        hint = (
            "build it where this TensorFlow can be imported: HOROVOD_WITH_TENSORFLOW=1, and HOROVOD_WITH_MPI=1 for srun"
        )
        hint = hint if any("tensorflow" in one for one in evidence.ranks) else "mend TensorFlow first, above"
        return Check(name="Horovod", verdict="FAIL", what=said, next=hint)
    one, layout = built[0], evidence.spec["layout"]
    parts = [word for word, key in (("MPI", "mpi"), ("Gloo", "gloo"), ("NCCL", "nccl")) if one[key]]
    what = f"{one['version']}, built with {', '.join(parts) or 'nothing to talk with'}"
    if _launcher(evidence).needs_mpi and not one["mpi"]:
        hint = "build it with HOROVOD_WITH_MPI=1, or --launcher horovodrun on one node"
        return Check(name="Horovod", verdict="FAIL", what=f"{what}: {evidence.spec['launcher']} needs MPI", next=hint)
    if layout["gpus_per_node"] and not layout["stand_in_gpus"] and not one["nccl"]:
        hint = "build it with HOROVOD_GPU_OPERATIONS=NCCL"
        return Check(name="Horovod", verdict="WARN", what=f"{what}: gradients go through the host's memory", next=hint)
    return Check(name="Horovod", verdict="PASS", what=what)
