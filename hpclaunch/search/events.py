"""The events of trials, as lines of a journal and as values: a trial begins, and it ends; pure.

{"e":"begin","n":12,"a":1,"t":1790000000.5,"v":{"lr":0.1},"h":"n1","c":"0-3","g":"0"}
{"e":"end","n":12,"a":1,"t":1790000007.1,"s":"COMPLETED","m":0.53,"x":0}
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from hpclaunch.core.units import CONTROL
from hpclaunch.search.space import Values

RUNNING, COMPLETED, PRUNED, FAILED = "RUNNING", "COMPLETED", "PRUNED", "FAILED"
INTERRUPTED = "INTERRUPTED"
"""It was asked to stop, because the allocation ends, and continues in the next one."""
MACHINE = "MACHINE"
"""The machine failed: it is tried again, from its last checkpoint if it has one."""
LOST = "LOST"
"""Its worker has ended without recording an end. No journal has this state: it follows from the worker's."""
FINISHED = frozenset({COMPLETED, PRUNED, FAILED})
_ENDS = frozenset({*FINISHED, INTERRUPTED, MACHINE})
_LONGEST_REASON = 300


class TrialBegin(NamedTuple):
    """A start of a trial: its number, its attempt (from 1), when, with which values, and what it was granted.

    ``host``, ``cpus`` and ``gpus``: the node and the numbers of its CPUs and GPUs, in Slurm's notation. ``ask``: the
    number of the trial in Optuna's study (-1: none).
    """

    number: int
    attempt: int
    time: float
    values: Values
    host: str = ""
    cpus: str = ""
    gpus: str = ""
    ask: int = -1

    def line(self) -> str:
        """Return the line of the journal."""
        event: dict[str, Any] = {"e": "begin", "n": self.number, "a": self.attempt, "t": self.time, "v": self.values}
        event |= {"h": self.host, "c": self.cpus}
        if self.gpus:
            event["g"] = self.gpus
        if self.ask >= 0:
            event["o"] = self.ask
        return json.dumps(event, separators=(",", ":"))


class TrialEnd(NamedTuple):
    """The end of a start. ``value``: that of the metric, None if there is none. ``reason``: why it failed."""

    number: int
    attempt: int
    time: float
    state: str
    value: float | None = None
    exit_code: int = 0
    reason: str = ""

    def line(self) -> str:
        """Return the line of the journal."""
        event: dict[str, Any] = {"e": "end", "n": self.number, "a": self.attempt, "t": self.time, "s": self.state}
        if self.value is not None:
            event["m"] = self.value
        event["x"] = self.exit_code
        if self.reason:
            event["why"] = self.reason[:_LONGEST_REASON]
        return json.dumps(event, separators=(",", ":"))


Event = TrialBegin | TrialEnd


def event_in(line: str | bytes) -> Event | None:
    """Return the event in a line of a journal; None for a damaged line, which counts as not written."""
    try:
        row = json.loads(line)
        number, attempt, time = row["n"], row["a"], row["t"]
        if type(number) is not int or type(attempt) is not int or number < 0 or not math.isfinite(time):
            return None
        if row["e"] == "begin":
            values = row["v"] if isinstance(row["v"], dict) else {}
            return TrialBegin(
                number, attempt, float(time), values, row["h"], row["c"], row.get("g", ""), row.get("o", -1)
            )
        if row["e"] == "end" and row["s"] in _ENDS:
            value = row.get("m")
            number_or_none = float(value) if isinstance(value, int | float) and math.isfinite(value) else None
            reason = CONTROL.sub(" ", str(row["why"])) if "why" in row else ""
            return TrialEnd(number, attempt, float(time), row["s"], number_or_none, int(row.get("x", 0)), reason)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass
    return None
