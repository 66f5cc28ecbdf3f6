"""The last line of a terminal while a command waits for runs: epochs, time left, or how many have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hpclaunch.actions.following.progress import ProgressOfRuns
from hpclaunch.cli.show import colour, streams
from hpclaunch.cli.show.bars import bar
from hpclaunch.cli.show.console import escape_controls
from hpclaunch.cli.show.run_columns import ListedRun, cut, duration, epoch_of
from hpclaunch.core.run_states import FINAL
from hpclaunch.core.units import count
from hpclaunch.runs import Run, counts_of

_BAR = 20
_LEAST_FOR_BAR = 50
_TICK_S = 1.0


class ProgressLine:
    """The line, on stderr; in a pipe, and on a dumb terminal, there is none."""

    def __init__(self) -> None:
        self._progress = ProgressOfRuns()
        self._runs: Sequence[Run] = ()
        self._is_usable = streams.tells_a_terminal() and colour.is_capable() and not streams.is_quiet()

    def show(self, runs: Sequence[Run]) -> None:
        """Show how far the runs are; does nothing where there is no such line."""
        self._runs = runs
        if not self._is_usable:
            return
        now = time.time()
        listed = [ListedRun(run=run, progress=self._progress.of(run, now)) for run in runs]
        streams.show_line(progress_text(listed, streams.columns() - 1))

    def sleep(self, seconds: float) -> None:
        """Wait, and show every second how far the runs are that were shown last."""
        if not self._is_usable:
            time.sleep(seconds)
            return
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            self.show(self._runs)
            time.sleep(min(rest, _TICK_S))

    def end(self) -> None:
        """Remove the line."""
        streams.end_line()


def progress_text(listed: Sequence[ListedRun], width: int) -> str:
    """Return the line for these runs, at most ``width`` characters long."""
    is_one = len(listed) == 1 and not listed[0].run.tasks
    text = _describe_run(listed[0], width) if is_one else _describe_runs(listed, width)
    return cut(escape_controls(text).replace("\n", " "), max(width, 1))


def _describe_run(one: ListedRun, width: int) -> str:
    progress, run = one.progress, one.run
    parts = [f"{run.label}: {run.state}"]
    if progress.epoch is not None:
        parts.append(f"epoch {epoch_of(progress)}")
        if progress.epochs and width >= _LEAST_FOR_BAR + len(run.label):
            parts.append(bar(progress.epoch / progress.epochs, _BAR))
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.4g}")
    if progress.left_s is not None and not run.final:
        parts.append(f"{duration(progress.left_s)} left")
    elif progress.elapsed_s is not None:
        parts.append(f"for {duration(progress.elapsed_s)}")
        if progress.walltime_left_s is not None:
            parts.append(f"walltime {duration(progress.walltime_left_s)} left")
    return "  ".join(parts)


def _describe_runs(listed: Sequence[ListedRun], width: int) -> str:
    """Return how many have ended; the runs of an array count each."""
    states: dict[str, int] = {}
    for one in listed:
        for state, number in counts_of(one.run).items():
            states[state] = states.get(state, 0) + number
    total = sum(states.values())
    ended = sum(number for state, number in states.items() if state in FINAL)
    parts = [f"{ended} of {count(total, 'run')} ended"]
    if width >= _LEAST_FOR_BAR and total:
        parts.append(bar(ended / total, _BAR))
    parts += [f"{number} {state}" for state, number in states.items() if state not in FINAL]
    left = [one.progress.left_s for one in listed if one.progress.left_s is not None and not one.run.final]
    if left:
        parts.append(f"{duration(max(left))} left of the longest")
    return "  ".join(parts)
