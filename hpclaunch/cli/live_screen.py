"""``watch``: all runs on a live screen, with keys; in a pipe, or on a terminal that has no screens, plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from hpclaunch.cli import run_flags

if TYPE_CHECKING:
    from hpclaunch.actions.following.monitor import Monitor
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show.screen import Screen
    from hpclaunch.cli.show.watch_scene import Scene
    from hpclaunch.cli.show.watch_view import Command, View
    from hpclaunch.runs import Run

app = typer.Typer()

_TICK_S = 1.0


@app.command("watch")
def watch(run: run_flags.Runs = None, json: run_flags.Json = False) -> None:
    """Show runs on a live screen: states, queue, epochs, loss, use of CPUs and GPUs; ? shows its keys.

    In a pipe, with NO_COLOR, or on a dumb terminal it writes a line at every change, until all runs have ended.
    """
    from hpclaunch.actions.system import System
    from hpclaunch.cli.show import console, screen

    system = System(warn=console.warn)
    if json or not screen.is_usable(system.environment):
        _write_lines(system, run or [], json)
        return
    ask = _question(system, run or [])
    try:
        _show(ask, system)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except screen.ScreenEnded as end:
        raise typer.Exit(end.code) from None


def _write_lines(system: System, names: Sequence[str], json: bool) -> None:
    from hpclaunch.actions.following import states
    from hpclaunch.actions.queueing.wait import wait
    from hpclaunch.cli.show import console, run_tables

    found = states.find(system, names) if names else states.all_runs(system)
    if not found:
        run_tables.show_status(found, json)
        return
    try:
        updates = wait(found, None, 0, console.say)
        run_tables.watch_status(updates, json, bool(names), run_tables.ListForm(tabs=True))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _question(system: System, names: Sequence[str]) -> Callable[[System], Sequence[Run]]:
    """Return the question for the runs with their states. Raises NotFound for an unknown name, before the screen.

    Arrays that are named are shown as their runs.
    """
    from hpclaunch import runs
    from hpclaunch.actions.following import states

    if not names:
        return states.all_runs
    found = states.find(system, names)

    def ask(_: System) -> Sequence[Run]:
        nonlocal found
        found = states.refreshed(found)
        return runs.each(found)

    return ask


def _show(ask: Callable[[System], Sequence[Run]], system: System) -> None:
    from hpclaunch.actions.following.monitor import Monitor
    from hpclaunch.cli.show import colour
    from hpclaunch.cli.show.screen import Screen
    from hpclaunch.core import waiting

    screen = Screen(ascii=not colour.is_unicode(system.environment))
    monitor = Monitor(lambda: ask(replace(system, warn=monitor.messages.append)), screen.wake)
    waiting.report_to(monitor.messages.append)
    with screen:
        monitor.start()
        try:
            _follow_keys(screen, monitor)
        finally:
            monitor.stop()


def _follow_keys(screen: Screen, monitor: Monitor) -> None:
    """Draw the screen again every second and after every key, until the person quits."""
    from hpclaunch.cli.show.watch_frame import frame, page_of
    from hpclaunch.cli.show.watch_view import View, arranged, press

    view, size = View(), screen.size()
    while True:
        if monitor.fault is not None:
            raise monitor.fault
        if monitor.messages:
            view = replace(view, message=monitor.messages.popleft())
        if screen.size() != size:
            size = screen.size()
            screen.redraw()
        screen.draw(frame(view, _scene(view, monitor, screen), *size))
        for key in screen.keys(_TICK_S):
            shown = arranged(monitor.found.runs, view, monitor.progress)
            view, command = press(view, key, shown, page_of(size[1]))
            if command is not None and _is_quit(command, monitor):
                return


def _is_quit(command: Command, monitor: Monitor) -> bool:
    if command.name == "cancel" and command.run is not None:
        monitor.cancel(command.run)
    elif command.name == "ask":
        monitor.ask_now()
    return command.name == "quit"


def _scene(view: View, monitor: Monitor, screen: Screen) -> Scene:
    from hpclaunch.cli.show.watch_scene import Scene
    from hpclaunch.cli.show.watch_view import arranged, place_of

    found = monitor.found
    shown = arranged(found.runs, view, monitor.progress)
    selected = shown[place_of(view, shown)] if shown else None
    return Scene(
        runs=found.runs,
        progress=monitor.progress,
        now=time.time(),
        places=found.places,
        use=monitor.use(selected) if selected is not None and selected.state == "RUNNING" else None,
        log=next((_log_lines(run) for run in found.runs if run.path == view.selected), ())
        if view.mode == "log"
        else (),
        asked_s=None if found.answered is None else time.monotonic() - found.answered,
        trouble=found.trouble,
        ascii=screen.ascii,
    )


def _log_lines(run: Run) -> list[str]:
    """Return the lines at the end of a run's log; of a line that a progress bar writes again and again the last."""
    from hpclaunch.runs.logs import end_of_log

    lines = end_of_log(run).rstrip("\n").split("\n")
    shown = [line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in lines]
    return shown if shown != [""] else []
