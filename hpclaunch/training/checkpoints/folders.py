"""Checkpoints as folders that are complete or do not exist: written aside, checked by SHA-256, renamed into place.

CHECKPOINTS/step-00000120-start-2/, which start 2 of the run has written after 120 steps in all, contains `shared.npz`
(state that all ranks share, written by rank 0), `rank-0003.npz` (state of rank 3 alone, or of copy 3 of a model that
several ranks share), `part-0003.npz` (what the ranks with part 3 of such a model hold of it), and `checkpoint.json`
with the facts of the training, size and SHA-256 of every file, and a SHA-256 of itself. No function here communicates
with other ranks; writing.py decides which rank calls which function, and when.

Checkpoints are ordered by (start, step). A superseded start may still be writing (rank.fence). So no two starts write
to the same names, and a checkpoint that such a start completes late does not count (Lineage).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
from dataclasses import dataclass, field
from typing import IO, Any, Iterable, Iterator, Mapping

import numpy as np
from numpy.lib import format as npy

from hpclaunch.training.input import npz_members
from hpclaunch.training.rank.failure import TrainingError, leave_if_superseded

FORMAT = 4
READABLE = (1, 2, 3, FORMAT)  # format 1 has all variables that are not trained in the ranks' own files
WITH_DIGEST = 4  # from this format on the manifest has a SHA-256 of itself
SHARED = "shared.npz"
MANIFEST = "checkpoint.json"
LARGEST_MANIFEST = 16 * 2**20  # bytes; 100,000 ranks need 11 million
MOST_REASON = 300  # characters of an error, which may quote a file
_NAME = re.compile(r"^step-(\d{8,18})(?:-start-([1-9]\d{0,8}))?$")
_PARTIAL = re.compile(r"^\.partial-(\d{8,18})(?:-start-([1-9]\d{0,8}))?$")
_FILE = re.compile(r"^(shared|rank-\d{4,9}|part-\d{4})\.npz$")
_BLOCK = 2**20


def own_file(rank: int) -> str:
    """The name of the file with the state of `rank` alone."""
    return "rank-{:04d}.npz".format(rank)


def part_file(index: int) -> str:
    """The name of the file with part `index` of the variables that several ranks share."""
    return "part-{:04d}.npz".format(index)


@dataclass(frozen=True)
class Lineage:
    """Which checkpoints of a folder led to the present state of a training.

    They are those of `start`, the number of the present start (0: a program without a script), and those of each start
    in `earlier` up to the given step, from which a later start has continued.
    """

    start: int = 0
    earlier: Mapping[int, int] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether the checkpoint `path` is one of them."""
        start, step = order_of(path)
        return start == self.start or step <= self.earlier.get(start, -1)


ALONE = Lineage()


def order_of(path: str) -> tuple[int, int]:
    """(start, step) of a checkpoint, by its name: the start that wrote it, and the steps since the beginning."""
    found = _NAME.match(os.path.basename(path))
    if found is None:
        raise ValueError("{} is not the name of a checkpoint".format(path))
    return int(found.group(2) or 0), int(found.group(1))


def path_of(folder: str, step: int, start: int = 0) -> str:
    """The path of the checkpoint of `step` (steps since the beginning) that `start` writes."""
    return os.path.join(folder, "step-" + _suffix(step, start))


def partial_of(folder: str, step: int, start: int = 0) -> str:
    """The path at which `start` writes this checkpoint, until it is complete."""
    return os.path.join(folder, ".partial-" + _suffix(step, start))


def _suffix(step: int, start: int) -> str:
    return "{:08d}".format(step) + ("-start-{}".format(start) if start else "")


def begin(folder: str, step: int, start: int = 0) -> str:
    """Make the folder in which `start` writes the checkpoint of `step` (as path_of); returns its path."""
    leave_if_superseded()
    partial = partial_of(folder, step, start)
    try:
        os.makedirs(folder, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        os.mkdir(partial)
    except OSError as error:
        raise TrainingError(failure_text(partial, folder, error)) from error
    return partial


def write(partial: str, name: str, arrays: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Write named arrays to a file of the checkpoint, and wait for the disk; returns {"name", "bytes", "sha256"}.

    Raises TrainingError if there is no space; existing checkpoints stay unchanged.
    """
    leave_if_superseded()
    path = os.path.join(partial, name)
    try:
        with open(path, "wb") as file:
            write_arrays(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        return {"name": name, "bytes": os.path.getsize(path), "sha256": sha256_of(path)}
    except OSError as error:
        raise TrainingError(failure_text(path, os.path.dirname(partial), error)) from error


def write_arrays(file: IO[bytes], arrays: Iterable[tuple[str, Any]]) -> None:
    """Write the same file as np.savez, which would leave its archive open on a full disk, so that Python warns.

    arrays: with their names; each is taken when the one before is written.
    """
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays:
            with archive.open(name + ".npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)


def commit(
    partial: str,
    step: int,
    files: list[dict[str, Any]],
    facts: Mapping[str, Any],
    keep: int,
    lineage: Lineage = ALONE,
) -> str:
    """Rename the complete checkpoint to its name, and remove all but the newest `keep`; returns its path.

    files: the results of `write` from all ranks. facts: values for JSON, which `facts_of` reads again. The checkpoint
    of the best epoch that they name is not removed. lineage: what led to this checkpoint; nothing else is removed.
    """
    folder = os.path.dirname(partial)
    path = path_of(folder, step, lineage.start)
    try:
        with open(os.path.join(partial, MANIFEST), "w", encoding="utf-8") as file:
            earlier = {"earlier_starts": {str(start): last for start, last in lineage.earlier.items()}}
            file.write(manifest_text({"format": FORMAT, "step": step, "files": files, **facts, **earlier}))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(partial)
        set_aside(path)  # of the same step: from an abandoned attempt, or damaged
        leave_if_superseded()
        os.rename(partial, path)
        sync_folder(folder)
    except OSError as error:
        raise TrainingError(failure_text(path, folder, error)) from error
    best = (facts.get("epochs") or {}).get("best")
    _prune(folder, keep, best["step"] if best else 0, lineage)
    return path


def manifest_text(facts: Mapping[str, Any]) -> str:
    """The text of a manifest: the facts (values for JSON), with the SHA-256 of them all under "sha256"."""
    return json.dumps({**facts, "sha256": _digest(facts)}, indent=2) + "\n"


def _digest(facts: Mapping[str, Any]) -> str:
    # As JSON gives them back: numbers among the keys have become text.
    told = json.loads(json.dumps({name: value for name, value in facts.items() if name != "sha256"}))
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8")).hexdigest()


def _prune(folder: str, keep: int, best: int, lineage: Lineage) -> None:
    """Remove old checkpoints of the lineage but the newest `keep` and that of step `best` (0: none).

    Those of a later start stay, whatever their steps. A superseded start may not remove anything at all: the later one
    may be reading its checkpoints.
    """
    leave_if_superseded()
    counting = [path for path in existing(folder) if lineage.has(path)]
    spared = of_step(counting, best) if best else ""
    for old in counting[keep:]:
        if old != spared:
            shutil.rmtree(old, ignore_errors=True)
    for name in os.listdir(folder):  # what starts up to this one have not completed
        found = _PARTIAL.match(name)
        if found and int(found.group(2) or 0) <= lineage.start:
            abandon(os.path.join(folder, name))
    set_late_aside(folder, lineage)


def of_step(paths: Iterable[str], step: int) -> str:
    """Of these checkpoints, newest first, the newest one of `step`; empty if there is none."""
    return next((path for path in paths if order_of(path)[1] == step), "")


def set_late_aside(folder: str, lineage: Lineage) -> None:
    """Rename checkpoints that earlier starts have completed after a later one had continued from another (`set_aside`).

    They are sound, but the later start has gone on without them: the log of their steps is not in metrics.jsonl.
    """
    for path in existing(folder):
        start = order_of(path)[0]
        if start < lineage.start and not lineage.has(path):
            print(
                "checkpoint {} is not used: start {} completed it after a later start had taken the run over; it is "
                "renamed to unused-{}".format(path, start, os.path.basename(path)),
                flush=True,
            )
            set_aside(path)


def abandon(partial: str) -> None:
    """Remove the folder of an unfinished checkpoint, if it exists."""
    shutil.rmtree(partial, ignore_errors=True)


def existing(folder: str) -> list[str]:
    """Paths of the checkpoints in `folder`, the newest first: by start, those of one start by step."""
    try:
        names = [name for name in os.listdir(folder) if _NAME.match(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in sorted(names, key=order_of, reverse=True)]


class NewerFormat(TrainingError):
    """The checkpoint is of a newer version of hpclaunch: it is no damaged one, and nothing may be changed."""

    def __init__(self, path: str, number: int, known: int) -> None:
        super().__init__(
            "{} has format {}, of a newer version of hpclaunch; this one reads formats up to {}. Nothing was changed: "
            "resume with the newer version, or start from the beginning (--resume=false, or another run)".format(
                path, number, known
            )
        )


def facts_of(path: str) -> dict[str, Any]:
    """The facts given to `commit`, with step and files; raises TrainingError if the checkpoint is damaged.

    Raises NewerFormat if a newer version has written it, whose facts may have any form.
    """
    manifest = os.path.join(path, MANIFEST)
    try:
        if not os.path.isfile(manifest) or os.path.getsize(manifest) > LARGEST_MANIFEST:
            raise ValueError("it is no file, or larger than {} MiB".format(LARGEST_MANIFEST // 2**20))
        with open(manifest, encoding="utf-8") as file:
            facts = json.load(file)
        if type(facts["format"]) is int and facts["format"] > READABLE[-1]:
            raise NewerFormat(path, facts["format"], READABLE[-1])
        if facts["format"] == WITH_DIGEST and facts.get("sha256") != _digest(facts):
            raise ValueError("it has changed since it was written (SHA-256)")
        known = facts["format"] in READABLE and type(facts["step"]) is int and _are_files(facts["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise TrainingError("{} cannot be read: {}".format(manifest, str(error)[:MOST_REASON])) from error
    if not known:
        raise TrainingError(
            "{} has format {}, or lacks a part of it; this version of hpclaunch reads formats {}".format(
                manifest, str(facts["format"])[:MOST_REASON], ", ".join(map(str, READABLE))
            )
        )
    return facts


def _are_files(files: Any) -> bool:
    """Whether this is a list of files of a checkpoint, none of which lies elsewhere."""
    return isinstance(files, list) and all(
        isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and isinstance(entry.get("sha256"), str)
        and isinstance(entry.get("name"), str)
        and _FILE.match(entry["name"])
        for entry in files
    )


def problem(path: str, names: list[str]) -> str:
    """What is wrong with these files of a checkpoint, in words; empty if all are intact."""
    try:
        return problem_in_files(path, facts_of(path), names)
    except TrainingError as error:
        return str(error)


def problem_in_files(path: str, facts: Mapping[str, Any], names: list[str]) -> str:
    """As `problem`, where the facts of the checkpoint have been read."""
    files = {entry["name"]: entry for entry in facts["files"]}
    for name in names:
        wrong = _damage(os.path.join(path, name), files[name]) if name in files else "is not in its list of files"
        if wrong:
            return "{} {}".format(name, wrong)
    return ""


def _damage(path: str, expected: Mapping[str, Any]) -> str:
    """What is wrong with a file, in words. Its size is compared first: it may be very much larger than it was."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            return "is not a file"
        if about.st_size != expected["bytes"]:
            return "has {} bytes instead of {}".format(about.st_size, expected["bytes"])
        same = sha256_of(path) == expected["sha256"]
    except OSError as error:
        return "cannot be read: {}".format(error.strerror)
    return "" if same else "has changed since it was written (SHA-256)"


def read(path: str, name: str) -> dict[str, Any]:
    """The arrays of one file of a checkpoint, by name; as `each`."""
    return dict(each(path, name))


def each(path: str, name: str) -> Iterator[tuple[str, Any]]:
    """The arrays of one file of a checkpoint with their names, one after another; check it with `problem` first.

    Raises TrainingError for a file that `write` did not write: its arrays may not be longer than the file is.
    """
    place = os.path.join(path, name)
    try:
        with npz_members.ArchiveFile(place) as file, zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                key = member[: -len(".npy")]
                with archive.open(member) as content:
                    found = npz_members.header(archive, key, content)
                    if found.dtype.hasobject or archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
                        raise ValueError("{} is compressed or contains Python objects".format(key[:MOST_REASON]))
                    flat = npz_members.array(archive, key, content, found, os.path.getsize(place))
                    whole = flat.reshape(found.shape, order="F" if found.by_columns else "C")
                yield key, whole
    except npz_members.ERRORS as error:
        raise TrainingError("{} cannot be read: {}".format(place, str(error)[:MOST_REASON])) from None


def names_in(path: str, name: str) -> list[str]:
    """The names of the arrays in one file of a checkpoint. Raises TrainingError as `each`."""
    place = os.path.join(path, name)
    try:
        with npz_members.ArchiveFile(place) as file, zipfile.ZipFile(file) as archive:
            return [member[: -len(".npy")] for member in archive.namelist()]
    except npz_members.ERRORS as error:
        raise TrainingError("{} cannot be read: {}".format(place, str(error)[:MOST_REASON])) from None


def put_in_place(path: str, content: bytes) -> None:
    """Replace a file by one with other content, in one step."""
    with open(path + ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def set_aside(path: str) -> None:
    """Rename a checkpoint so that it is not used any more, but can be inspected; only the last such one is kept."""
    if not os.path.lexists(path):
        return
    leave_if_superseded()
    aside = os.path.join(os.path.dirname(path), "unused-" + os.path.basename(path))
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)


def failure_text(path: str, folder: str, error: OSError) -> str:
    """Why `path` could not be written, which checkpoint in `folder` is still good, and what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = "the disk is full or the quota is used up" if full else "the folder cannot be written"
    good = existing(folder)
    kept = "The last good checkpoint is {}.".format(good[0]) if good else "There is no earlier checkpoint."
    return "cannot write the checkpoint {}: {} ({}). {} Make room and resume the run.".format(
        path, reason, error.strerror or error, kept
    )


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse it; the rename itself is done
        pass
    finally:
        os.close(descriptor)
