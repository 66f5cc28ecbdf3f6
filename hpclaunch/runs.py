"""The run directory: create, read, list; what was submitted, and where its logs and metrics are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpclaunch.catalog import did_you_mean
from hpclaunch.errors import Fault, NotFound, Refused
from hpclaunch.snapshot import Snapshot, copy
from hpclaunch.spec import JobSpec

FINAL = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
)
RECORD = "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One submission. ``state`` is RENDERED until it is submitted, then as Slurm spells it, or UNKNOWN."""

    path: Path
    name: str
    site: str
    scheduler: str
    created: str
    state: str = "RENDERED"
    job_id: str = ""
    exit_code: str = ""
    reason: str = ""
    host: str = ""
    git: str = ""
    submission: str = ""

    @property
    def final(self) -> bool:
        """Whether the state can no longer change."""
        return self.state in FINAL

    @property
    def script(self) -> Path:
        """The file that was submitted."""
        return self.path / "job.sh"

    def logs(self) -> list[Path]:
        """Return the log files of all attempts, oldest first."""
        return sorted((self.path / "logs").glob("*.out"), key=lambda path: path.stat().st_mtime)

    def metrics(self) -> list[dict[str, Any]]:
        """Return what the ranks wrote to metrics.jsonl; a line that is still being written is left out."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return [event for event in map(_json_object, lines) if event]

    def exit_codes(self) -> dict[str, int]:
        """Return attempt -> the script's exit code, from the marks that the script leaves in the run directory."""
        codes = {}
        for path in sorted((self.path / "attempts").glob("*/exit-code")):
            text = path.read_text(encoding="utf-8").strip()
            if text.isdigit():
                codes[path.parent.name] = int(text)
        return codes

    def as_started_by_hand(self) -> Run:
        """Return the run under the job that a person last started from its script; a submitted one as it is."""
        if self.submission == "hpclaunch":
            return self
        marks = sorted((self.path / "attempts").glob("*/started"), key=lambda path: path.stat().st_mtime)
        newest = marks[-1].parent.name.rpartition(".")[0] if marks else ""
        if newest in ("", self.job_id):
            return self
        return replace(self, job_id=newest, state="UNKNOWN", exit_code="", submission="by hand")

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values, with the paths a program would want."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return {"run": self.path.name, "run_dir": str(self.path), **fields}


_FIELDS = (
    "name",
    "site",
    "scheduler",
    "created",
    "state",
    "job_id",
    "exit_code",
    "reason",
    "host",
    "git",
    "submission",
)


def create(spec: JobSpec, text: str, snapshot: Snapshot, host: str, index: Path) -> Run:
    """Write the run directory (mode 0700): code, script, spec, record; the index is told first, so no run is lost.

    Raises Refused if it exists or cannot be written; what was begun is then left for a person to look at.
    """
    path = Path(spec.run_dir)
    _remember(index, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        for folder in ("code", "logs", "attempts", "checkpoints"):
            (path / folder).mkdir()
        copy(snapshot, path / "code")
        write_text(path / "job.sh", text)
        if spec.hosts:
            write_text(path / "hosts", "".join(f"{line}\n" for line in spec.hosts))
        write_text(path / "spec.json", json.dumps(spec.to_json(), indent=2) + "\n")
    except FileExistsError:
        raise Refused(Fault(where=str(path), what="this run directory exists already", next="try again")) from None
    except OSError as error:
        raise Refused(
            Fault(
                where=str(path), what=f"the run directory cannot be written: {error.strerror}", next="--runs-dir FOLDER"
            )
        ) from None
    run = Run(
        path=path,
        name=spec.name,
        site=spec.site,
        scheduler=spec.scheduler,
        created=spec.created,
        host=host,
        git=_git_state(Path(spec.code.folder)),
    )
    return save(run)


def submitted(run: Run, job_id: str) -> Run:
    """Record that the scheduler accepted the run."""
    state = "PENDING" if run.scheduler == "slurm" else "RUNNING"
    return save(replace(run, job_id=job_id, state=state, submission="hpclaunch"))


def save(run: Run) -> Run:
    """Write the record atomically and return the run."""
    write_text(run.path / RECORD, json.dumps(run.to_json(), indent=2) + "\n")
    return run


def load(path: Path) -> Run:
    """Return the run in that directory. Raises NotFound if there is none, or if its record cannot be read."""
    try:
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        return Run(path=path, **{name: str(record[name]) for name in _FIELDS if name in record})
    except FileNotFoundError:
        raise NotFound(Fault(where=str(path), what="is not a run directory", next="hpclaunch status")) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotFound(Fault(where=str(path / RECORD), what=f"the record cannot be read: {error}")) from None


def known(index: Path) -> list[Run]:
    """Return the runs in the index that still exist, newest first."""
    runs = []
    for path in reversed(_indexed(index)):
        try:
            runs.append(load(path))
        except NotFound:
            continue
    return sorted(runs, key=lambda run: run.created, reverse=True)


def find(index: Path, name: str | None) -> Run:
    """Return a run by path, by its directory's name, by job id, or (None) the newest one. Raises NotFound."""
    if name and (os.sep in name or Path(name, RECORD).is_file()):
        return load(Path(name).resolve())
    runs = known(index)
    if not name and runs:
        return runs[0]
    matches = [run for run in runs if name in (run.path.name, run.job_id)]
    if matches:
        return matches[0]
    near = did_you_mean(name or "", [run.path.name for run in runs])
    what = f"no run is called {name!r}{near}" if name else "there is no run yet"
    raise NotFound(Fault(what=what, next="hpclaunch status" if runs else "hpclaunch submit JOB"))


def index_file(environment: Mapping[str, str]) -> Path:
    """Return the file that lists run directories (XDG base directory specification: state)."""
    home = Path(environment.get("HOME") or os.path.expanduser("~"))
    return Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state") / "hpclaunch" / "runs.txt"


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or the old one. Undecodable bytes of typed text are kept."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _remember(index: Path, path: Path) -> None:
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        with open(index, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{path}\n")
    except OSError as error:
        what = f"the list of runs cannot be written: {error.strerror}"
        raise Refused(Fault(where=str(index), what=what, next="set XDG_STATE_HOME to a folder of yours")) from None


def _indexed(index: Path) -> list[Path]:
    try:
        lines = index.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    return [Path(line) for line in dict.fromkeys(lines) if line]


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _git_state(folder: Path) -> str:
    """Return the commit of the code, with ``+changes`` where files differ from it, or nothing outside a repository."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return f"{commit}+changes" if commit and _git(folder, "status", "--porcelain", "--", ".") else commit
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
