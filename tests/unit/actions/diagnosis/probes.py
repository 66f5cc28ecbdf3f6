"""What a probe job of four ranks on two nodes leaves where all is well, and changes of it."""

from __future__ import annotations

from typing import Any

from hpclaunch.actions.clusters.diagnosis import diagnose
from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence
from tests.builders import a_job, planned


def a_spec(**changes: Any) -> dict[str, Any]:
    spec = planned(job=a_job(name="doctor"), nodes=2, tasks_per_node=2).to_json()
    return {**spec, "layout": {**spec["layout"], **changes}}


SPEC = a_spec()
PROMISED = dict(SPEC["environment"])
LOG = "".join(f"doctor: rank {rank} on n{rank // 2}\n" for rank in range(4))


def a_rank(number: int, **changes: Any) -> dict[str, Any]:
    """What rank ``number`` of four on two nodes tells where all is well."""
    facts = {
        "rank": number,
        "local_rank": number % 2,
        "host": f"n{number // 2}",
        "python": "/opt/python",
        "python_version": "3.11.2",
        "cpus": list(range(16 * (number % 2), 16 * (number % 2) + 16)),
        "node_cpus": 32,
        "gpu_devices": [],
        "assigned": {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_PER_TASK": str(SPEC["layout"]["cpus_per_task"])},
        "variables": PROMISED,
        "strays": [],
        "step": "done",
        "tensorflow": {"version": "2.15.1", "cuda": True, "rocm": False, "gpus": 2},
        "horovod": {"version": "0.28.1", "mpi": True, "gloo": True, "nccl": True},
        "world": {"size": 4, "rank": number, "local_rank": number % 2, "local_size": 2, "sum": 4.0, "libraries": []},
    }
    return {**facts, **changes}


def evidence(**changes: Any) -> ProbeEvidence:
    """Four ranks; a change of theirs is a function of the rank's number."""
    ranks = changes.pop("ranks", [a_rank(number) for number in range(4)])
    state = changes.pop("state", "COMPLETED")
    return ProbeEvidence(**{"spec": SPEC, "state": state, "log": LOG, "ranks": ranks, "mark": "MARK", **changes})


def failed(found: ProbeEvidence) -> list[Check]:
    return [check for check in diagnose(found) if check.verdict == "FAIL"]


def with_ranks(**changes: Any) -> list[dict[str, Any]]:
    return [a_rank(number, **changes) for number in range(4)]
