"""The part of the live screen about the selected run: its epochs, its loss, its use of CPUs and GPUs; pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.actions.following.states import explanation
from hpclaunch.cli.show.bars import bar, curve, levels
from hpclaunch.cli.show.console import show_bytes
from hpclaunch.cli.show.run_columns import ListedRun, Piece, duration, epoch_of, one_line, place_words
from hpclaunch.cli.show.watch_scene import Scene
from hpclaunch.core.units import count
from hpclaunch.runs.latest_samples import GpuUse, RunUse

Line = tuple[Piece, ...]
_LABEL = 9
_WIDEST_BAR = 30
_NO_USE = "not measured"


def details(one: ListedRun, scene: Scene, width: int) -> list[Line]:
    """Return the lines about a run, the most important first; each at most ``width`` characters, after cutting."""
    title = f" {one.run.label}: {one.run.state} " + (f"(exit code {one.run.exit_code}) " if _has_failed(one) else "")
    rule = "-" if scene.ascii else "─"
    lines: list[Line] = [((f"{rule * 2}{title}{rule * width}", "source"),)]
    lines += _reasons(one)
    if one.run.state != "PENDING" and not one.run.tasks:
        lines += [_epochs(one, width, scene.ascii), _loss(one, width, scene.ascii)]
    if scene.use is not None and not one.run.final:
        lines += [_cpus(scene.use, scene.now, width, scene.ascii), _gpus(scene.use, width, scene.ascii)]
    return lines


def _has_failed(one: ListedRun) -> bool:
    return one.run.final and one.run.state != "COMPLETED" and bool(one.run.exit_code)


def _label_line(label: str, text: str) -> Line:
    return ((label.ljust(_LABEL), "label"), (text, ""))


def _reasons(one: ListedRun) -> list[Line]:
    """Return the place of a waiting run in the queue, and why it waits or ended, or the states of an array's runs."""
    lines = [] if one.place is None else [_label_line("queue", place_words(one.place, long=True))]
    if one.run.reason:
        words = explanation(one.run)
        lines.append(_label_line("reason", one_line(f"{one.run.reason}: {words}" if words else one.run.reason)))
    return lines


def _epochs(one: ListedRun, width: int, ascii: bool) -> Line:
    progress = one.progress
    if progress.epoch is None:
        text = "the program writes no epochs to metrics.jsonl"
    elif progress.epochs:
        long = min(_WIDEST_BAR, max(width - 60, 5))
        text = f"{epoch_of(progress)}  {bar(progress.epoch / progress.epochs, long, ascii)}"
    else:
        text = epoch_of(progress)
    if progress.left_s is not None and not one.run.final:
        text += f"  {duration(progress.left_s)} left"
    if progress.walltime_left_s is not None:
        text += f"  walltime {duration(progress.walltime_left_s)} left"
    return _label_line("epoch", text)


def _loss(one: ListedRun, width: int, ascii: bool) -> Line:
    losses: Sequence[float] = one.progress.training.losses if one.progress.training else ()
    if not losses:
        return _label_line("loss", "-")
    words = f"  {losses[0]:.4g} to {losses[-1]:.4g}" if len(losses) > 1 else f"  {losses[-1]:.4g}"
    return _label_line("loss", curve(losses, max(width - _LABEL - len(words), 1), ascii) + words)


def _cpus(use: RunUse, now: float, width: int, ascii: bool) -> Line:
    """Return the use of its cores by every rank, as one character a rank, and the lowest and the highest."""
    words = _range_of([rank.cpu for rank in use.ranks])
    words += f"; {show_bytes(use.memory)} of memory" if use.memory is not None else ""
    words += f"; {count(use.nodes, 'node')}, {duration(max(now - use.t, 0.0))} ago"
    shown = [rank.cpu for rank in use.ranks][: max(width - _LABEL - len(words) - 2, 0)]
    return _label_line("CPU/rank", f"{levels(shown, ascii)}  {words}")


def _gpus(use: RunUse, width: int, ascii: bool) -> Line:
    if not use.gpus:
        return _label_line("GPU", _NO_USE)
    words = _range_of([gpu.use for gpu in use.gpus]) + _fullest(use.gpus)
    shown = [gpu.use for gpu in use.gpus][: max(width - _LABEL - len(words) - 2, 0)]
    return _label_line("GPU", f"{levels(shown, ascii)}  {words}")


def _fullest(gpus: Sequence[GpuUse]) -> str:
    """Return the memory of the GPU that has most in use."""
    known = [(gpu.memory, gpu.total) for gpu in gpus if gpu.memory is not None]
    if not known:
        return ""
    memory, total = max(known, key=lambda pair: pair[0])
    return f"; memory at most {show_bytes(memory)}" + (f" of {show_bytes(total)}" if total else "")


def _range_of(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    if not known:
        return _NO_USE
    low, high = f"{min(known):.0%}", f"{max(known):.0%}"
    return low if low == high else f"{low} to {high}"
