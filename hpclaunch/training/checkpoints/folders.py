"""Checkpoints as folders that are complete or do not exist: written aside, checked by SHA-256, renamed into place.

CHECKPOINTS/step-00000120/ contains `shared.npz` (state that all ranks share, written by rank 0), `rank-0003.npz` (state
of rank 3 alone, or of copy 3 of a model that several ranks share), `part-0003.npz` (what the ranks with part 3 of such
a model hold of it), and `checkpoint.json` with the facts of the training, and size and SHA-256 of every file. No
function here communicates with other ranks; saving.py decides which rank calls which function, and when.
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
from typing import IO, Any, Iterable, Iterator, Mapping

import numpy as np
from numpy.lib import format as npy

from hpclaunch.training.input import npz_members
from hpclaunch.training.rank.failure import TrainingError

FORMAT = 2
WITH_PARTS = 3  # as format 2, with files of parts
READABLE = (1, 2, 3)  # format 1 has all variables that are not trained in the ranks' own files
SHARED = "shared.npz"
MANIFEST = "checkpoint.json"
LARGEST_MANIFEST = 16 * 2**20  # bytes; 100,000 ranks need 11 million
MOST_REASON = 300  # characters of an error, which may quote a file
_NAME = re.compile(r"^step-(\d{8,18})$")
_FILE = re.compile(r"^(shared|rank-\d{4,9}|part-\d{4})\.npz$")
_BLOCK = 2**20


def own_file(rank: int) -> str:
    """The name of the file with the state of `rank` alone."""
    return "rank-{:04d}.npz".format(rank)


def part_file(index: int) -> str:
    """The name of the file with part `index` of the variables that several ranks share."""
    return "part-{:04d}.npz".format(index)


def path_of(folder: str, step: int) -> str:
    """The path of the checkpoint of `step` (steps since the beginning)."""
    return os.path.join(folder, "step-{:08d}".format(step))


def begin(folder: str, step: int) -> str:
    """Make the folder in which the checkpoint of `step` (steps since the beginning) is written; returns its path."""
    partial = os.path.join(folder, ".partial-{:08d}".format(step))
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
    path = os.path.join(partial, name)
    try:
        with open(path, "wb") as file:
            write_arrays(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        return {"name": name, "bytes": os.path.getsize(path), "sha256": _sha256(path)}
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


def commit(partial: str, step: int, files: list[dict[str, Any]], facts: Mapping[str, Any], keep: int) -> str:
    """Rename the complete checkpoint to its name, and remove all but the newest `keep`; returns its path.

    files: the results of `write` from all ranks. facts: values for JSON, which `facts_of` reads again. The checkpoint
    of the best epoch that they name is not removed.
    """
    folder = os.path.dirname(partial)
    path = path_of(folder, step)
    try:
        with open(os.path.join(partial, MANIFEST), "w", encoding="utf-8") as file:
            number = WITH_PARTS if "parts" in facts else FORMAT
            json.dump({"format": number, "step": step, "files": files, **facts}, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(partial)
        set_aside(path)  # of the same step: from an abandoned attempt, or damaged
        os.rename(partial, path)
        _sync_folder(folder)
    except OSError as error:
        raise TrainingError(failure_text(path, folder, error)) from error
    best = (facts.get("epochs") or {}).get("best")
    spared = path_of(folder, best["step"]) if best and best["step"] else ""
    for old in existing(folder)[keep:]:
        if old != spared:
            shutil.rmtree(old, ignore_errors=True)
    return path


def abandon(partial: str) -> None:
    """Remove the folder of an unfinished checkpoint, if it exists."""
    shutil.rmtree(partial, ignore_errors=True)


def existing(folder: str) -> list[str]:
    """Paths of the checkpoints in `folder`, the newest (by step) first."""
    try:
        names = [name for name in os.listdir(folder) if _NAME.match(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    names.sort(key=lambda name: int(name.split("-")[1]), reverse=True)
    return [os.path.join(folder, name) for name in names]


def facts_of(path: str) -> dict[str, Any]:
    """The facts given to `commit`, with step and files; raises TrainingError if the checkpoint is damaged."""
    manifest = os.path.join(path, MANIFEST)
    try:
        if not os.path.isfile(manifest) or os.path.getsize(manifest) > LARGEST_MANIFEST:
            raise ValueError("it is no file, or larger than {} MiB".format(LARGEST_MANIFEST // 2**20))
        with open(manifest, encoding="utf-8") as file:
            facts = json.load(file)
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
        same = _sha256(path) == expected["sha256"]
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


def set_aside(path: str) -> None:
    """Rename a checkpoint so that it is not used any more, but can be inspected; only the last such one is kept."""
    if not os.path.lexists(path):
        return
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


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse it; the rename itself is done
        pass
    finally:
        os.close(descriptor)
