"""The reasons why a probe job was not submitted -> the failed checks of ``doctor``, by subject. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.clusters.diagnosis.evidence import GPUS, Check, hint_of
from hpclaunch.core.errors import Fault
from hpclaunch.core.scheduler_rows import SchedulerRow


def refusals(
    faults: Sequence[Fault], directives: Sequence[tuple[str, str]], offered: Sequence[str], scheduler: SchedulerRow
) -> list[Check]:
    """Return a failed check for every fault.

    ``offered``: the GPU types that the scheduler has; an empty text for GPUs without a type. Errors of the scheduler's
    programs contain no advice, so it is added here.
    """
    wrong = [gpu_type for gpu_type in _asked_gpu_types(directives) if gpu_type not in offered]
    checks = []
    for fault in faults:
        name, advice = fault.subject or "request", fault.next
        what = f"{fault.where}: {fault.what}" if fault.where else fault.what
        what += f"; allowed: {fault.allowed}" if fault.allowed else ""
        if fault.where == scheduler.start_command and wrong and name in ("request", GPUS):
            name, advice = GPUS, hint_of(GPUS, scheduler)
            has = ", ".join(filter(None, offered)) or "GPUs without a type"
            what += f" (the script asks for GPUs of type {wrong[0]}, but {scheduler.title} has {has})"
        elif fault.where == scheduler.start_command:
            advice = hint_of(name, scheduler) or advice
        checks.append(Check(name=name, verdict="FAIL", what=what, next=advice))
    return checks


def _asked_gpu_types(directives: Sequence[tuple[str, str]]) -> list[str]:
    """Return the GPU types in the directives, such as ``a100`` in ``gpus-per-node=a100:4`` or ``gres=gpu:a100:4``."""
    values = [value for name, value in directives if name.startswith("gpus") or name == "gres"]
    return [gpu_type for value in values if (gpu_type := ":".join(value.removeprefix("gpu:").split(":")[:-1]))]
