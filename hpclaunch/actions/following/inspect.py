"""What run directories hold, for ``runs show``, ``runs compare`` and ``results``; it changes none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.core import inside
from hpclaunch.core.errors import Fault
from hpclaunch.core.files import json_object
from hpclaunch.core.hidden_values import HiddenValues
from hpclaunch.core.quoting import shown_name
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.core.spec import OWN, JobSpec
from hpclaunch.runs import Run
from hpclaunch.runs.create import CODE_FILES
from hpclaunch.runs.hidden import hidden_values_of
from hpclaunch.runs.record import METRICS
from hpclaunch.runs.recorded_layout import directives_of
from hpclaunch.runs.snapshot import FROM_OUTSIDE
from hpclaunch.runs.start_numbers import highest_in, number_of, of_newest

MODEL = "model"
"""The folder with the trained model, if the program has written one."""
_STARTS = 1000
_END_OF_METRICS = 2**20
"""Bytes; the event stands in the last line, unless a later start has added lines."""


def everything(run: Run) -> dict[str, Any]:
    """Return everything that a run's directory holds, as plain values."""
    codes = run.exit_codes()
    starts = [
        {
            "attempt": name,
            "started": _first_line(run, name, "started"),
            "exit_code": codes.get(name),
            "broadcast": _first_line(run, name, "broadcast"),
        }
        for name in run.attempts()
    ]
    return {
        **run.to_json(),
        "spec": run.spec(),
        "environment": json_object(inside.read_text(run.home, "environment.json")),
        "values": runs.swept(run),
        "states": run.history(),
        "attempts": starts[-_STARTS:],
        "logs": [str(path) for path in run.logs()],
        "checkpoints": [str(path) for path in checkpoints(run)],
        "model": [str(path) for path in _paths_in(run, MODEL)],
        "final": final_metrics(run),
        "size": size_of(run.path),
    }


def _first_line(run: Run, attempt: str, marker: str) -> str:
    """Return the first line of a file that the script of a start has written; empty if there is none."""
    return (inside.read_text(run.home, run.name_of(f"attempts/{attempt}/{marker}")).split("\n") or [""])[0].strip()


def checkpoints(run: Run) -> list[Path]:
    """Return the paths in the run's folder of checkpoints, sorted by name."""
    return _paths_in(run, "checkpoints")


def _paths_in(run: Run, folder: str) -> list[Path]:
    """Return the paths in a folder of a run, without hidden ones; empty if there is no such folder."""
    names = inside.names_in(run.home, run.name_of(folder))
    return [run.path / folder / name for name in names if not name.startswith(".")]


def final_metrics(run: Run) -> dict[str, Any]:
    """Return the run's result: the last event ``end`` of its newest start in metrics.jsonl; empty without one there."""
    text = inside.read_end(run.home, run.name_of(METRICS), _END_OF_METRICS).decode("utf-8", errors="replace")
    newest = highest_in(text)
    ends = [json_object(line) for line in text.split("\n")[:-1] if '"end"' in line]
    counting = [one for one in ends if one.get("event") == "end" and number_of(one) in (0, newest)]
    return next(of_newest(reversed(counting)), {})


def foreign_results(found: Sequence[Run]) -> list[Fault]:
    """Return the runs whose metrics.jsonl is not read, with the reason."""
    return [
        Fault(where=shown_name(str(run.path / METRICS)), what=f"{why}, and is not read")
        for run in found
        if (why := inside.problem(run.home, run.name_of(METRICS)))
    ]


def numbers(run: Run) -> dict[str, str]:
    """Return the values of a run's result as texts, by name."""
    texts = {}
    for key, value in final_metrics(run).items():
        if key in ("event", "time"):
            continue
        if isinstance(value, float):
            texts[str(key)] = f"{value:.6g}"
        elif isinstance(value, int | str):
            texts[str(key)] = str(value)
    return texts


def differences(found: Sequence[Run], public: bool = False) -> list[tuple[str, list[str]]]:
    """Return (name, its value in each run) for every fact (request, environment, result) that differs.

    ``public``: for a page that may leave the machine. Values of variables that may be secrets are then not shown,
    although they differ.
    """
    tables = [_facts(run) for run in found]
    shown = [_public_facts(run) for run in found] if public else tables
    names = list(dict.fromkeys(name for table in tables for name in table))
    different = [name for name in names if len({table.get(name, "") for table in tables}) > 1]
    return [(name, [table.get(name, "") for table in shown]) for name in different]


def _public_facts(run: Run) -> dict[str, str]:
    hidden = hidden_values_of(run)
    return {name: hidden.parameter(name, text) for name, text in _facts(run, hidden).items()}


def _facts(run: Run, hidden: HiddenValues | None = None) -> dict[str, str]:
    environment = json_object(inside.read_text(run.home, "environment.json"))
    facts = {"site": run.site, "state": run.state, "exit code": run.exit_code, "git": run.git}
    facts |= {f"environment.{name}": _as_text(value) for name, value in environment.items() if name not in _NO_FACTS}
    # Before the command: an argument there overrides a parameter.
    facts |= {f"--{name.replace('_', '-')}": value for name, value in run.parameters().items()}
    spec = hidden.plain(run.spec()) if hidden else run.spec()
    facts |= spec_facts(spec, str(run.home), run.scheduler)
    facts |= {f"--{name.replace('_', '-')}": value for name, value in runs.swept(run).items()}
    return facts | {f"result.{name}": value for name, value in numbers(run).items()}


_NO_FACTS = ("folder", CODE_FILES, FROM_OUTSIDE)
"""What environment.json holds that says nothing of the software."""


def spec_facts(spec: dict[str, Any], home: str, scheduler: str) -> dict[str, str]:
    """Return the fields of a spec and its directives by name, without those that differ in every run.

    ``spec`` is that of spec.json; ``home``, the folder that holds script and code, reads RUN.
    """
    return _fields(spec, home) | _directives(spec, home, scheduler)


def _fields(spec: dict[str, Any], home: str) -> dict[str, str]:
    facts: dict[str, str] = {}
    own = {attribute.name for attribute in fields(JobSpec) if attribute.metadata == OWN}
    for key, value in spec.items():
        if key in own:
            continue
        if isinstance(value, dict):
            facts |= {f"{key}.{inner}": _as_text(content) for inner, content in value.items()}
        elif key == "command" and isinstance(value, list):
            facts |= _options(value, home)
        else:
            facts[key] = _as_text(value).replace(home, "RUN")
    return facts


def _directives(spec: dict[str, Any], home: str, scheduler: str) -> dict[str, str]:
    """Return the options of sbatch; what a damaged spec holds in their place is left out."""
    separator, component = scheduler_row(scheduler).component_directive, 0
    found: dict[str, str] = {}
    for name, value in directives_of(spec):
        component += name == separator
        place = f" (component {component})" if component else ""
        found[f"--{name}{place}"] = value.replace(home, "RUN")
    return found


def _options(command: list[Any], home: str) -> dict[str, str]:
    """Return a command's --name=value arguments by name, and all others as one text; --default was shown before."""
    words = [str(word).replace(home, "RUN") for word in command if not str(word).startswith("--default=")]
    named = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    return {**named, "command": " ".join(word for word in words if word.partition("=")[0] not in named)}


def _as_text(value: Any) -> str:
    return " ".join(map(_as_text, value)) if isinstance(value, list | tuple) else str(value)


def size_of(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes; links are not followed."""
    total = 0
    for place, _, names in os.walk(folder, onerror=None):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
