"""Whether the modules of a run are known to be gone on this login node; it asks ``module`` once, for a second at most.

What is not known refuses nothing: the script looks again before it starts the ranks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpclaunch.core.errors import Fault
from hpclaunch.core.files import read_text
from hpclaunch.core.folders import cache_folder
from hpclaunch.core.spec import JobSpec

_PATIENCE_S = 1.0
_KEPT_S = 24 * 3600
"""How long an answer is kept, also that nothing is known."""
_LOAD = "module load "
_ASK = """
declare -F module > /dev/null || source "$MODULESHOME/init/bash" > /dev/null 2>&1 || exit 1
while printf 'asked %s\\n' "$1" && module --terse avail "${1%/*}" 2>&1; [ $# -gt 1 ]; do
  module load "$1" > /dev/null 2>&1 || exit 1 # it may bring the next
  shift
done
"""
_MOST_NAMED = 4
_WORDS = re.compile(r"(?:[\w.,:/+@=-]|'[^']*'|\s)+")
"""Names of modules as a line has them, and nothing else that bash would do."""


def modules_of(spec: JobSpec) -> list[str]:
    """Return the modules that the script loads by lines of its own, in their order."""
    names = [step.line.removeprefix(_LOAD) for step in spec.steps if step.line.startswith(_LOAD)]
    return [name for words in names if _WORDS.fullmatch(words) for name in shlex.split(words)]


def gone_modules(spec: JobSpec, environment: Mapping[str, str], now: float | None = None) -> list[Fault]:
    """Return why a run cannot load its modules: one of which this node has other versions only.

    A module of which it has none is no fault: it may be one that another module brings.
    """
    names = modules_of(spec)
    has_module = "BASH_FUNC_module%%" in environment or environment.get("MODULESHOME")
    if not any("/" in name for name in names) or not has_module:
        return []
    for name, listed in _answers(names, environment, time.time() if now is None else now):
        versions = [one for one in listed if one.startswith(f"{name.rpartition('/')[0]}/")]
        if "/" not in name or not versions or any(_is_version(one, name) for one in versions):
            continue
        what = f"this node has no module {name}, which the script loads"
        next_step = f"--module {shlex.quote(versions[-1])}; or --accept-unverified, if the nodes of the job have it"
        return [Fault(where="modules", what=what, allowed=", ".join(versions[-_MOST_NAMED:]), next=next_step)]
    return []


def _is_version(listed: str, name: str) -> bool:
    """Whether a module that is listed is the one of that name: perhaps with a mark, or as one of its versions."""
    return listed == name or listed.startswith((f"{name}/", f"{name}.", f"{name}-"))


def _answers(names: Sequence[str], environment: Mapping[str, str], now: float) -> list[tuple[str, list[str]]]:
    """Return (module, what is listed beside it) for all that ``module`` was asked for, from the cache if possible."""
    told = {name: environment.get(name, "") for name in ("MODULEPATH", "LOADEDMODULES", "MODULESHOME")}
    key = hashlib.sha256(json.dumps([list(names), told]).encode()).hexdigest()[:32]
    path = cache_folder(environment) / "modules" / f"{key}.txt"
    try:
        text = read_text(path) if now - path.stat().st_mtime < _KEPT_S else None
    except (OSError, ValueError):
        text = None
    if text is None:
        text = _ask(names, environment)
        _keep(path, text)
    return _listed_in(text)


def _ask(names: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what ``module`` prints; nothing if it takes too long."""
    import subprocess

    try:
        done = subprocess.run(
            ["bash", "-c", _ASK, "bash", *names],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _keep(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        return  # it is asked again


def _listed_in(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("asked "):
            found.append((line.removeprefix("asked "), []))
        elif found and line.strip() and not line.rstrip().endswith(":"):
            found[-1][1].append(line.strip().partition("(")[0].rstrip("/"))
    return found
