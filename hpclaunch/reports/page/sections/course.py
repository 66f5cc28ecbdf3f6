"""The section of a run's course: its states over time, and its starts with restarts; it reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.run_states import FINAL
from hpclaunch.core.units import count
from hpclaunch.reports.page.amounts import duration, time_axis, time_in_words
from hpclaunch.reports.page.model import (
    Block,
    CodeText,
    Figure,
    Listing,
    PageSection,
    Sentence,
    Span,
    Timeline,
    Tone,
    Value,
)
from hpclaunch.reports.page.recorded import RecordedRun, RunStart, StateChange

_WAITING = frozenset({"PENDING", "SUBMITTING", "RENDERED", "INCOMPLETE", "CONFIGURING", "REQUEUED", "UNKNOWN"})
_BY_HPCLAUNCH = "States are as hpclaunch saw them when it asked; the script itself wrote the times of the starts."
_AGAIN = 75
_MOST_ROWS = 24
"""Starts that the picture shows; the table has more."""


def course_section(recorded: RecordedRun, now: float) -> PageSection:
    """Return the states over time and the starts. ``now`` (Unix seconds) is the end of a state that still lasts."""
    run = recorded.run
    blocks: list[Block] = [Sentence(text=_course_in_words(recorded), tone=tone_of(run.state))]
    spans = _spans(recorded, now)
    if spans:
        blocks.append(_figure(recorded, spans))
    if recorded.starts:
        columns = ("start", "began", "ended", "took", "exit code", "how it ended")
        rows = tuple(_start_row(start) for start in recorded.starts)
        blocks.append(Listing(title="Starts of the script", columns=columns, rows=rows))
    else:
        blocks.append(Sentence(text="The script never started, so there is nothing measured."))
    if recorded.log_end:
        blocks.append(CodeText(title="The last lines of the log", text=recorded.log_end))
    return PageSection(name="course", title="States, starts and restarts", blocks=tuple(blocks))


def tone_of(state: str) -> Tone:
    """Return how serious a state is."""
    if state == "COMPLETED":
        return "good"
    if state not in FINAL:
        return "plain"
    return "warning" if state in ("CANCELLED", "FORGOTTEN", "PREEMPTED") else "bad"


def ending_of(start: RunStart) -> str:
    """Return in words how a start ended."""
    if start.exit_code is None:
        return "it wrote no exit code: it runs, or was killed"
    if start.exit_code == 0:
        return "completed" if start.proven else "ended with 0, without the proof that every rank did"
    if start.exit_code == _AGAIN:
        return "saved its state and asked to be started again"
    words = "was ended by SIGTERM (walltime, preemption or cancel)" if start.terminated else "failed"
    return f"{words}; first rank to fail: {start.first_failure}" if start.first_failure else words


def _course_in_words(recorded: RecordedRun) -> str:
    run, starts = recorded.run, recorded.starts
    words = f"{run.label} is {run.state}"
    if run.exit_code and run.state != "COMPLETED":
        words += f" with exit code {run.exit_code}"
    if run.reason:
        words += f" ({run.reason})"
    if starts:
        words += f". It started {'once' if len(starts) == 1 else f'{len(starts)} times'}"
        words += f" and computed for {duration(recorded.seconds)}" if recorded.seconds is not None else ""
    if recorded.repeated:
        words += f". {count(recorded.repeated, 'epoch')} had to be repeated after a restart"
    return f"{words}."


def _spans(recorded: RecordedRun, now: float) -> list[tuple[str, float, float, str, Tone]]:
    """Return (row, begin, end, word, tone) of every bar, in Unix seconds."""
    spans = [("state", *one) for one in _state_spans(recorded.changes, now)]
    for number, start in enumerate(recorded.starts[-_MOST_ROWS:], start=max(1, len(recorded.starts) - _MOST_ROWS + 1)):
        end = start.ended
        if end is None and not recorded.run.final:
            end = now
        if start.began is None or end is None or end < start.began:
            continue
        word = "running" if start.exit_code is None else f"exit code {start.exit_code}"
        spans.append((f"start {number}", start.began, end, word, _tone_of_start(start.exit_code)))
    return spans


def _tone_of_start(code: int | None) -> Tone:
    """Return how serious the exit code of a start is; None: it runs, or left none."""
    if code == 0:
        return "good"
    return "plain" if code in (None, _AGAIN) else "bad"


def _state_spans(changes: Sequence[StateChange], now: float) -> list[tuple[float, float, str, Tone]]:
    found: list[tuple[float, float, str, Tone]] = []
    ends = [*(change.time for change in changes[1:]), now]
    for change, end in zip(changes, ends, strict=False):
        is_over = change.state in FINAL and change is changes[-1]  # it lasts, but says nothing more
        tone: Tone = "warning" if change.state in _WAITING else tone_of(change.state)
        found.append((change.time, change.time if is_over else max(change.time, end), change.state, tone))
    return found


def _figure(recorded: RecordedRun, spans: Sequence[tuple[str, float, float, str, Tone]]) -> Figure:
    axis = time_axis([time for _, begin, end, _, _ in spans for time in (begin, end)])
    drawn = [
        Span(row=row, begin=axis.at(begin), end=axis.at(end), word=word, tone=tone)
        for row, begin, end, word, tone in spans
    ]
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (row, time_in_words(begin), time_in_words(end), word) for row, begin, end, word, _ in spans
    )
    return Figure(
        name="states",
        title="States and starts over time",
        words=f"From {time_in_words(axis.zero)} on. {_BY_HPCLAUNCH}",
        drawings=(Timeline(title=recorded.run.label, x_label=axis.label, spans=drawn),),
        columns=("row", "from", "until", "state or exit code"),
        rows=rows,
    )


def _start_row(start: RunStart) -> tuple[Value, ...]:
    ended = time_in_words(start.ended)
    code = "none" if start.exit_code is None else start.exit_code
    return (start.name, time_in_words(start.began), ended, duration(start.seconds), code, ending_of(start))
