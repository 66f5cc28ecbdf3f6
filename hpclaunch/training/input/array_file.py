"""One's own arrays in an npz file, of any number type and shape; never unpickles."""

from __future__ import annotations

import hashlib
import os
import zipfile
from typing import Any

import numpy as np

from hpclaunch.training.input import npz_members, shards
from hpclaunch.training.input.source import VALIDATION, DataError, ImageSet, Source

CHUNK_BYTES = 4 << 20
KINDS = "biuf"  # of NumPy's types: bool, whole numbers, floating-point numbers


class ArrayFile(Source):
    """Arrays [n, ...] of inputs and targets in an npz file, for training and test.

    Their names are INPUTS_train, TARGETS_train, INPUTS_test and TARGETS_test, and perhaps INPUTS_validation and
    TARGETS_validation; or INPUTS and TARGETS alone, of which the part `held_out`, chosen by the seed, is for the test.
    """

    layout = "npz"
    has_images = False

    def __init__(self, path: str, names: tuple[str, str], held_out: float, seed: int) -> None:
        name = os.path.splitext(os.path.basename(path))[0]
        super().__init__(ImageSet(name, (), classes=0, job=name), path)
        self._names, self._held_out, self._seed = names, held_out, seed
        self._order: np.ndarray | None = None
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

    def read(self, split: str, indices: Any) -> tuple[Any, Any]:
        """Inputs and targets at `indices`; the file is unpacked in pieces, so that only these rows are in memory."""
        rows = np.asarray(indices, np.int64)
        if self._order is not None:
            first = 0 if split == "train" else self.counts["train"]
            rows = self._order[rows + first]
        try:
            with npz_members.ArchiveFile(self.path) as whole, zipfile.ZipFile(whole) as archive:
                inputs, targets = (
                    npz_members.rows(archive, name, rows, CHUNK_BYTES) for name in self._array_names(split)
                )
        except npz_members.ERRORS as error:
            raise self.wrong("truncated or corrupt ({})".format(str(error)[:300]), self.path) from None
        return inputs, targets.astype(np.int64) if self.has_classes else targets

    def wrong(self, what: str, where: str) -> DataError:
        inputs, targets = self._names
        return DataError(
            "{}: {}\n  expected: an .npz with arrays of numbers [n, ...]: {i}_train, {t}_train, {i}_test and {t}_test, "
            "or {i} and {t}\n  next: name the arrays with inputs= and targets=, or another file".format(
                where, what, i=inputs, t=targets
            )
        )

    def _array_names(self, split: str) -> tuple[str, ...]:
        """The names of a split's inputs and targets in the file."""
        return self._names if self._order is not None else tuple("{}_{}".format(name, split) for name in self._names)

    def _find(self, archive: zipfile.ZipFile, members: Any) -> None:
        inputs, targets = self._names
        if inputs in members and targets in members:
            total = self._check(archive, self._names)
            if not 0 <= self._held_out < 1 or total - int(total * self._held_out) < 1:
                raise self.wrong("held_out={} leaves no training sample of {}".format(self._held_out, total), self.path)
            self.counts = {"train": total - int(total * self._held_out), "test": int(total * self._held_out)}
            self._order = shards.shuffled(total, shards.stream_seed(self._seed, "held out"))
            return
        splits = ("train", "test", VALIDATION) if "{}_{}".format(inputs, VALIDATION) in members else ("train", "test")
        for split in splits:
            missing = [name for name in self._array_names(split) if name not in members]
            if missing:
                found = ", ".join(sorted(members)[:8]) or "none"
                raise self.wrong("no array {} (found: {})".format(", ".join(missing), found), self.path)
            self.counts[split] = self._check(archive, self._array_names(split))

    def _check(self, archive: zipfile.ZipFile, names: tuple[str, ...]) -> int:
        """Return the number of samples; raises DataError unless both arrays have it, and are arrays of numbers."""
        found = [npz_members.opened_header(archive, name) for name in names]
        for name, header in zip(names, found):
            if header.dtype.kind not in KINDS or not header.shape:
                raise self.wrong("{} is {} {}".format(name, header.dtype, list(header.shape)), self.path)
            if header.by_columns and len(header.shape) > 1:
                raise self.wrong("{} is stored by columns: save numpy.ascontiguousarray of it".format(name), self.path)
        inputs, targets = found
        if inputs.shape[0] != targets.shape[0] or not inputs.shape[0]:
            what = "{} has {} samples, {} has {}"
            raise self.wrong(what.format(names[0], inputs.shape[0], names[1], targets.shape[0]), self.path)
        shape, target_shape = inputs.shape[1:], targets.shape[1:]
        if (self.wanted.shape and shape != self.wanted.shape) or (self.counts and target_shape != self.label_shape):
            raise self.wrong("the samples of training and test have other shapes", self.path)
        self.wanted = ImageSet(self.wanted.name, shape, classes=0, job=self.wanted.job)
        self.sample_type, self.label_type, self.label_shape = inputs.dtype, targets.dtype, target_shape
        self.has_images = inputs.dtype == np.uint8 and len(shape) == 3
        return int(inputs.shape[0])
