"""Makes volumes of matter with known cosmological parameters, as the job cosmoflow reads them.

python simulate.py --folder=FOLDER makes all files. As an array, each run makes its own:
hpclaunch submit universes --set folder=FOLDER --set parts=12 --sweep part=0..11
A run that is repeated makes the files that are missing. It needs NumPy and camb, and no TensorFlow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from typing import Any, Callable, NamedTuple

from hpclaunch.training import options

RECORD = "universes.json"  # what the folder's volumes are made from; jobs/cosmoflow reads it, too
DATA_NAME = "cosmoflow"  # the folder of the data set in a data folder


class Refused(Exception):
    """A fault of the request or of this machine, with the next step."""


class File(NamedTuple):
    """One file of volumes: its name, and the numbers of its universes, which no other file has."""

    name: str
    numbers: range


def files(train: int, validation: int, per_file: int) -> list[File]:
    """All files of a data set. Universes are numbered from 0; those for the validation come last."""
    found = []
    for split, begin, count in (("train", 0, train), ("validation", train, validation)):
        for first in range(0, count, per_file):
            numbers = range(begin + first, begin + min(count, first + per_file))
            found.append(File("{}-{:05d}.tfrecord".format(split, first // per_file), numbers))
    return found


def make(asked: argparse.Namespace, say: Callable[[str], None]) -> list[str]:
    """Make the missing files of this part, one after the other; returns their paths. Raises Refused, OSError.

    A file gets its name when it is complete. `say` gets a line for each.
    """
    _check(asked)
    folder = os.path.join(os.path.abspath(asked.folder), DATA_NAME)
    os.makedirs(folder, exist_ok=True)
    expected = files(asked.train, asked.validation, asked.per_file)
    _agree(folder, _settings(asked, expected))
    mine = expected[asked.part :: asked.parts]
    missing = [file for file in mine if not os.path.exists(os.path.join(folder, file.name))]
    say("{} of {} files to make in {}".format(len(missing), len(mine), folder))
    for file in missing:
        _make_file(folder, file, asked)
        say("{}: {} volumes".format(file.name, len(file.numbers)))
    return [os.path.join(folder, file.name) for file in missing]


def _check(asked: argparse.Namespace) -> None:
    if not asked.folder:
        raise Refused("no folder for the volumes\n  next: --set folder=FOLDER (by hand: --folder=FOLDER)")
    if asked.part >= asked.parts:
        what = "part {} of {} parts: parts are numbered from 0 to {}"
        raise Refused(
            what.format(asked.part, asked.parts, asked.parts - 1)
            + "\n  next: --set parts=N --sweep part=0..N-1, with the same N"
        )
    try:
        import camb  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as error:
        raise Refused(
            "{} cannot make volumes: {}\n  next: {} -m pip install camb (it brings NumPy and SciPy), or name a Python "
            "that has it with --venv, --conda or --python".format(sys.executable, error, sys.executable)
        ) from None


def _settings(asked: argparse.Namespace, expected: list[File]) -> dict[str, Any]:
    """What determines the data set, and the names of its files."""
    import universe

    ranges = [{"name": name, "low": low, "high": high} for name, (low, high) in zip(universe.NAMES, universe.RANGES)]
    return {
        "seed": asked.seed,
        "volume_size": asked.volume_size,
        "voxel_mpc_h": asked.voxel,
        "train": asked.train,
        "validation": asked.validation,
        "redshifts": list(universe.REDSHIFTS),
        "particles_per_voxel": universe.PARTICLES**3,
        "targets": ranges,
        "files": {file.name: len(file.numbers) for file in expected},
    }


def _agree(folder: str, settings: dict[str, Any]) -> None:
    """Record the settings, or compare them with those of the run that was first. Raises Refused if they differ."""
    path = os.path.join(folder, RECORD)
    if not os.path.exists(path):
        _write(path, lambda file: file.write(json.dumps(settings, indent=1).encode()), keep_other=True)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    differ = [name for name, value in settings.items() if found.get(name) != value]
    if differ:
        raise Refused(
            "{}: these volumes are made with another {}\n  next: name another folder, or remove this one".format(
                path, ", ".join(differ)
            )
        )


def _make_file(folder: str, file: File, asked: argparse.Namespace) -> None:
    """Write one file of volumes; before it its parameters, as train-00000.json for train-00000.tfrecord."""
    import camb
    import numpy as np
    import records
    import universe

    drawn = {}

    def fill(target: Any) -> None:
        for number in file.numbers:
            volume, parameters = universe.volume_of(asked.seed, number, asked.volume_size, asked.voxel)
            drawn[number] = dict(zip(universe.NAMES, parameters.tolist()))
            records.write_record(target, records.example(volume.tobytes(), universe.scaled(parameters)))

    def describe(target: Any) -> None:
        about = {"camb": camb.__version__, "numpy": np.__version__, "seed": asked.seed, "universes": drawn}
        target.write(json.dumps(about, indent=1).encode())

    path = os.path.join(folder, file.name)
    _write(path, fill, before=lambda: _write(os.path.splitext(path)[0] + ".json", describe))


def _write(
    path: str,
    fill: Callable[[Any], Any],
    before: Callable[[], None] | None = None,
    keep_other: bool = False,
) -> None:
    """Write a file that appears under its name when it is complete. before: is called just before that.

    keep_other: a file that another run has written in the meantime stays. What killed runs have left of this file is
    removed. A run that writes the same file at the same time loses its copy by that, and needs it no more.
    """
    folder, name = os.path.split(path)
    stem, kind = os.path.splitext(name)
    # No name of a TFRecord file: a run that is killed leaves this file, and no reader may take it for data.
    begin = ".partial-{}-{}-".format(kind.lstrip("."), stem)
    place, partial = tempfile.mkstemp(prefix=begin, dir=folder)
    try:
        with os.fdopen(place, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        _appear(partial, path, before, keep_other)
    finally:
        _remove(partial)
    for other in os.listdir(folder):
        if other.startswith(begin):
            _remove(os.path.join(folder, other))


def _appear(partial: str, path: str, before: Callable[[], None] | None, keep_other: bool) -> None:
    """Give a complete file its name, unless another run has written it and removed this copy."""
    try:
        os.chmod(partial, 0o666 & ~_umask())
        if before:
            before()
        if not keep_other:
            os.replace(partial, path)
        elif not os.path.exists(path):
            os.link(partial, path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        if not os.path.exists(path):
            raise


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


if __name__ == "__main__":
    typed, _ = options.parse(options.job_parser("Makes volumes with known cosmological parameters.", __file__))
    try:
        make(typed, lambda line: print(line, flush=True))
    except (Refused, OSError) as fault:
        sys.exit("universes: {}".format(fault))
