"""The results of the studies of the reference documents: a table for every study, read by tables and pictures.

A study names its runs (CASE, SEED), runs those that have no row yet, and can be stopped and called again at any time.
A row of FOLDER/STUDY.csv holds what was run, when, on which machine, and those of the measured values that something
reads (kept.py); FOLDER/raw/STUDY/CASE-SEED.json holds all of them, and is not committed. Nothing is measured here.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import table
from kept import KEPT
from processor import processor

RESULTS = Path(__file__).parent / "results"
ANY = None
"""In place of a setting that a case leaves open."""
KEYS = ("case", "seed")
MACHINE, SETTINGS = "machine.", "settings."
"""How the names of these columns begin; the other columns are KEYS, the date, and measured values."""


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, and the versions of what computes."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in ("tensorflow", "horovod")}}
    versions["hpclaunch"] = own_version()
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


def own_version() -> str:
    """The version of this checkout, with its commit."""
    import hpclaunch

    command = ["git", "-C", str(Path(hpclaunch.__file__).parent), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return f"{hpclaunch.__version__} ({commit})" if commit else hpclaunch.__version__


@dataclass(frozen=True, kw_only=True)
class Result:
    """One finished run of a study.

    settings: what decides the outcome; a result with other settings than the case has today is made again.
    measured: name → value, units in the names (``seconds``, ``images_per_s``, accuracies in 0..1). machine: processor,
    cores and versions.
    """

    study: str
    case: str
    seed: int
    settings: Mapping[str, Any]
    measured: Mapping[str, Any]
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    machine: Mapping[str, Any] = field(default_factory=machine)


def path_of(study: str, folder: Path = RESULTS) -> Path:
    """The table of a study."""
    return folder / f"{study}.csv"


def raw_path_of(study: str, case: str, seed: int, folder: Path = RESULTS) -> Path:
    """The file of all that a run measured."""
    return folder / table.RAW / study / f"{case}-{seed}.json"


def write(result: Result, folder: Path = RESULTS) -> None:
    """Write all that was measured, then the row. A study that is stopped leaves no half of either."""
    path = raw_path_of(result.study, result.case, result.seed, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(result), indent=1) + "\n")
    new.rename(path)
    row = {"case": result.case, "seed": result.seed, "date": result.date, **kept_of(result)}
    row |= table.flat(result.machine, MACHINE) | table.flat(result.settings, SETTINGS)
    order = (*KEYS, "date", *KEPT.get(result.study, ()), "machine", "settings")
    table.put(path_of(result.study, folder), row, KEYS, order)


def kept_of(result: Result) -> table.Row:
    """The measured values that the study's table keeps."""
    measured, names = table.flat(result.measured), KEPT.get(result.study)
    if names is None:
        return measured
    return {name: value for name, value in measured.items() if any(table.is_within(name, one) for one in names)}


def read(study: str, case: str, seed: int, folder: Path = RESULTS) -> Result | None:
    """The result of a run as its table has it, or None if there is none yet."""
    return next((one for one in every(study, folder) if (one.case, one.seed) == (case, seed)), None)


def read_raw(study: str, case: str, seed: int, folder: Path = RESULTS) -> Result | None:
    """The result of a run with all that it measured, or None where it was not run in this checkout."""
    path = raw_path_of(study, case, seed, folder)
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
    return [_result(study, row) for row in table.read(path_of(study, folder))]


def _result(study: str, row: table.Row) -> Result:
    """A row of a study's table as a result."""
    others = {*KEYS, "date"}
    measured = {
        name: value for name, value in row.items() if name not in others and not name.startswith((MACHINE, SETTINGS))
    }
    return Result(
        study=study,
        case=row["case"],
        seed=row["seed"],
        settings=table.nested(row, SETTINGS),
        measured=table.nested(measured),
        date=row["date"],
        machine=table.nested(row, MACHINE),
    )


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
