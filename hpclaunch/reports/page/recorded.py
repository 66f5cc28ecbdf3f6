"""Reads what the page of a run shows from its directory, once; it judges nothing and asks no scheduler.

The directory may be damaged or belong to a program of the user's own: what has another form is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from math import prod
from pathlib import Path
from typing import Any

from hpclaunch.core import inside
from hpclaunch.core.errors import Refused
from hpclaunch.core.files import json_object
from hpclaunch.core.hidden_values import NOT_SHOWN, HiddenValues
from hpclaunch.core.json_values import pairs, showable
from hpclaunch.core.records import record
from hpclaunch.core.secret_names import is_public_variable
from hpclaunch.core.spec import Pairs, Request
from hpclaunch.core.units import whole_number
from hpclaunch.reports.page.amounts import seconds_of_time
from hpclaunch.runs import Run, swept
from hpclaunch.runs.hidden import hidden_values_of
from hpclaunch.runs.logs import end_of_log
from hpclaunch.runs.metric_events import metric_events
from hpclaunch.runs.request_file import read_request
from hpclaunch.runs.samples import FOLDER, NodeSamples, samples_of

_MOST_STATES, _MOST_STARTS = 500, 500
_LOG_LINES, _LONGEST_LINE = 40, 500
_LARGEST_SCRIPT = 100_000
"""Characters; a standalone script with its library has 60,000."""


@record
class StateChange:
    """One line of states.jsonl; ``time``: Unix seconds."""

    time: float
    state: str
    job_id: str
    reason: str


@record
class RunStart:
    """One start of the script (``name``: JOBID.RESTART), by its markers; times are Unix seconds.

    ``terminated``: the script got SIGTERM. ``first_failure``: exit code and name of the first rank to fail.
    ``proven``: its script has proven that it completed the run.
    """

    name: str
    began: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    terminated: bool = False
    first_failure: str = ""
    proven: bool = False

    @property
    def seconds(self) -> float | None:
        """How long it took; None if that is not known."""
        if self.began is None or self.ended is None or self.ended < self.began:
            return None
        return self.ended - self.began


@record
class RecordedRun:
    """A run as its directory records it.

    ``request``: what was typed (None: missing or damaged), in ``folder``. ``repeated``: epochs whose work was done
    twice after a restart. ``epochs_seen``: how many epochs there were; ``thinned``: in words, what of a long
    metrics.jsonl is left out. ``has_site``: the file of
    its site was read; ``mtbf_days``: what that says of days between failures of a node (None: nothing).
    """

    run: Run
    spec: Mapping[str, Any]
    request: Request | None
    folder: Path
    environment: Mapping[str, Any]
    values: Mapping[str, str]
    changes: tuple[StateChange, ...]
    starts: tuple[RunStart, ...]
    epochs: tuple[Mapping[str, Any], ...]
    events: tuple[Mapping[str, Any], ...]
    repeated: int
    epochs_seen: int = 0
    thinned: str = ""
    nodes: tuple[NodeSamples, ...]
    script: str
    log_end: str
    has_site: bool = False
    mtbf_days: float | None = None

    def named(self, event: str) -> list[Mapping[str, Any]]:
        """Return the events of one kind, oldest first."""
        return [one for one in self.events if one.get("event") == event]

    @property
    def result(self) -> Mapping[str, Any]:
        """The last event ``end``; empty if there is none."""
        return next(reversed(self.named("end")), {})

    @property
    def runs_of_array(self) -> int:
        """The number of runs of its array; 1 outside an array."""
        sweep = self.spec.get("sweep")
        axes = sweep.get("axes") if isinstance(sweep, dict) else None
        lengths = [len(axis[1]) for axis in axes if isinstance(axis, list) and len(axis) == 2] if axes else []
        return prod(lengths)

    @property
    def parameters(self) -> dict[str, str]:
        """All parameters with the values of this run."""
        return {**{name: str(value) for name, value in pairs(self.spec.get("parameters"))}, **self.values}

    @property
    def seconds(self) -> float | None:
        """The time of all starts together that have ended; None if none has."""
        known = [start.seconds for start in self.starts if start.seconds is not None]
        return sum(known) if known else None


def read_run(run: Run) -> RecordedRun:
    """Return everything that the page of a run shows, without values of variables that may be secrets.

    Raises Refused for a metrics.jsonl that is too large.
    """
    events = metric_events(run)
    request, folder = _request(run)
    spec = run.spec()
    hidden = hidden_values_of(run)
    public = _public_request(request, hidden) if request else None
    return RecordedRun(
        run=_showable_run(run, hidden),
        spec=showable(hidden.plain(spec)),
        request=public,
        folder=folder,
        environment=showable(hidden.plain(json_object(inside.read_text(run.home, "environment.json")))),
        values={name: hidden.parameter(name, value) for name, value in swept(run).items()},
        changes=tuple(_changes(run))[-_MOST_STATES:],
        starts=tuple(_start(run, name) for name in run.attempts()[-_MOST_STARTS:]),
        epochs=tuple(map(showable, events.epochs)),
        events=tuple(map(showable, events.others)),
        epochs_seen=events.epochs_seen,
        thinned=events.note(),
        repeated=sum(
            one.get("event") == "epoch" for one in inside.json_lines(run.home, run.name_of("metrics-repeated.jsonl"))
        ),
        nodes=tuple(samples_of(run.home, run.name_of(FOLDER))),
        script=hidden.without(_script(run)),
        log_end=hidden.without(_log_end(run)),
    )


def _request(run: Run) -> tuple[Request | None, Path]:
    try:
        return read_request(run.home)
    except Refused:
        return None, run.home


def _showable_run(run: Run, hidden: HiddenValues) -> Run:
    """Return the record with texts that a page can hold."""
    texts = {one.name: showable(getattr(run, one.name)) for one in fields(Run) if one.type == "str"}
    return replace(run, **{**texts, "reason": hidden.without(texts["reason"])})


def _public_request(request: Request, hidden: HiddenValues) -> Request:
    return replace(
        request,
        variables=_public_pairs(request.variables),
        arguments=tuple(hidden.words(request.arguments)),
        settings=tuple((name, hidden.parameter(name, value)) for name, value in request.settings),
        sweep=tuple((name, hidden.parameter(name, value)) for name, value in request.sweep),
    )


def _public_pairs(variables: Pairs) -> Pairs:
    return tuple((name, value if is_public_variable(name) else NOT_SHOWN) for name, value in variables)


def _changes(run: Run) -> Iterator[StateChange]:
    for line in run.history() if run.index < 0 else ():
        time = seconds_of_time(line.get("time"))
        if time is not None:
            job_id, reason = str(line.get("job_id", "")), str(line.get("reason", ""))
            yield StateChange(time=time, state=str(line.get("state", ""))[:40], job_id=job_id[:40], reason=reason)


def _start(run: Run, name: str) -> RunStart:
    folder = run.name_of(f"attempts/{name}")

    def text_of(marker: str) -> str:
        return inside.read_text(run.home, f"{folder}/{marker}").strip()

    failure = " ".join(map(text_of, ("first-failure", "first-failure.rank")))
    ended = inside.changed_at(run.home, f"{folder}/exit-code")
    return RunStart(
        name=name,
        began=seconds_of_time(text_of("started")),
        ended=None if ended is None else float(int(ended)),  # whole seconds, as the time of a start
        exit_code=whole_number(text_of("exit-code")),
        terminated=inside.changed_at(run.home, f"{folder}/terminated") is not None,
        first_failure=failure.strip()[:200],
        proven=run.has_completed(name),
    )


def _script(run: Run) -> str:
    text = inside.read_text(run.home, run.script.name)
    return text if len(text) <= _LARGEST_SCRIPT else f"{text[:_LARGEST_SCRIPT]}\n# the rest is left out of this page\n"


def _log_end(run: Run) -> str:
    """Return the last lines of the log of a run that did not complete; of other runs nothing."""
    if run.state == "COMPLETED" or not run.final:
        return ""
    lines = end_of_log(run).replace("\r", "\n").splitlines()[-_LOG_LINES:]
    return "\n".join(line[:_LONGEST_LINE] for line in lines)
