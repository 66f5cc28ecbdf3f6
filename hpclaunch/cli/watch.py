"""Follows runs on the screen until they end. Ctrl-C stops following them, and the runs continue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from hpclaunch.actions.queueing.wait import Tail
    from hpclaunch.runs import Run

_MOST_NAMED = 5
"""The most runs that are named after Ctrl-C."""


def watch_submitted(run: Run, json: bool, tail: Tail | None = None) -> NoReturn:
    """Follow a run, or all runs of an array, from their submission to their end, and exit with 0 if they completed.

    ``tail`` has read the logs of earlier starts.
    """
    from hpclaunch.cli.show import submission

    submission.show_answer(run)
    submission.show_submitted(run, f"; run directory {run.path}")
    if run.tasks:
        (ended,) = watch_all([run], None, 0, json)
        raise typer.Exit(0 if ended.state == "COMPLETED" else 1)
    watch(run, json, tail)


def watch(run: Run, json: bool, tail: Tail | None = None) -> NoReturn:
    """Follow a run to its end. Ctrl-C detaches, and the run continues."""
    from hpclaunch.actions.queueing import wait as wait_actions
    from hpclaunch.cli.show import console, submission
    from hpclaunch.cli.show.progress_line import ProgressLine

    last, shown, line = run, "", ProgressLine()
    try:
        for last, text in wait_actions.follow(run, tail=tail):
            if last.state != shown and not last.final:
                shown = last.state
                console.say(f"{last.label}: {last.state}" + (f" ({last.reason})" if last.reason else ""))
            if text:
                console.say_log(text)
            else:
                line.show([last])
    except KeyboardInterrupt:
        console.say(f"\n{_detach_message([run])}")
        raise typer.Exit(130) from None
    finally:
        line.end()
    submission.show_end(last, json)
    _show_use([last], json)
    raise typer.Exit(0 if last.state == "COMPLETED" else 1)


def watch_all(runs: Sequence[Run], seconds: float | None, retries: int, json: bool) -> Sequence[Run]:
    """Follow runs to their end, show every change, and return them. Ctrl-C detaches, and the runs continue."""
    from hpclaunch.actions.following import states
    from hpclaunch.actions.queueing import wait as wait_actions
    from hpclaunch.cli.show import console, run_tables
    from hpclaunch.cli.show.progress_line import ProgressLine

    found, line = runs, ProgressLine()
    shown: dict[Path, tuple[str, str]] = {}
    try:
        for found in wait_actions.wait(runs, seconds, retries, console.say, line.sleep):
            for run in found:
                if shown.get(run.path) != (now := (run.state, run.reason if run.tasks else "")):
                    shown[run.path] = now
                    words = states.explanation(run)
                    why = f"{run.reason}: {words}" if run.tasks and words else words or run.reason
                    console.say(f"{run.label}: {run.state}" + (f" ({why})" if why else ""))
            line.show(found)
    except KeyboardInterrupt:
        console.say(f"\n{_detach_message([run for run in found if not run.final])}")
        raise typer.Exit(130) from None
    finally:
        line.end()
    run_tables.show_status(found, json)
    _show_use(found, json)
    return found


def _show_use(found: Sequence[Run], json: bool) -> None:
    """Say in one line how well the runs that have ended used what they asked for."""
    if json:
        return
    from hpclaunch.cli.show.efficiency import show_line

    show_line(found)


def _detach_message(unfinished: Sequence[Run]) -> str:
    """Return the message after Ctrl-C, about the runs that had not ended when they were last seen."""
    from hpclaunch.schedulers import scheduler_of

    if not unfinished:
        return "detached; all runs have ended: hpclaunch status"
    names = " ".join(run.label for run in unfinished[:_MOST_NAMED]) + (" ..." if unfinished[_MOST_NAMED:] else "")
    subject, end = f"{len(unfinished)} runs continue", f"To end them: hpclaunch cancel {names}"
    if len(unfinished) == 1:
        subject, end = (
            "the run continues",
            f"To end it: {scheduler_of(unfinished[0].scheduler).cancel_command(unfinished[0])}",
        )
    return f"detached; {subject}. To follow again: hpclaunch wait {names}. {end}"
