"""Reads packed text (text_packing): every sample is a window of tokens; writes synthetic text of the same form."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np

from hpclaunch.training.input import text_packing
from hpclaunch.training.input.byte_pairs import END, SMALLEST, BytePairs
from hpclaunch.training.input.made_up import written_once
from hpclaunch.training.input.shards import Shard
from hpclaunch.training.input.source import DataError, ImageSet, Source

NEXT = "  next: hpclaunch data fetch {}, or name another folder with --data-dir"
WORDS, PER_DOCUMENT = 200, 60  # of synthetic text: different words, and words in a document


class PackedText(Source):
    """Windows of `context` tokens, one after the other: sample n begins at token n * context of its split.

    Targets are the tokens that follow. The files are mapped into memory, so that a rank reads only its own windows.
    The fingerprint is the SHA-256 that text_packing has written; of the files, the lengths are compared alone.
    """

    layout = "packed text"
    has_images = False
    streams = streams_tests = True
    sample_type = label_type = np.uint16

    def __init__(self, path: str, context: int, vocabulary: int, job: str) -> None:
        super().__init__(ImageSet("text", (context,), classes=0, job=job), path)
        self.context, self.vocabulary, self.label_shape = context, vocabulary, (context,)
        record = self._record()
        self.pairs, self.fingerprint = record["pairs"], "sha256-" + record["sha256"]
        if record["vocabulary"] > vocabulary:
            raise self.wrong(
                "has {} different tokens, and the model has {} (vocabulary)".format(record["vocabulary"], vocabulary)
            )
        for split, facts in record["splits"].items():
            if len(self._tokens(split)) != facts["tokens"]:
                raise self.wrong("{}.npy has another length than tokens.json says".format(split))
            self.counts[split] = max(0, (facts["tokens"] - 1) // context)
            self.token_bytes[split] = facts["bytes"] / facts["tokens"]
        if not self.counts["train"]:
            raise self.wrong("is shorter than one sample: a context of {} tokens and the next one".format(context))

    def files(self) -> list[str]:
        return [
            os.path.join(self.path, name) for name in (text_packing.RECORD, *(split + ".npy" for split in self.counts))
        ]

    def fingerprint_here(self) -> str:
        return PackedText(self.path, self.context, self.vocabulary, self.wanted.job).fingerprint

    def read(self, split: str, indices: Any) -> Any:
        rows = self._windows(split)[np.asarray(indices, np.int64)]  # a copy: only these are read
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])

    def samples(self, split: str, shard: Shard, order: Any, skip: Any, threads: int) -> Any:
        import tensorflow as tf

        windows, shape = self._windows(split), (self.context + 1,)
        positions = tf.gather(shard.indices, order(len(shard.indices), "samples"))[skip:]

        def sample(position: Any) -> Any:
            row = tf.numpy_function(lambda number: np.array(windows[number]), [position], tf.uint16)
            row = tf.ensure_shape(row, shape)
            return row[:-1], row[1:]

        return tf.data.Dataset.from_tensor_slices(positions).map(sample)

    def decoded(self, tokens: Any) -> str:
        """The text of tokens [n]; the ends of documents are empty lines, tokens that no text has are left out."""
        size = SMALLEST + len(self.pairs)
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token == END:
                parts.append([])
            elif token < size:
                parts[-1].append(int(token))
        vocabulary = BytePairs(self.pairs)
        return "\n\n".join(vocabulary.decode(part) for part in parts)

    def wrong(self, what: str, where: str = "") -> DataError:
        place = where or self.path or "--data-dir and HPCLAUNCH_DATA_DIR are empty"
        return DataError("{}: {}\n{}".format(place, what, NEXT.format(self.wanted.job)))

    def _record(self) -> Any:
        path = os.path.join(self.path, text_packing.RECORD)
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
            if record["format"] != 1 or sorted(record["splits"]) != sorted(text_packing.SPLITS):
                raise ValueError
        except OSError as error:
            raise self.wrong("no packed text: {}".format(error.strerror), path) from None
        except (ValueError, KeyError, TypeError):
            raise self.wrong("is not a record of packed text", path) from None
        return record

    def _tokens(self, split: str) -> Any:
        path = os.path.join(self.path, split + ".npy")
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise self.wrong("cannot be read: {}".format(error), path) from None
        if found.dtype != np.uint16 or found.ndim != 1:
            raise self.wrong("is {} {}, not uint16 [tokens]".format(found.dtype, list(found.shape)), path)
        return found

    def _windows(self, split: str) -> Any:
        """The tokens as windows [n, context + 1] that share their last token with the next one; nothing is copied."""
        tokens = self._tokens(split)
        (stride,) = tokens.strides
        shape = (self.counts[split], self.context + 1)
        return np.lib.stride_tricks.as_strided(tokens, shape, (stride * self.context, stride), writeable=False)


def open_text(folder: str, context: int, vocabulary: int, job: str) -> PackedText:
    """The packed text in `folder`, or in its subfolder text; raises DataError if there is none.

    job: that of `hpclaunch data fetch`, for the error.
    """
    inner = os.path.join(folder, "text")
    here = not os.path.exists(os.path.join(inner, text_packing.RECORD))
    return PackedText(folder if here else inner, context, vocabulary, job)


def write(folder: str, samples: int, context: int, seed: int) -> str:
    """Write synthetic text with about `samples` windows of `context` bytes for training; returns `folder`.

    Its words are drawn by Zipf's law, and every word decides which words are likely to follow it.
    """
    return written_once(folder, (samples, context, seed), lambda fresh: _make(fresh, samples * context, seed))


def _make(folder: str, size: int, seed: int) -> None:
    draw = random.Random(seed)
    words = [
        "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(2, 8))) for _ in range(WORDS)
    ]
    shares = [1 / rank for rank in range(1, WORDS + 1)]
    documents: list[text_packing.Document] = []
    length = 0
    while length < size * 10 // 9 or len(documents) < 2 * text_packing.HELD_OUT:
        places = draw.choices(range(WORDS), shares, k=PER_DOCUMENT)
        for number in range(1, PER_DOCUMENT, 2):
            places[number] = (7 * places[number - 1] + 1) % WORDS
        documents.append(text_packing.Document(" ".join(words[place] for place in places) + ".\n"))
        length += PER_DOCUMENT * 6
    text_packing.pack(documents, folder, SMALLEST, "synthetic text", lambda line: None)
