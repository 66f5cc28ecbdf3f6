"""The speed of the devices that a probe job's ranks measured, and the check that all are alike, undisturbed. Pure."""

from __future__ import annotations

from typing import Any

from hpclaunch.actions.clusters.diagnosis.evidence import Check, ProbeEvidence
from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record

DEVICE = "device"
ALIKE = 0.75
"""The slowest rank has at least so much of the fastest one's speed, and a median repeat of its fastest (hpclaunch's
own): less is a sick node, or other work on it."""
KINDS = {"float32": "float32", "tf32": "TF32", "mixed": "16 bits"}
"""The arithmetic of a product in words."""


@record
class DeviceReport:
    """The speed of the slowest rank: TFLOP/s of a matrix product (0: not measured), GB/s that a copy reads and writes.

    ``doubts``: why the figures may be too low, in words; empty if all ranks were alike and none was disturbed.
    """

    library: str
    name: str
    on_gpus: bool
    float32: float
    tf32: float
    mixed: float
    copy_gbytes_per_s: float
    doubts: str = ""

    @property
    def words(self) -> str:
        """The figures in words."""
        products = [f"{getattr(self, kind):.3g} in {name}" for kind, name in KINDS.items() if getattr(self, kind)]
        return f"matrix product {', '.join(products)} TFLOP/s, copy {self.copy_gbytes_per_s:.3g} GB/s"


def device_report(evidence: ProbeEvidence) -> DeviceReport | None:
    """Return the speed of the slowest of all ranks; None if one of them measured none. Raises ValueError."""
    found = [facts for facts in evidence.values_of(DEVICE) if facts.get("speed")]
    if not found or len(found) < len(evidence.ranks):
        return None
    kinds = sorted(set.intersection(*(set(facts["speed"]) for facts in found)))
    if not {"float32", "copy"} <= {*kinds}:
        return None
    speeds = {kind: [_pair(facts["speed"][kind]) for facts in found] for kind in kinds}
    doubts = []
    for kind in kinds:
        fastest = [pair[0] for pair in speeds[kind]]
        name = KINDS.get(kind, "the copy")
        if min(fastest) < ALIKE * max(fastest):
            host = evidence.ranks[fastest.index(min(fastest))].get("host", "?")
            doubts.append(f"{host} reaches {min(fastest):.3g} in {name}, another rank {max(fastest):.3g}")
        elif any(median < ALIKE * best for best, median in speeds[kind]):
            doubts.append(f"the repeats of {name} differ, so other work disturbed them")
    least = {kind: min(pair[0] for pair in speeds[kind]) for kind in kinds}
    return DeviceReport(
        library=str(found[0]["library"]),
        name=str(found[0]["name"]),
        on_gpus=bool(found[0]["on_gpu"]),
        float32=least["float32"],
        tf32=least.get("tf32", 0.0),
        mixed=least.get("mixed", 0.0),
        copy_gbytes_per_s=least["copy"],
        doubts="; ".join(doubts),
    )


def _pair(values: Any) -> tuple[float, float]:
    best, median = (finite(value) for value in values)
    if best is None or median is None or not 0 < median <= best < 1e6:
        raise ValueError(f"{values!r} are no speeds")
    return best, median


def device_check(evidence: ProbeEvidence) -> Check | None:
    """Return the check of the devices; None if nothing was measured."""
    problem = next((facts["problem"] for facts in evidence.values_of(DEVICE) if facts.get("problem")), "")
    if problem:
        return Check(name=DEVICE, verdict="WARN", what=problem, next="its speed is not measured; jobs can run")
    found = device_report(evidence)
    if found is None:
        return None
    if found.doubts:
        hint = "plan does not use it; measure again on other nodes, or on nodes that no other job uses"
        return Check(name=DEVICE, verdict="WARN", what=f"{found.words}: {found.doubts}", next=hint)
    return Check(name=DEVICE, verdict="PASS", what=found.words)
