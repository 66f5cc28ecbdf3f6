"""The state of the live screen: what is selected, sorted and filtered, and what each key changes; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.core.records import record
from hpclaunch.core.run_states import ACTIVE, FINAL
from hpclaunch.runs import Run

SORTS = ("active", "newest", "name", "left", "epoch", "loss")
"""The orders of the list, in the order in which the key goes through them."""
BY_PROGRESS = ("left", "epoch", "loss")
"""The orders that need the progress of every run."""
_COMMANDS = {"q": "quit", "u": "ask"}
_LONGEST_FILTER = 60
_UNKNOWN_LAST = float("inf")


@record
class View:
    """What a person sees, and where. ``mode``: list, log or help.

    - ``selected``: the run directory of the selected run; None: the first of the list.
    - ``scrolled``: in the log, how many lines back from its end.
    - ``typing``: keys are letters of the ``filter``. ``asked``: the run about whose cancellation the person is asked.
    """

    mode: str = "list"
    selected: Path | None = None
    scrolled: int = 0
    sort: str = SORTS[0]
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    asked: Run | None = None
    message: str = ""


@record
class Command:
    """What a key asks for, beyond another view: quit, cancel (with the run) or ask (the scheduler)."""

    name: str
    run: Run | None = None


def arranged(runs: Sequence[Run], view: View, progress: Callable[[Run], RunProgress]) -> list[Run]:
    """Return the runs that match the filter, in the order of the view. ``runs`` are newest first."""
    words = view.filter.lower().split()
    wanted = [run for run in runs if all(word in _search_text(run) for word in words)]
    keys: Mapping[str, Callable[[Run], object]] = {
        "active": _activity,
        "name": lambda run: run.label,
        "left": lambda run: _or_last(progress(run).left_s),
        "epoch": lambda run: -(progress(run).epoch or 0),
        "loss": lambda run: _or_last(progress(run).loss),
    }
    key = keys.get(view.sort)
    ordered = sorted(wanted, key=key) if key else wanted  # type: ignore[arg-type]
    return ordered[::-1] if view.reverse else ordered


def _search_text(run: Run) -> str:
    return f"{run.label} {run.job_id} {run.site} {run.state}".lower()


def _activity(run: Run) -> int:
    """Return the place of a state in the list: those that run, those that wait, others that may change, ended ones."""
    if run.state in ACTIVE:
        return ACTIVE.index(run.state)
    return len(ACTIVE) + (run.state in FINAL)


def _or_last(value: float | None) -> float:
    return _UNKNOWN_LAST if value is None else value


def place_of(view: View, shown: Sequence[Run]) -> int:
    """Return the place of the selected run in the list; 0 if it is not there any more."""
    return next((place for place, run in enumerate(shown) if run.path == view.selected), 0)


def press(view: View, key: str, shown: Sequence[Run], page: int) -> tuple[View, Command | None]:
    """Return the view after a key, and what the key asks for. ``shown``: the runs of the list; ``page``: its lines."""
    view = replace(view, message="")
    if view.asked is not None:
        return _take_answer(view, view.asked, key)
    if view.typing:
        return _type_filter(view, key), None
    if view.mode == "help":
        return replace(view, mode="list"), None
    if view.mode == "log":
        return _press_in_log(view, key, page), None
    return _press_in_list(view, key, shown, page)


def _take_answer(view: View, run: Run, key: str) -> tuple[View, Command | None]:
    """Return the view after the answer to the question whether to cancel the run; only y is a yes."""
    if key not in ("y", "Y"):
        return replace(view, asked=None, message="nothing was cancelled"), None
    return replace(view, asked=None, message=f"cancelling {run.label} ..."), Command(name="cancel", run=run)


def _type_filter(view: View, key: str) -> View:
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return replace(view, typing=False, filter="")
    if key == "backspace":
        return replace(view, filter=view.filter[:-1])
    if len(key) == 1 and key.isprintable() and len(view.filter) < _LONGEST_FILTER:
        return replace(view, filter=view.filter + key)
    return view


def _press_in_log(view: View, key: str, page: int) -> View:
    if key in ("q", "escape", "l", "enter", "left"):
        return replace(view, mode="list", scrolled=0)
    steps = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": page, "pagedown": -page, " ": -page}
    ends = {"end": 0, "G": 0, "home": 10**9, "g": 10**9}
    return replace(view, scrolled=max(0, ends.get(key, view.scrolled + steps.get(key, 0))))


def _press_in_list(view: View, key: str, shown: Sequence[Run], page: int) -> tuple[View, Command | None]:
    run = shown[place_of(view, shown)] if shown else None
    if key in ("l", "enter") and run is not None:
        if run.tasks:
            return replace(view, message=f"each run of the array has a log: hpclaunch watch {run.label}"), None
        return replace(view, mode="log", scrolled=0, selected=run.path), None
    if key == "c" and run is not None:
        if run.final:
            return replace(view, message=f"{run.label} has ended: it is {run.state}"), None
        return replace(view, asked=run, selected=run.path), None
    if key in _COMMANDS:
        return view, Command(name=_COMMANDS[key])
    changes: Mapping[str, View] = {
        "s": replace(view, sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)]),
        "r": replace(view, reverse=not view.reverse),
        "/": replace(view, typing=True),
        "escape": replace(view, filter=""),
        "?": replace(view, mode="help"),
        "h": replace(view, mode="help"),
    }
    return changes.get(key) or _move_selection(view, key, shown, page), None


def _move_selection(view: View, key: str, shown: Sequence[Run], page: int) -> View:
    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -page, "pagedown": page, " ": page}
    steps |= {"home": -len(shown), "g": -len(shown), "end": len(shown), "G": len(shown)}
    if key not in steps or not shown:
        return view
    place = min(max(place_of(view, shown) + steps[key], 0), len(shown) - 1)
    return replace(view, selected=shown[place].path)
