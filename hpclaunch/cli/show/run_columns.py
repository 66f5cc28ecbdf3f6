"""The columns of a list of runs by their names, and how wide each may be; pure: values in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.actions.following.states import explanation
from hpclaunch.cli.show.bars import curve
from hpclaunch.core.errors import Fault, InvalidRequest, did_you_mean
from hpclaunch.core.quoting import shown_name
from hpclaunch.core.records import record
from hpclaunch.core.units import count, format_walltime
from hpclaunch.runs import Run, current_jobs
from hpclaunch.schedulers import QueuePlace

Piece = tuple[str, str]
"""A text, and the name of its style."""
BETWEEN = "  "
_CURVE = 16
_SHORTEST_RUN = 9
_SHORTEST_REASON = 12
_MOST_JOBS = 4
"""As many job IDs of an array are shown."""


@record
class ListedRun:
    """A run, how far it is, and its place in the queue if it waits. ``ascii``: draw curves in ASCII."""

    run: Run
    progress: RunProgress
    place: QueuePlace | None = None
    ascii: bool = False


@record
class Column:
    """A column: its title, the text of a run, and whether it is aligned to the right."""

    title: str
    text: Callable[[ListedRun], str]
    right: bool = False


def _reason(one: ListedRun) -> str:
    words = explanation(one.run)
    reason = f"{one.run.reason}: {words}" if words else one.run.reason
    return "; ".join(filter(None, [place_words(one.place) if one.place else "", reason]))


def place_words(place: QueuePlace, long: bool = False) -> str:
    """Return a place in the queue in words: ``3 before it, start 18:05``; with ``long`` the day and what is unknown."""
    before = "" if place.before is None else f"{place.before} before it"
    if long:
        before = "its place is not known" if place.before is None else f"{count(place.before, 'job')} before it"
    start = f"start {place.start:%m-%d %H:%M}" if place.start else ""
    if long:
        start = f"expected start {place.start:%Y-%m-%d %H:%M}" if place.start else "no expected start yet"
    return ", ".join(filter(None, [before, start]))


def _curve(one: ListedRun) -> str:
    return curve(one.progress.training.losses, _CURVE, one.ascii) if one.progress.training else ""


def _time_left(one: ListedRun) -> str:
    """Return the time until the training ends; if that is not known, that of the walltime, as "at most"."""
    if one.progress.left_s is not None:
        return duration(one.progress.left_s)
    return f"<{duration(one.progress.walltime_left_s)}" if one.progress.walltime_left_s is not None else "-"


def jobs_words(run: Run) -> str:
    """Return the IDs of a run's jobs: several for an array that was divided or retried, but never a long list."""
    jobs = current_jobs(run) if run.tasks and run.earlier else [run.job_id or "-"]
    return ", ".join(jobs) if len(jobs) <= _MOST_JOBS else f"{jobs[0]}, {jobs[1]} … {jobs[-1]} ({len(jobs)} jobs)"


COLUMNS: dict[str, Column] = {
    "run": Column(title="run", text=lambda one: shown_name(one.run.id)),
    "name": Column(title="name", text=lambda one: one.run.name),
    "job": Column(title="job id", text=lambda one: jobs_words(one.run)),
    "site": Column(title="site", text=lambda one: one.run.site),
    "state": Column(title="state", text=lambda one: one.run.state),
    "exit": Column(title="exit", text=lambda one: one.run.exit_code or "-"),
    "created": Column(title="created (UTC)", text=lambda one: one.run.created),
    "nodes": Column(title="nodes", text=lambda one: _number(one.progress.nodes), right=True),
    "elapsed": Column(title="elapsed", text=lambda one: duration(one.progress.elapsed_s), right=True),
    "left": Column(title="left", text=_time_left, right=True),
    "walltime-left": Column(title="walltime left", text=lambda one: duration(one.progress.walltime_left_s), right=True),
    "epoch": Column(title="epoch", text=lambda one: epoch_of(one.progress), right=True),
    "loss": Column(title="loss", text=lambda one: "-" if one.progress.loss is None else f"{one.progress.loss:.4g}"),
    "curve": Column(title="loss curve", text=_curve),
    "reason": Column(title="reason", text=_reason),
    "directory": Column(title="directory", text=lambda one: shown_name(str(one.run.path))),
}
"""Name -> column, as ``--format`` names them."""
EVERY_DEFAULT = ("run", "job", "site", "state", "exit", "created", "nodes", "elapsed", "left", "epoch", "reason")
"""The columns of `status` without ``--format``."""
_DROPPED_FIRST = ("created", "site", "exit", "curve", "job", "loss")
"""The columns that a narrow terminal does without, in this order."""


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def duration(seconds: float | None) -> str:
    """Return ``HH:MM:SS``, from one day on ``D-HH:MM:SS``; a dash for a time that is not known."""
    return "-" if seconds is None else format_walltime(round(seconds))


def epoch_of(progress: RunProgress) -> str:
    """Return ``12/60``; without a known end ``12``; a dash without epochs."""
    if progress.epoch is None:
        return "-"
    return f"{progress.epoch}/{progress.epochs}" if progress.epochs else str(progress.epoch)


def named_columns(text: str) -> list[str]:
    """Return the names in a list such as ``run,state,epoch``. Raises InvalidRequest with every unknown one."""
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in dict.fromkeys(names) if name not in COLUMNS]
    if unknown:
        faults = [
            Fault(
                where="--format",
                what=f"no column is called {name!r}{did_you_mean(name, COLUMNS)}",
                allowed=", ".join(COLUMNS),
                next="--format run,state,epoch",
            )
            for name in unknown
        ]
        raise InvalidRequest(faults)
    return names


@record
class FittedTable:
    """A list of runs that fits a width: the lines in pieces, the first with the titles, and ``notes`` below them.

    The notes hold the reasons that had no room in their line.
    """

    lines: tuple[tuple[Piece, ...], ...]
    notes: tuple[str, ...]


def fitted(found: Sequence[ListedRun], names: Sequence[str], width: int, fixed: bool = False) -> FittedTable:
    """Return one line for each run, at most ``width`` characters long. ``fixed``: no column may be left out."""
    texts = {name: [one_line(COLUMNS[name].text(one)) for one in found] for name in dict.fromkeys(names)}
    widths = {name: max(map(len, [COLUMNS[name].title, *texts[name]])) for name in texts}
    shown = _choose_columns(list(dict.fromkeys(names)), widths, width, fixed)
    _shrink(shown, widths, width)
    lines = [_line(shown, widths, {name: COLUMNS[name].title for name in shown}, "heading")]
    for number, one in enumerate(found):
        cells = {name: texts[name][number] for name in shown}
        lines.append(_line(shown, widths, cells, one.run.state))
    has_room = "reason" in shown and widths["reason"] >= max(map(len, texts["reason"]), default=0)
    wants_notes = "reason" in texts and not has_room
    return FittedTable(lines=tuple(lines), notes=tuple(_notes(found)) if wants_notes else ())


def one_line(text: str) -> str:
    """Return a text without line breaks and tabs."""
    return " ".join(text.split()) if not text.isprintable() else text


def _choose_columns(names: list[str], widths: dict[str, int], width: int, fixed: bool) -> list[str]:
    """Return the columns that fit, with the shortest reason that is of use; the reason goes last."""
    needed = {**widths, "reason": min(widths.get("reason", 0), _SHORTEST_REASON)}
    for name in () if fixed else (*_DROPPED_FIRST, "reason"):
        if _total(names, needed) <= width:
            break
        names = [other for other in names if other != name or len(names) == 1]
    return names


def _total(names: Sequence[str], widths: dict[str, int]) -> int:
    return sum(widths[name] for name in names) + len(BETWEEN) * (len(names) - 1)


def _shrink(names: Sequence[str], widths: dict[str, int], width: int) -> None:
    """Shorten the reason, the directory and then the run's name until the line fits, or they are at their shortest."""
    for name, least in (("reason", _SHORTEST_REASON), ("directory", _SHORTEST_REASON), ("run", _SHORTEST_RUN)):
        excess = _total(names, widths) - width
        if name in names and excess > 0:
            widths[name] = max(min(least, widths[name]), widths[name] - excess)


def _line(names: Sequence[str], widths: dict[str, int], cells: dict[str, str], style: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for place, name in enumerate(names):
        text = cut(cells[name], widths[name], keep_end=name in ("run", "directory"))
        if COLUMNS[name].right:
            text = text.rjust(widths[name])
        elif place < len(names) - 1:  # no blanks at the end of a line
            text = text.ljust(widths[name])
        styled = style if style == "heading" or name == "state" else ""
        pieces.append((BETWEEN + text if place else text, styled))
    return tuple(pieces)


def cut(text: str, width: int, keep_end: bool = False) -> str:
    """Return a text of at most ``width`` characters; a mark stands for what is left out at the end, or in the middle.

    Of a run's name both ends are kept: what it was called, and the random part, which alone names the run, too.
    """
    if len(text) <= width:
        return text
    if width <= 1:
        return text[:width]
    end = min(width - 1, max(_SHORTEST_RUN - 1, (width - 1) // 2)) if keep_end else 0
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def _notes(found: Sequence[ListedRun]) -> list[str]:
    """Return each reason once, with the runs that have it."""
    labels: dict[str, list[str]] = {}
    for one in found:
        text = one_line(_reason(one))
        if text:
            labels.setdefault(text, []).append(one.run.label)
    return [
        f"{runs[0]}{f' and {len(runs) - 1} more' if len(runs) > 1 else ''}: {text}" for text, runs in labels.items()
    ]
