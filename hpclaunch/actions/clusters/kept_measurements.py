"""Keeps the all-reduces and the device's speed that a probe of ``doctor`` measured, for plans; or says why not."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.all_reduce import AllReduceReport
from hpclaunch.actions.clusters.diagnosis.device import DeviceReport
from hpclaunch.actions.clusters.diagnosis.evidence import ProbeEvidence
from hpclaunch.actions.clusters.diagnosis.gpus import gpu_check
from hpclaunch.actions.following.identity import other_users
from hpclaunch.actions.system import System
from hpclaunch.planner.measured.all_reduce_file import AllReduceTimes, SizeRow, all_reduce_place, keep_times
from hpclaunch.planner.measured.device_file import DeviceSpeed, device_place, keep_speed
from hpclaunch.runs import Run


def keep_measured(
    system: System,
    run: Run,
    evidence: ProbeEvidence,
    found: Sequence[AllReduceReport | None],
    device: DeviceReport | None,
) -> tuple[tuple[str, ...], str]:
    """Keep the all-reduces that were ``found``, of all ranks and in a node, and the speed of the device.

    Returns the files, and why something that was measured is not in one; empty if it all is. The figures of a device
    that differ between ranks, or between repeats, are not kept.
    """
    known = [one for one in found if one is not None]
    if not known and device is None:
        return (), ""
    names = (run.site, str(evidence.spec["node_type"]))
    why = _doubt_of(run, evidence, names)
    if why:
        return (), why
    all_reduces, speed = all_reduce_place(system.environment, *names), device_place(system.environment, *names)
    kept: list[str] = []
    try:
        for one in known:
            keep_times(all_reduces, _times_of(run, evidence, one))
        kept += [str(all_reduces)] if known else []
        if device is not None and not device.doubts:
            keep_speed(speed, _speed_of(run, evidence, device))
            kept.append(str(speed))
        why = device.doubts if device is not None else ""
    except OSError as error:
        why = f"{speed.parent} cannot be written ({error.strerror})"
    return tuple(kept), why


def _doubt_of(run: Run, evidence: ProbeEvidence, names: tuple[str, str]) -> str:
    """Return why what a probe measured on a site and node type says nothing of it; empty if it does.

    The record of somebody else may claim anything, and be in a cloned repository: nothing of it is kept. Nor is that of
    nodes that lack a GPU.
    """
    fault = other_users(run)
    if fault is not None:
        return fault.what
    if any(choice["key"] == "launcher" and choice["origin"] == "--launcher" for choice in evidence.spec["choices"]):
        return "--launcher was typed, and a plan is made for the site's own launcher"
    if any("/" in name or name in ("", ".", "..") for name in names):
        return f"{names[0]!r} and {names[1]!r} cannot be names of folders"
    lacks_gpus = gpu_check(evidence).verdict == "FAIL"
    return "the check of the GPUs failed, so a node may be sick" if lacks_gpus else ""


def _speed_of(run: Run, evidence: ProbeEvidence, found: DeviceReport) -> DeviceSpeed:
    return DeviceSpeed(
        ranks_per_node=int(evidence.spec["layout"]["tasks_per_node"]),
        on_gpus=found.on_gpus,
        float32=found.float32,
        tf32=found.tf32,
        mixed=found.mixed,
        copy_gbytes_per_s=found.copy_gbytes_per_s,
        run=run.path.name,
        when=str(evidence.spec["created"]),
    )


def _times_of(run: Run, evidence: ProbeEvidence, found: AllReduceReport) -> AllReduceTimes:
    return AllReduceTimes(
        library=found.library,
        through=found.through,
        on_gpus=found.on_gpus,
        nodes=found.group.nodes,
        ranks_per_node=found.group.per_node,
        rows=tuple(SizeRow(bytes=timed.size, seconds=timed.seconds) for timed in found.times),
        run=run.path.name,
        when=str(evidence.spec["created"]),
    )
