"""The GPUs that a probe job's ranks reported -> PASS, WARN or FAIL, and a next step. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.evidence import GPUS, Check, Facts, ProbeEvidence, framework_build, hint_of
from hpclaunch.core.units import count

_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def gpu_check(evidence: ProbeEvidence) -> Check:
    """Return the check of the GPUs: each rank sees one, and each host shows as many as its job requested."""
    layout = evidence.spec["layout"]
    requested, stand_in = layout["gpus_per_node"], layout["stand_in_gpus"]
    if not requested:
        return _unrequested_check(evidence)
    blind = [rank for rank in evidence.ranks if not _has_gpu(rank, stand_in)]
    if blind:
        return _blind_rank_check(evidence, blind)
    for host in sorted({rank["host"] for rank in evidence.ranks}):
        problem = _host_gpu_check(evidence, host)
        if problem:
            return problem
    first = evidence.ranks[0]
    # Where no variable lists a rank's GPUs, the framework has counted them.
    each = len(_visible_gpus(first) or []) or framework_build(first).get("gpus", 0)
    note = "stand-ins, which compute nothing" if stand_in else f"as {evidence.framework_title} sees them"
    return Check(name=GPUS, verdict="PASS", what=f"every rank sees {each}; {requested} per node requested ({note})")


def _unrequested_check(evidence: ProbeEvidence) -> Check:
    """Return the check of a probe without GPUs; on a machine without a scheduler, its idle GPUs are named."""
    first = evidence.ranks[0] if evidence.ranks else {}
    idle = (first.get("topology") or {}).get("gpus") or []
    if evidence.scheduler.has_queue or not idle:
        return Check(name=GPUS, verdict="PASS", what="none requested")
    models = " and ".join(dict.fromkeys(str(gpu["model"]) for gpu in idle))
    what = f"none requested, but {first['host']} has {count(len(idle), 'GPU')} ({models})"
    site = evidence.spec["site"]
    hint = (
        f"hpclaunch sites show {site} says why; without --gpus-per-node 0, every GPU that a program can use gets a rank"
    )
    return Check(name=GPUS, verdict="WARN", what=what, next=hint)


def _blind_rank_check(evidence: ProbeEvidence, blind: Sequence[Facts]) -> Check:
    """Return the check of ranks that see no GPU: failed, unless the GPUs were only found here."""
    has_devices = bool(_visible_gpus(blind[0])) or not evidence.scheduler.assigns_gpus
    cause = f"{evidence.framework_title} sees none" if has_devices else f"{evidence.scheduler.title} gave none"
    first = f"rank {blind[0]['rank']} on {blind[0]['host']}: {cause}"
    requested = evidence.spec["layout"]["gpus_per_node"]
    what = f"{len(blind)} of {len(evidence.ranks)} ranks have no GPU ({first}); {requested} per node were requested"
    builds = [framework_build(rank) for rank in blind if framework_build(rank)]
    built_for_cpus = bool(builds) and not (builds[0]["cuda"] or builds[0]["rocm"])
    hint = hint_of(GPUS, evidence.scheduler)
    if has_devices and built_for_cpus:
        built = f"this {evidence.framework_title} is built for CPUs"
        hint = f"{built}: name another module, venv or container under 'environment:'"
    was_found = dict(evidence.spec["environment"]).get("HPCLAUNCH_EXPECT_GPU") == "found"  # runs go on, on CPUs
    return Check(name=GPUS, verdict="WARN" if was_found else "FAIL", what=what, next=hint)


def _host_gpu_check(evidence: ProbeEvidence, host: str) -> Check | None:
    """Return a check that did not pass if the ranks of a host together see too few GPUs, else None."""
    layout, hint = evidence.spec["layout"], hint_of(GPUS, evidence.scheduler)
    ranks = [rank for rank in evidence.ranks if rank["host"] == host]
    requested, tasks, seen = layout["gpus_per_node"], layout["tasks_per_node"], _count_gpus_on_host(ranks)
    is_unknown = seen == 0
    if is_unknown or seen >= max(tasks, requested):
        return None
    if seen < tasks:
        what = f"{tasks} ranks on {host} see {count(seen, 'GPU')}: they would share"
        return Check(name=GPUS, verdict="FAIL", what=what, next=hint)
    what = f"{host} shows {count(seen, 'GPU')}, but {requested} per node were requested"
    return Check(name=GPUS, verdict="WARN", what=what, next=hint)


def _count_gpus_on_host(ranks: Sequence[Facts]) -> int:
    """Return how many GPUs the ranks of a node see together; 0 if unknown: each sees one, or no variable is set."""
    several = [_visible_gpus(rank) or [] for rank in ranks]
    if len(ranks) > 1 and all(len(devices) == 1 for devices in several):
        return 0  # each has its own GPU, which the launcher may number 0 for every rank
    return len({device for devices in several for device in devices})


def _has_gpu(rank: Facts, stand_in: bool) -> bool:
    """Whether a rank has a GPU: a framework that was loaded decides; for stand-ins the scheduler's variables do."""
    seen = framework_build(rank).get("gpus")
    if stand_in or seen is None:
        return bool(_visible_gpus(rank))
    return bool(seen > 0)


def _visible_gpus(rank: Facts) -> list[str] | None:
    """Return the GPUs that the scheduler's variables give a rank; None if no variable is set."""
    variables = rank.get("assigned", {})
    devices = next((variables[name] for name in _GPU_VARIABLES if name in variables), None)
    if devices is None:
        return None
    return [word for word in devices.split(",") if word not in ("", "NoDevFiles", "-1")]
