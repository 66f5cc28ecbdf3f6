"""One's own arrays in an npz file, of any number type and shape; never unpickles."""

from __future__ import annotations

import hashlib
import os
import zipfile
from typing import Any, Callable, Iterable

import numpy as np

from hpclaunch.training.input import npz_members, shards
from hpclaunch.training.input.source import VALIDATION, DataError, ImageSet, Kind, Source

CHUNK_BYTES = 4 << 20
KINDS = "biuf"  # of NumPy's types: bool, whole numbers, floating-point numbers


class ArrayFile(Source):
    """Arrays [n, ...] of inputs and targets in an npz file, for training and test.

    Their names are INPUTS_train, TARGETS_train, INPUTS_test and TARGETS_test, and perhaps INPUTS_validation and
    TARGETS_validation; or INPUTS and TARGETS alone, of which the part `held_out`, chosen by the seed, is for the test.
    names: of inputs and targets, and of the samples' weights if there are any; each is a name, a tuple of names, or a
    dictionary of them. What is read has the same form.
    """

    layout = "npz"
    has_images = False

    def __init__(self, path: str, names: tuple[Any, ...], held_out: float, seed: int) -> None:
        name = os.path.splitext(os.path.basename(path))[0]
        super().__init__(ImageSet(name, (), classes=0, job=name), path)
        self._names, self._held_out, self._seed = names, held_out, seed
        self.is_weighted = len(names) > 2
        self._order: np.ndarray | None = None
        self._shapes: list[tuple[int, ...]] = []
        if not os.path.isfile(path):
            raise self.wrong("no such file", path or "--data-dir and HPCLAUNCH_DATA_DIR are empty")
        try:
            with npz_members.ArchiveFile(path) as file, zipfile.ZipFile(file) as archive:
                members = {info.filename[: -len(".npy")]: info for info in archive.infolist()}
                self._find(archive, members)
                sums = npz_members.checksums(archive)
        except npz_members.ERRORS as error:
            raise self.wrong("truncated, or not an npz file ({})".format(str(error)[:300]), path) from None
        text = "{}{}{}".format(sums, held_out, seed if self._order is not None else "")
        self.fingerprint = "crc-" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    def files(self) -> list[str]:
        return [self.path]

    def fingerprint_here(self) -> str:
        return ArrayFile(self.path, self._names, self._held_out, self._seed).fingerprint

    def read(self, split: str, indices: Any) -> tuple[Any, ...]:
        """Inputs, targets and perhaps weights at `indices`.

        The file is unpacked in pieces, so that only these rows are in memory.
        """
        rows = np.asarray(indices, np.int64)
        if self._order is not None:
            first = 0 if split == "train" else self.counts["train"]
            rows = self._order[rows + first]
        try:
            with npz_members.ArchiveFile(self.path) as whole, zipfile.ZipFile(whole) as archive:

                def rows_of(name: str) -> Any:
                    return npz_members.rows(archive, name, rows, CHUNK_BYTES)

                inputs, targets, *weights = (_map_names(rows_of, part) for part in self._array_names(split))
        except npz_members.ERRORS as error:
            raise self.wrong("truncated or corrupt ({})".format(str(error)[:300]), self.path) from None
        return inputs, targets.astype(np.int64) if self.has_classes else targets, *weights

    def wrong(self, what: str, where: str) -> DataError:
        inputs, targets = (_list_names([part])[0] for part in self._names[:2])
        return DataError(
            "{}: {}\n  expected: an .npz with arrays of numbers [n, ...]: {i}_train, {t}_train, {i}_test and {t}_test, "
            "or {i} and {t}\n  next: name the arrays with inputs= and targets=, or another file".format(
                where, what, i=inputs, t=targets
            )
        )

    def _array_names(self, split: str) -> tuple[Any, ...]:
        """The names of a split's inputs, targets and weights in the file."""
        if self._order is not None:
            return self._names
        return tuple(_map_names("{{}}_{}".format(split).format, part) for part in self._names)

    def _find(self, archive: zipfile.ZipFile, members: Any) -> None:
        if all(name in members for name in _list_names(self._names)):
            total = self._check(archive, self._names)
            if not 0 <= self._held_out < 1 or total - int(total * self._held_out) < 1:
                raise self.wrong("held_out={} leaves no training sample of {}".format(self._held_out, total), self.path)
            self.counts = {"train": total - int(total * self._held_out), "test": int(total * self._held_out)}
            self._order = shards.shuffled(total, shards.stream_seed(self._seed, "held out"))
            return
        first = "{}_{}".format(_list_names(self._names)[0], VALIDATION)
        splits = ("train", "test", VALIDATION) if first in members else ("train", "test")
        for split in splits:
            missing = [name for name in _list_names(self._array_names(split)) if name not in members]
            if missing:
                found = ", ".join(sorted(members)[:8]) or "none"
                raise self.wrong("no array {} (found: {})".format(", ".join(missing), found), self.path)
            self.counts[split] = self._check(archive, self._array_names(split))

    def _check(self, archive: zipfile.ZipFile, names: tuple[Any, ...]) -> int:
        """Return the number of samples; raises DataError unless all arrays have it, and are arrays of numbers."""
        found = {name: npz_members.opened_header(archive, name) for name in _list_names(names)}
        for name, header in found.items():
            if header.dtype.kind not in KINDS or not header.shape:
                raise self.wrong("{} is {} {}".format(name, header.dtype, list(header.shape)), self.path)
            if header.by_columns and len(header.shape) > 1:
                raise self.wrong("{} is stored by columns: save numpy.ascontiguousarray of it".format(name), self.path)
        samples = {name: int(header.shape[0]) for name, header in found.items()}
        first = next(iter(samples))
        for name, count in samples.items():
            if count != samples[first] or not count:
                what = "{} has {} samples, {} has {}"
                raise self.wrong(what.format(first, samples[first], name, count), self.path)
        shapes = [header.shape[1:] for header in found.values()]
        if self.counts and shapes != self._shapes:
            raise self.wrong("the samples of training and test have other shapes", self.path)
        self._shapes = shapes
        self._keep_kinds(
            *(_map_names(lambda name: Kind(found[name].shape[1:], found[name].dtype), part) for part in names)
        )
        return samples[first]

    def _keep_kinds(self, inputs: Any, targets: Any, weights: Any = None) -> None:
        self.has_images = False
        if isinstance(inputs, Kind):
            self.wanted = ImageSet(self.wanted.name, inputs.shape, classes=0, job=self.wanted.job)
            self.sample_type = inputs.dtype
            self.has_images = inputs.dtype == np.uint8 and len(inputs.shape) == 3
        else:
            self.several_inputs = inputs
        if isinstance(targets, Kind):
            self.label_type, self.label_shape = targets.dtype, targets.shape
        else:
            self.several_targets = targets


def _map_names(function: Callable[[Any], Any], names: Any) -> Any:
    """The values of a name, of a tuple of names, or of a dictionary of them, in the same form."""
    if isinstance(names, dict):
        return {key: function(name) for key, name in names.items()}
    return tuple(function(name) for name in names) if isinstance(names, (list, tuple)) else function(names)


def _list_names(parts: Iterable[Any]) -> list[str]:
    found: list[str] = []
    for part in parts:
        _map_names(found.append, part)
    return found
