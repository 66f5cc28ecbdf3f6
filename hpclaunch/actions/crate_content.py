"""What an RO-Crate of a run contains: its files, without folders of the machine unless asked, and facts about it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hpclaunch import runs
from hpclaunch.actions.inspect import MODEL
from hpclaunch.actions.recorded_times import times_of
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.files import json_object, read_text
from hpclaunch.reports.exports.crate import (
    CODE,
    METADATA,
    METRICS,
    README,
    SCRIPT,
    CrateFile,
    RunFacts,
    metadata_of,
    readme_of,
)
from hpclaunch.reports.exports.private_paths import PrivatePaths, private_paths
from hpclaunch.runs import Run, training_library

_LARGEST_TEXT = 64 * 2**20
"""Bytes; a larger log or file of metrics is left out: it is searched for folders of the machine as a whole."""
_LAYOUT = ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node")


def facts_of(run: Run, license: str, with_paths: bool) -> RunFacts:
    """Return what the record says of a run. Raises Refused for a run without spec.json or script."""
    spec = run.spec()
    if not spec or not run.script.is_file():
        what = f"{run.label} has no spec.json and job.sh that can be read, so its crate would have no workflow"
        raise Refused(Fault(where=str(run.home), what=what, next="choose another run: hpclaunch runs list"))
    names = _names_for(run) if not with_paths else private_paths({})
    began, ended = _times(run)
    layout = spec.get("layout")
    sizes = {key: str(layout[key]) for key in _LAYOUT if layout.get(key)} if isinstance(layout, dict) else {}
    command = spec.get("command")
    words = " ".join(map(str, command)) if isinstance(command, list) else ""
    parameters = {**run.parameters(), **runs.swept(run)}
    return RunFacts(
        label=run.label,
        job=run.name,
        site=run.site,
        state=run.state,
        error=names.without(run.reason or (f"exit code {run.exit_code}" if run.exit_code else "")),
        user=run.user,
        command=names.without(words),
        began=began,
        ended=ended,
        version=str(spec.get("version", "")),
        license=license,
        parameters={name: names.without(value) for name, value in parameters.items()},
        layout={name: value for name, value in sizes.items() if name not in parameters},
        data=_data_of(run, spec),
        replaced=names.meanings,
    )


def _times(run: Run) -> tuple[str, str]:
    began, ended = (datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="seconds") for when in times_of(run))
    return (began if run.attempts() else "", ended)


def _data_of(run: Run, spec: dict[str, Any]) -> tuple[str, str] | None:
    """Return the name of the data set and its fingerprint, which the training library writes at the start."""
    start = next((event for event in run.metrics() if event.get("event") == "start"), {})
    told, need = start.get("data"), spec.get("data")
    fingerprint = str(told.get("fingerprint", "")) if isinstance(told, dict) else ""
    if isinstance(need, dict) and need.get("name"):
        return str(need["name"]), fingerprint
    return (f"data of {run.name}", fingerprint) if fingerprint else None


def _names_for(run: Run) -> PrivatePaths:
    """Return the folders of the machine that the record names."""
    spec, environment = run.spec(), json_object(read_text(run.home / "environment.json"))
    data, code = spec.get("data"), spec.get("code")
    found = {
        "RUN": (str(run.home), "the run directory"),
        "DATA": (str(data.get("folder", "")) if isinstance(data, dict) else "", "the folder of the data set"),
        "CODE": (str(code.get("folder", "")) if isinstance(code, dict) else "", "the folder that the code comes from"),
        "PYTHON": (os.path.dirname(str(environment.get("python", ""))), "the folder of the Python that ran hpclaunch"),
        "SOFTWARE": (str(spec.get("python_folder", "")), "the environment of the ranks"),
        "PROJECT": (str(environment.get("folder", "")), "the folder where the run was submitted"),
        "RUNS": (str(run.home.parent), "the folder of run directories"),
        "HOME": (os.path.expanduser("~"), "the home folder"),
    }
    return private_paths(found)


def crate_files(run: Run, facts: RunFacts, with_paths: bool) -> dict[str, bytes | Path]:
    """Return path -> content of the crate's files, sorted, with its metadata first; the same for the same run."""
    names = private_paths({}) if with_paths else _names_for(run)
    found = dict(_records(run, names))
    changed = {path for path, content in found.items() if isinstance(content, bytes)}
    found |= dict(_folder(run.home / "code", CODE, left_out=_library(run.home / "code")))
    found |= dict(_folder(run.path / MODEL, f"{MODEL}/"))
    found[README] = readme_of(facts).encode()
    described = [
        CrateFile(path=path, size=_size(found[path]), sha256=_sha256(found[path]), changed=path in changed)
        for path in sorted(found)
    ]
    return {METADATA: metadata_of(facts, described).encode(), **{path: found[path] for path in sorted(found)}}


def _records(run: Run, names: PrivatePaths) -> Iterator[tuple[str, bytes | Path]]:
    """Yield the script, its library, the records and the logs; as bytes if folders in them were replaced."""
    places = [(SCRIPT, run.script)]
    places += [(name, run.home / name) for name in ("hpclaunch.sh", "sampler.py", "spec.json", "environment.json")]
    places += [(METRICS, run.path / METRICS), *((f"logs/{path.name}", path) for path in run.logs())]
    places += [(f"logs/{path.name}", path) for path in sorted((run.path / "logs").glob("rank-*.out"))]
    for name, path in places:
        if not path.is_file() or path.stat().st_size > _LARGEST_TEXT:
            continue
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
        if name == "environment.json":
            text = _leave_out_host(text, names)
        public = names.without(text)
        yield name, path if public == text and name != "environment.json" else public.encode("utf-8", "surrogateescape")


def _leave_out_host(text: str, names: PrivatePaths) -> str:
    """Return environment.json; without the host's name if the machine's folders are left out as well."""
    values = json_object(text) if names.names else {}
    if not values:
        return text
    return json.dumps({key: value for key, value in values.items() if key != "host"}, indent=2) + "\n"


def _folder(folder: Path, name: str, left_out: str = "") -> Iterator[tuple[str, bytes | Path]]:
    """Yield the regular files below a folder; links are left out, because they may lead out of it."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for file in sorted(files):
            path = Path(place, file)
            relative = path.relative_to(folder).as_posix()
            inside = not (left_out and relative.startswith(left_out))
            if inside and path.is_file() and not path.is_symlink():
                yield f"{name}{relative}", path


def _library(code: Path) -> str:
    """Return the folder of hpclaunch's own training library in a copy of code; empty for a folder of the user's."""
    return f"{training_library.FOLDER}/" if training_library.has_library(code) else ""


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    with open(content, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
