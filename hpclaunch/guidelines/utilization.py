"""How well a run used what it asked for, and what to ask for next time; it knows no run and no site.

The thresholds are those of jobstats (Princeton, ``config.py``): below them it writes a note to the user.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime

GPU_LOW, CPU_LOW, MEMORY_LOW, TIME_LOW = 0.25, 0.80, 0.70, 0.70
"""GPU_UTIL_BLACK, CPU_UTIL_BLACK, MIN_MEMORY_USAGE and TIME_EFFICIENCY_BLACK of jobstats."""
GPU_WANTED = 0.70
"""The desired use of a GPU in the notes of jobstats; a suggestion asks for so many GPUs that they would have it."""
UNUSED = 0.01
"""Below this mean use a GPU counts as unused."""
IDLE = 0.20
"""Below this share of its cores a run counts as idle; hpclaunch's own number."""
MARGIN = 1.2
"""What a suggested amount has above the largest that was measured; jobstats adds the same 20 %."""
SHORTEST_S = 300
"""Of a shorter run memory and time say little: jobstats requires ten of its samples, 30 s apart."""
SOURCE = "jobstats (PrincetonUniversity/jobstats, config.py)"
_STEP_S = 300


@record
class Usage:
    """What a run asked for and what it used; None or empty: not known.

    ``cpus_per_core``: Slurm's CPUs per core. ``cores``: the mean of the cores in use, on all nodes. ``busiest_rank``:
    that of the rank that used most. ``memory``, ``memory_asked``: bytes per node, the peak of the fullest node.
    ``gpus``: the mean use of each GPU (0 to 1); empty if they were measured too briefly. ``gpu_samples``: those of all
    GPUs, in ``gpu_seconds`` of each. ``gpu_sms``: the mean share of the multiprocessors that were busy, of each GPU.
    ``gpu_memory``, ``gpu_memory_size``: bytes, the peak of the fullest GPU.
    ``seconds``: of the longest start. ``is_complete``: the run ended by itself, with all its work done.
    ``is_mixed``: it had nodes of several types, for which no other layout is suggested.
    """

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_core: int = 1
    gpus_per_node: int = 0
    seconds: float
    walltime: int = 0
    cores: float | None = None
    cores_asked: float = 0.0
    busiest_rank: float | None = None
    memory: int | None = None
    memory_asked: int | None = None
    gpus: tuple[float, ...] = ()
    gpu_sms: tuple[float, ...] = ()
    gpu_samples: int = 0
    gpu_seconds: float = 0.0
    gpu_memory: int | None = None
    gpu_memory_size: int | None = None
    is_complete: bool = False
    is_mixed: bool = False


@record
class Quantity:
    """One resource: what was used, and what was asked for (``unit``); None: not known.

    ``samples``, ``seconds``: what the use of GPUs was measured by, also where that is too short for a share.
    """

    name: str
    used: float | None
    asked: float | None
    unit: str
    samples: int = 0
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """What was used of what was asked for: 1 is all. None if either is not known."""
        return self.used / self.asked if self.used is not None and self.asked else None


@record
class Suggestion:
    """What to change next time: one sentence, the options that do it (none: it says what to look at), and its source.

    ``about``: the name of the quantity. ``kind``: ``used`` for words whose subject is the run (``used 30 % of its
    time``), ``remark`` for a sentence with its own subject.
    """

    about: str
    kind: Literal["used", "remark"] = "used"
    words: str
    options: tuple[str, ...] = ()
    source: str = SOURCE


def quantities(usage: Usage) -> tuple[Quantity, ...]:
    """Return every resource of the run; a GPU's only if it asked for GPUs."""
    found = [
        Quantity(name="CPU", used=usage.cores, asked=usage.cores_asked or None, unit="cores"),
        Quantity(name="memory", used=usage.memory, asked=usage.memory_asked, unit="bytes"),
    ]
    if usage.gpus_per_node:
        used = sum(usage.gpus) if usage.gpus else None
        asked = float(len(usage.gpus) or usage.nodes * usage.gpus_per_node)
        gpu = Quantity(name="GPU", used=used, asked=asked or None, unit="GPUs")
        found.append(replace(gpu, samples=usage.gpu_samples, seconds=usage.gpu_seconds))
        if usage.gpu_sms:
            sms = usage.gpu_sms
            found.append(Quantity(name="GPU SMs", used=sum(sms), asked=float(len(sms)), unit="GPUs"))
        memory, size = usage.gpu_memory, usage.gpu_memory_size
        found.append(Quantity(name="GPU memory", used=memory, asked=size, unit="bytes"))
    found.append(Quantity(name="time", used=usage.seconds, asked=usage.walltime or None, unit="s"))
    return tuple(found)


def suggestions(usage: Usage) -> tuple[Suggestion, ...]:
    """Return what to change, the most expensive resource first."""
    return (*_check_gpus(usage), *_check_cpus(usage), *_check_memory(usage), *_check_time(usage))


def percent(share: float) -> str:
    """Return a share as text: ``12 %``; what is little but not nothing is never 0."""
    return "<1 %" if 0 < share < 0.005 else f"{share:.0%}".replace("%", " %")


def _check_gpus(usage: Usage) -> Iterator[Suggestion]:
    """Too few computations for these GPUs: fewer GPUs, each with more CPUs for its input."""
    total = len(usage.gpus) if usage.gpus_per_node else 0  # those of others say nothing about this run
    share = sum(usage.gpus) / total if total else 1.0
    unused = sum(use < UNUSED for use in usage.gpus)
    if total and unused == total:
        words = "its GPUs computed nothing: check that the program finds them (hpclaunch doctor), or ask for none"
        yield Suggestion(about="GPU", kind="remark", words=words)
    elif total and (share < GPU_LOW or unused):
        used = f"used {percent(share)} of {count(total, 'GPU')}"
        if unused:
            used += f", {unused} of them not at all"
        options = _fewer_gpus(usage, min(total - unused, max(1, math.ceil(sum(usage.gpus) / GPU_WANTED))))
        advice = f"the same work fits {' '.join(options)}" if options else _FASTER
        yield Suggestion(about="GPU", words=f"{used}: {advice}", options=options)


_FASTER = "a larger batch per rank, or faster input, keeps a GPU busier (hpclaunch plan)"


def _fewer_gpus(usage: Usage, wanted: int) -> tuple[str, ...]:
    """Return the options for so many GPUs in all; none if that are no fewer. The CPUs of a node stay the same."""
    if usage.is_mixed or not usage.gpus_per_node or wanted >= len(usage.gpus):
        return ()
    nodes = math.ceil(wanted / usage.gpus_per_node)
    per_node = math.ceil(wanted / nodes)
    options = ["--nodes", str(nodes)] if nodes < usage.nodes else []
    if usage.tasks_per_node == usage.gpus_per_node and per_node < usage.gpus_per_node:
        cpus = usage.tasks_per_node * usage.cpus_per_task // per_node
        options += ["--tasks-per-node", str(per_node), "--cpus-per-task", str(cpus)]
    elif per_node < usage.gpus_per_node and usage.tasks_per_node <= per_node:
        options += ["--gpus-per-node", str(per_node)]
    return tuple(options)


def _check_cpus(usage: Usage) -> Iterator[Suggestion]:
    """Fewer CPUs per rank would do; of a run with GPUs nothing is said, as in jobstats: CPUs there feed the GPUs."""
    if usage.cores is None or not usage.cores_asked or usage.gpus_per_node:
        return
    share = usage.cores / usage.cores_asked
    if share >= CPU_LOW:
        return
    busiest = usage.cores / (usage.nodes * usage.tasks_per_node) if usage.busiest_rank is None else usage.busiest_rank
    wanted = max(1, math.ceil(busiest / CPU_LOW)) * usage.cpus_per_core
    used = f"used {percent(share)} of its CPUs"
    waited = " Its ranks waited most of the time: look at their logs (hpclaunch logs)." if share < IDLE else ""
    if wanted < usage.cpus_per_task and not usage.is_mixed:
        options = ("--cpus-per-task", str(wanted))
        reason = f"each rank computed on {count(math.ceil(round(busiest, 1)) or 1, 'core')} at most"
        words = f"{used}: --cpus-per-task {wanted} is enough, as {reason}.{waited}"
        yield Suggestion(about="CPU", words=words.rstrip("."), options=options)
    elif waited:
        yield Suggestion(about="CPU", words=f"{used}.{waited}".rstrip("."))


def _check_memory(usage: Usage) -> Iterator[Suggestion]:
    """Less memory would do: the peak, and 20 % more."""
    if usage.memory is None or not usage.memory_asked or usage.seconds < SHORTEST_S:
        return
    share, enough = usage.memory / usage.memory_asked, max(1, math.ceil(MARGIN * usage.memory / 2**30))
    if share < MEMORY_LOW and enough * 2**30 < usage.memory_asked:
        words = f"used {percent(share)} of its memory: --memory {enough}G is enough"
        yield Suggestion(about="memory", words=words, options=("--memory", f"{enough}G"))


def _check_time(usage: Usage) -> Iterator[Suggestion]:
    """A shorter walltime would do, and jobs with less walltime start earlier (backfill)."""
    if not usage.is_complete or not usage.walltime or usage.seconds < SHORTEST_S:
        return
    enough = math.ceil(MARGIN * usage.seconds / _STEP_S) * _STEP_S
    if usage.seconds / usage.walltime < TIME_LOW and enough < usage.walltime:
        share, clock = percent(usage.seconds / usage.walltime), format_walltime(enough)
        words = f"used {share} of its time: --walltime {clock} is enough, and a shorter job may start earlier"
        yield Suggestion(about="time", words=words, options=("--walltime", clock))
