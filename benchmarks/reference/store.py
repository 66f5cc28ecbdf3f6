"""One JSON file for every finished run of a study of the reference documents, read by tables and pictures.

A study names its runs (CASE-SEED), runs those that have no file yet, and can be stopped and called again at any time.
Each file holds what was run, when, on which machine, and what was measured. Nothing is measured here.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from processor import processor

RESULTS = Path(__file__).parent / "results"
ANY = None
"""In place of a setting that a case leaves open."""


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, and the versions of what computes."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in ("tensorflow", "horovod")}}
    return {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "versions": versions}


def version(distribution: str) -> str:
    """The version of an installed distribution, however its name ends (tensorflow-cpu); empty if there is none."""
    from importlib import metadata

    for name in (distribution, f"{distribution}-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One finished run of a study.

    settings: what decides the outcome; a result with other settings than the case has today is made again.
    measured: name → value, units in the names (``seconds``, ``images_per_s``, accuracies in 0..1). machine: processor,
    cores and versions; load_average: over the last 15 minutes when the run
    ended; the run's own threads count.
    """

    study: str
    case: str
    seed: int
    settings: Mapping[str, Any]
    measured: Mapping[str, Any]
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    machine: Mapping[str, Any] = field(default_factory=machine)
    load_average: float = field(default_factory=lambda: round(os.getloadavg()[2], 1))


def path_of(study: str, case: str, seed: int, folder: Path = RESULTS) -> Path:
    return folder / study / f"{case}-{seed}.json"


def write(result: Result, folder: Path = RESULTS) -> None:
    """Write the file in one go: a study that is stopped leaves no half of one."""
    path = path_of(result.study, result.case, result.seed, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(result), indent=1) + "\n")
    new.rename(path)


def read(study: str, case: str, seed: int, folder: Path = RESULTS) -> Result | None:
    """The result of a run, or None if there is none yet."""
    path = path_of(study, case, seed, folder)
    return Result(**json.loads(path.read_text())) if path.exists() else None


def finished(study: str, case: str, seed: int, settings: Mapping[str, Any], folder: Path = RESULTS) -> Result | None:
    """The result of a run with these settings; None if there is none, or one with other settings."""
    found = read(study, case, seed, folder)
    return found if found is not None and found.settings == json.loads(json.dumps(settings)) else None


def all_finished(study: str, runs: Iterable[tuple[str, int, Mapping[str, Any]]], folder: Path = RESULTS) -> bool:
    """Whether every run (case, seed, settings) has its result."""
    return all(finished(study, case, seed, settings, folder) for case, seed, settings in runs)


def every(study: str, folder: Path = RESULTS) -> list[Result]:
    """All results of a study, in the order of their names."""
    return [Result(**json.loads(path.read_text())) for path in sorted((folder / study).glob("*.json"))]


def by_case(study: str, folder: Path = RESULTS) -> dict[str, list[Result]]:
    """All results of a study by their case, the seeds in their order."""
    found: dict[str, list[Result]] = {}
    for result in sorted(every(study, folder), key=lambda one: one.seed):
        found.setdefault(result.case, []).append(result)
    return found


def with_settings(
    study: str, wanted: Mapping[str, Mapping[str, Any]], folder: Path = RESULTS
) -> dict[str, list[Result]]:
    """The results of every case that has some with the settings that are wanted of it; the seeds in their order.

    What a case leaves open (ANY) is as in the first of its results; those that differ in it are left out.
    """
    every_case, found = by_case(study, folder), {}
    for case, settings in wanted.items():
        stored = json.loads(json.dumps(settings))
        of_today = [one for one in every_case.get(case, ()) if fits(one.settings, stored)]
        if of_today:
            found[case] = [one for one in of_today if one.settings == of_today[0].settings]
    return found


def fits(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the settings of a result are those that are wanted, where these are not open."""
    return settings.keys() == wanted.keys() and all(
        value is ANY or settings[name] == value for name, value in wanted.items()
    )


def once(
    study: str,
    case: str,
    seed: int,
    settings: Mapping[str, Any],
    measure: Callable[[], Mapping[str, Any]],
    folder: Path = RESULTS,
) -> Result:
    """The result of a run with these settings: the one that is there, or a new one, which is written."""
    found = finished(study, case, seed, settings, folder)
    if found is None:
        found = Result(study=study, case=case, seed=seed, settings=settings, measured=measure())
        write(found, folder)
    return found


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the lock of a study's folder, which is made. Ends the program if another study holds it."""
    make_folder(out, "--out")
    with (out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another study is running with --out {out}") from None
        yield


def make_folder(folder: Path, flag: str) -> None:
    """Make a folder. Ends the program with 1 and one error, which names the flag, if that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fault = f"{flag} {folder}: the folder cannot be made: {error.strerror}"
        raise SystemExit(f"{Path(sys.argv[0]).stem}: {fault}\n  next: name another folder with {flag}") from None


def say_all_finished(runs: int, folder: Path) -> None:
    """Print that a study has nothing to run, and how its runs can be made again."""
    what = "the run has its result" if runs == 1 else f"all {runs} runs have results"
    again = "it" if runs == 1 else "them"
    print(f"{what} in {folder}; --results NEWFOLDER runs {again} again", flush=True)


def say(text: str) -> None:
    """Print a line of progress with the time of day."""
    print(time.strftime("%H:%M:%S ") + text, flush=True)
