"""Following runs on the screen until they end; Ctrl-C leaves them alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

_NAMED = 5
"""So many runs are named to who no longer waits for them."""


def watch(run: Any, json: bool) -> None:
    """Follow a run to its end. Ctrl-C detaches: the run goes on."""
    from hpclaunch.actions import wait as following
    from hpclaunch.cli.show import console

    last, shown = run, ""
    try:
        for last, text in following.follow(run):
            if last.state != shown and not last.final:
                shown = last.state
                console.say(f"{last.label}: {last.state}" + (f" ({last.reason})" if last.reason else ""))
            if text:
                console.say_bytes(text)
    except KeyboardInterrupt:
        console.say(f"\n{_detach_message([run])}")
        raise typer.Exit(130) from None
    console.show_end(last, json)
    raise typer.Exit(0 if last.state == "COMPLETED" else 1)


def watch_all(asked: Any, seconds: float | None, retries: int, json: bool) -> Any:
    """Follow runs to their end, telling every change, and return them. Ctrl-C detaches: those that go on are told."""
    from hpclaunch.actions import states
    from hpclaunch.actions import wait as following
    from hpclaunch.cli.show import console, run_tables

    found = asked
    shown: dict[Path, tuple[str, str]] = {}
    try:
        for found in following.wait(asked, seconds, retries, console.say):
            for one in found:
                if shown.get(one.path) != (now := (one.state, one.reason if one.tasks else "")):
                    shown[one.path] = now
                    words = states.explanation(one)
                    why = f"{one.reason}: {words}" if one.tasks and words else words or one.reason
                    console.say(f"{one.label}: {one.state}" + (f" ({why})" if why else ""))
    except KeyboardInterrupt:
        console.say(f"\n{_detach_message([run for run in found if not run.final])}")
        raise typer.Exit(130) from None
    run_tables.show_status(found, json)
    return found


def _detach_message(going: Sequence[Any]) -> str:
    """Return what is said to who no longer waits, of the runs that had not ended when they were last asked for."""
    from hpclaunch.schedulers import scheduler_of

    if not going:
        return "detached; all of them have ended: hpclaunch status"
    names = " ".join(run.label for run in going[:_NAMED]) + (" ..." if going[_NAMED:] else "")
    who, end = f"{len(going)} runs go on", f"To end them: hpclaunch cancel {names}"
    if len(going) == 1:
        who, end = "the run goes on", f"To end it: {scheduler_of(going[0].scheduler).cancel_command(going[0])}"
    return f"detached; {who}. To look again: hpclaunch wait {names}. {end}"
