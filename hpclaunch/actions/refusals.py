"""Why a probe job could not be submitted -> the checks that ``doctor`` shows, each under what it is about. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.diagnosis import HINTS, Check
from hpclaunch.core.errors import Fault
from hpclaunch.core.scheduler_rows import SchedulerRow


def refusals(
    faults: Sequence[Fault], directives: Sequence[tuple[str, str]], offered: Sequence[str], scheduler: SchedulerRow
) -> list[Check]:
    """Return a failed check for every fault.

    ``offered`` are the types of GPUs that the scheduler hands out (empty texts: without a type). A fault of
    the scheduler's own program says nothing of what helps.
    """
    wrong = [gpu_type for gpu_type in _asked_gpu_types(directives) if gpu_type not in offered]
    found = []
    for fault in faults:
        name, advice = fault.subject or "request", fault.next
        what = f"{fault.where}: {fault.what}" if fault.where else fault.what
        what += f"; allowed: {fault.allowed}" if fault.allowed else ""
        if fault.where == scheduler.start_command and wrong and name in ("request", "GPUs"):
            name, advice = "GPUs", HINTS["GPUs"]
            has = ", ".join(filter(None, offered)) or "GPUs without a type"
            what += f" (the script asks for GPUs of type {wrong[0]}, and {scheduler.title} hands out {has})"
        elif fault.where == scheduler.start_command and name in HINTS:
            advice = HINTS[name]
        found.append(Check(name=name, verdict="FAIL", what=what, next=advice))
    return found


def _asked_gpu_types(directives: Sequence[tuple[str, str]]) -> list[str]:
    """Return the types of GPUs that directives name: ``a100`` of ``gpus-per-node=a100:4`` and ``gres=gpu:a100:4``."""
    values = [value for name, value in directives if name.startswith("gpus") or name == "gres"]
    return [gpu_type for value in values if (gpu_type := ":".join(value.removeprefix("gpu:").split(":")[:-1]))]
