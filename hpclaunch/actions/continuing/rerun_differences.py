"""What a run that is made again cannot have in common with the recorded one: spec, code, data, software, history."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.following.inspect import spec_facts
from hpclaunch.actions.preparing.preflight import found_layout
from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.core.errors import shorten
from hpclaunch.core.files import json_object, read_text
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import SAME_NAME
from hpclaunch.core.spec import LIBRARY
from hpclaunch.core.units import count
from hpclaunch.runs import Run
from hpclaunch.runs.create import REQUEST
from hpclaunch.runs.snapshot import choose
from hpclaunch.runs.training_library import has_library

MOST_LOOKED_AT = 20_000
"""Files and folders of a data set whose times are compared."""
_LONGEST = 160
_APART = ("version", "cost.", "after")
_FOLLOWING = frozenset(
    {
        *("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node", "--time", "--partition"),
        *("--qos", "--account", "--dependency", "--job-name"),
    }
)
"""Directives that follow from fields of the spec, which are compared themselves, or that every run has its own of."""


@record
class RerunDifference:
    """One thing that is not as it was; ``before`` and ``now`` may be empty if words in ``what`` say it all."""

    what: str
    before: str = ""
    now: str = ""

    def __str__(self) -> str:
        if not self.before and not self.now:
            return self.what
        return f"{self.what}: {self.now or 'none'} instead of {self.before or 'none'}"


def differences_of(run: Run, prepared: Prepared) -> tuple[RerunDifference, ...]:
    """Return everything that is known not to be the same, the software first."""
    return (
        *_software(run, prepared),
        *_spec(run, prepared),
        *_code(run, prepared),
        *_data(run, prepared),
        *_history(run),
    )


def _software(run: Run, prepared: Prepared) -> Iterator[RerunDifference]:
    before, now = str(run.spec().get("version", "")), prepared.spec.version
    if before != now:
        words = (
            "hpclaunch (the training library is the run's own copy)" if has_library(run.home / "code") else "hpclaunch"
        )
        yield RerunDifference(what=words, before=before, now=now)
    elif prepared.script.library and read_text(run.home / LIBRARY) != prepared.script.library:
        yield RerunDifference(what=f"{LIBRARY}, the script's functions, differs from that of the run")
    recorded = json_object(read_text(run.home / "environment.json"))
    python = ".".join(map(str, sys.version_info[:3]))
    if prepared.spec.interpreter == sys.executable and recorded.get("python_version") not in (None, python):
        yield RerunDifference(what="Python", before=str(recorded["python_version"]), now=python)
    if ("export", "NONE") not in prepared.spec.directives:
        yield from _shell(recorded, prepared)


def _shell(recorded: dict[str, Any], prepared: Prepared) -> Iterator[RerunDifference]:
    """Yield what differs in the submitting shell, for a job that inherits it."""
    variables = recorded.get("variables")
    before = str(variables.get("LOADEDMODULES", "")) if isinstance(variables, dict) else ""
    now = prepared.case.context.environment.get("LOADEDMODULES", "")
    if before != now:
        yield RerunDifference(what="modules loaded in the submitting shell", before=before, now=now)
    kernel = f"{os.uname().sysname} {os.uname().release} {os.uname().machine}"
    if not prepared.case.site.scheduler_row.has_queue and recorded.get("system") not in (None, kernel):
        yield RerunDifference(what="the machine's system", before=str(recorded["system"]), now=kernel)


def _spec(run: Run, prepared: Prepared) -> Iterator[RerunDifference]:
    """Yield the fields, parameters, variables and directives of the two specs that differ."""
    if prepared.faults:  # there is no spec to compare; the submission is refused with the reasons
        return
    recorded, fresh = run.spec(), json.loads(json.dumps(prepared.spec.to_json()))
    before = _facts(recorded, str(run.home), run.scheduler)
    now = _facts(fresh, prepared.spec.run_dir, prepared.spec.scheduler)
    if run.index >= 0:  # its values stand in the command of the new run, and the recorded directives are an array's
        before = {name: text for name, text in before.items() if not name.startswith("--") and name != "command"}
        now = {name: text for name, text in now.items() if name in before}
    before |= _parameters(recorded) | {f"parameter {name}": value for name, value in runs.swept(run).items()}
    now |= _parameters(fresh)
    if run.tasks and recorded.get("sweep") != fresh.get("sweep"):
        yield RerunDifference(what="the sweep's values, or parameters derived from them, differ")
    for name in dict.fromkeys((*before, *now)):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was != is_now and name not in _FOLLOWING and not name.startswith(_APART):
            yield RerunDifference(what=name, before=shorten(was, _LONGEST), now=shorten(is_now, _LONGEST))


def _facts(spec: dict[str, Any], home: str, scheduler: str) -> dict[str, str]:
    """Return the compared facts of a spec by the name that is shown; variables and set-up lines one by one."""
    facts = spec_facts(spec, home, scheduler)
    found = {_shown_name(name): text for name, text in facts.items() if name not in ("environment", "steps")}
    found |= {f"variable {name}": text.replace(home, "RUN") for name, text in _pairs(spec.get("environment"))}
    steps = spec.get("steps")
    lines = [str(step.get("line")) for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return found | {f"set-up line {line.replace(home, 'RUN')}": "there" for line in lines}


def _shown_name(name: str) -> str:
    return name if name.startswith("--") else name.replace("layout.", "").replace("_", " ")


def _parameters(spec: dict[str, Any]) -> dict[str, str]:
    return {f"parameter {name}": value for name, value in _pairs(spec.get("parameters"))}


def _pairs(value: Any) -> list[tuple[str, str]]:
    members = value if isinstance(value, list) else []
    return [(str(pair[0]), str(pair[1])) for pair in members if isinstance(pair, list) and len(pair) == 2]


def _code(run: Run, prepared: Prepared) -> Iterator[RerunDifference]:
    """Yield what of the code was changed after the submission: the time of the request's file, which never changes."""
    code, submitted = prepared.spec.code, _time_of(run.home / REQUEST)
    if code.in_place:
        yield from _code_in_place(prepared, submitted)
        return
    if not code.recorded:
        return
    changed = [
        name for name in choose(code, prepared.case.code_folders).files if _time_of(Path(code.folder, name)) > submitted
    ]
    if changed:
        yield RerunDifference(
            what=f"the run's copy of its code was changed after its submission: {_name_some(changed)}"
        )


def _code_in_place(prepared: Prepared, submitted: float) -> Iterator[RerunDifference]:
    code = prepared.spec.code
    if not code.entry:  # a program of the site, such as a typed command
        yield RerunDifference(what="the program is not copied, and is used as it is now")
        return
    found = choose(code, prepared.case.code_folders)
    changed = [name for name in found.files if _time_of(Path(code.folder, name), entry=True) > submitted]
    place = f"the code is used in place, in {code.folder}"
    if found.is_part:
        yield RerunDifference(what=f"{place}, and is too much to compare with what it was")
    elif changed:
        yield RerunDifference(what=f"{place}, and was changed after the submission: {_name_some(changed)}")


def _data(run: Run, prepared: Prepared) -> Iterator[RerunDifference]:
    """Yield whether files or folders of the data set have changed since the run began.

    The time of an inode's change counts: a copy, a new name and a removed file show there, also with an old date.
    """
    need = prepared.spec.data
    if need is None or not need.folder:
        return
    place = found_layout(need) if need.layouts else Path(need.folder)
    if place is None or not place.exists():
        return
    began = _began(run)
    looked = list(islice(_entries(place), MOST_LOOKED_AT + 1))
    changed = [os.path.relpath(path, place.parent) for path in looked[:MOST_LOOKED_AT] if _time_of(path, True) > began]
    if changed:
        what = f"the data set {need.name} in {place} was changed after the run began: {_name_some(changed)}"
        yield RerunDifference(what=what)
    if len(looked) > MOST_LOOKED_AT:
        yield RerunDifference(
            what=f"of the data set {need.name} only {MOST_LOOKED_AT:,} files were compared with the run"
        )


def _entries(place: Path) -> Iterator[Path]:
    yield place
    for folder, folders, names in os.walk(place):
        yield from (Path(folder, name) for name in (*folders, *names))


def _began(run: Run) -> float:
    """Return when the last start of the run began; else when it was submitted."""
    starts = [_time_of(run.path / "attempts" / name / "started") for name in run.attempts()]
    return max(starts, default=0.0) or _time_of(run.home / REQUEST)


def _history(run: Run) -> Iterator[RerunDifference]:
    """Yield what of the run's own life is not repeated: restarts, another layout in between, an allocation."""
    if (run.home / "spec.1.json").exists():
        yield RerunDifference(
            what="the original changed options when it was resumed; the new run uses the final ones from the start"
        )
    starts = len(run.attempts())
    if starts > 1:
        what = f"the run continued from checkpoints in {starts} starts; the new one trains from its beginning"
        yield RerunDifference(what=what)
    if run.allocation:
        yield RerunDifference(what=f"the run was inside the allocation {run.allocation}; the new one is submitted")
    if set(map(str, run.spec().get("after") or ())) - SAME_NAME:
        yield RerunDifference(what="the run waited for others; the new one waits for none")


def _time_of(path: Path, entry: bool = False) -> float:
    """Return when a file was written; with ``entry`` when its inode changed last; 0 if it cannot be seen."""
    try:
        about = path.stat(follow_symlinks=False)
    except OSError:
        return 0.0
    return about.st_ctime if entry else about.st_mtime


def _name_some(names: Iterable[str], most: int = 3) -> str:
    found = list(names)
    more = f" and {count(len(found) - most, 'other')}" if len(found) > most else ""
    return ", ".join(found[:most]) + more
