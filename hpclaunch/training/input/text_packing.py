"""Packs text as tokens, for the program pack.py of a job: FOLDER [--from TEXT] [--vocabulary 1024].

Without --from the text is that of the docstrings in the standard library of the Python that runs this program. The
modules are parsed, and never imported. It needs the standard library alone, because the launcher's Python may have no
NumPy. The result depends on the text and the vocabulary alone.
"""

from __future__ import annotations

import argparse
import array
import ast
import hashlib
import json
import os
import sys
import sysconfig
import tokenize
import warnings
from collections import Counter
from typing import Any, Callable, Iterator, Sequence

from hpclaunch.training.input import byte_pairs

RECORD = "tokens.json"
SPLITS = ("train", "validation", "test")
HELD_OUT = 20  # one of so many documents is for the validation, another one for the test
FEWEST = len(SPLITS)
LEARNED_BYTES = 64 * 2**20  # of text from which the vocabulary is learned
REPORTED = 500  # documents, or modules, between two lines of progress
OTHERS = ("site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__")  # not the library itself
Say = Callable[[str], None]


class PackError(Exception):
    """The reason, in one line, why a text cannot be packed."""


class Document:
    """A text of its own: all of it is in one split. path: the file with the text, which is then read when needed."""

    def __init__(self, text: str = "", path: str = "") -> None:
        self._text, self._path = text, path
        self.key = hashlib.sha256(self.read().encode("utf-8")).hexdigest()

    def read(self) -> str:
        return read_text(self._path) if self._path else self._text


def docstrings(folder: str, say: Say) -> Iterator[Document]:
    """One document for each module below `folder` that has docstrings, by path; they are in the order of the tree."""
    for number, path in enumerate(files_below(folder, ".py", OTHERS), 1):
        if number % REPORTED == 0:
            say("  {} modules".format(number))
        try:
            with tokenize.open(path) as file, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of old escapes in strings
                tree = ast.parse(file.read())
        except (SyntaxError, ValueError, OSError):
            continue  # some modules are wrong on purpose
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
        text = "\n\n".join(each for each in found if each)
        # A character that stands in a string as an escape may be no text, such as half of a surrogate pair.
        text = text.encode("utf-8", "ignore").decode("utf-8")
        if text:
            yield Document(text)


def documents_of(source: str) -> Iterator[Document]:
    """The files of a folder, by path; of a single file its paragraphs, which empty lines divide. Raises PackError."""
    if os.path.isdir(source):
        for path in files_below(source, ""):
            yield Document(path=path)
    elif os.path.isfile(source):
        for paragraph in read_text(source).split("\n\n"):
            if paragraph.strip():
                yield Document(paragraph.strip("\n") + "\n")
    else:
        raise PackError("{}: does not exist, or is neither a file nor a folder".format(source))


def files_below(folder: str, suffix: str, others: Sequence[str] = ()) -> Iterator[str]:
    """The files below a folder, by path; hidden ones, and files and folders named in `others`, are left out."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name in others:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path, suffix, others)
        elif entry.name.endswith(suffix) and os.path.isfile(entry.path):
            yield entry.path


def read_text(path: str) -> str:
    """The text of a file, with line ends as they are. Raises PackError if it is no text in UTF-8."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise PackError("{}: is not text in UTF-8: byte {} cannot be decoded".format(path, error.start)) from None
    if "\0" in text:
        raise PackError("{}: is not text: character {} is NUL".format(path, text.index("\0")))
    return text


def divided(documents: Sequence[Document], source: str) -> dict[str, list[Document]]:
    """Documents by split; the sums of the texts decide, so neither names nor the order of files matter.

    Equal texts count once: a text that is trained on is never in another split. Raises PackError if there are too few.
    """
    different = sorted({document.key: document for document in documents if document.read().strip()}.items())
    if len(different) < FEWEST:
        raise PackError(
            "{}: has {} different documents with text, and training, validation and test need one each: name a folder "
            "with at least {} files of text, or a file with at least {} paragraphs".format(
                source, len(different), FEWEST, FEWEST
            )
        )
    ordered = [document for _, document in different]
    part = max(1, len(ordered) // HELD_OUT)
    return {"test": ordered[:part], "validation": ordered[part : 2 * part], "train": ordered[2 * part :]}


def vocabulary_of(documents: Sequence[Document], size: int, say: Say) -> byte_pairs.BytePairs:
    """The vocabulary of `size` tokens for the text of the training documents. Raises PackError if it allows fewer."""
    if size == byte_pairs.SMALLEST:
        return byte_pairs.BytePairs()
    pieces: dict[str, int] = Counter()
    read = 0
    for document in documents:
        text = document.read()
        pieces.update(byte_pairs.PIECE.findall(text))
        read += len(text.encode("utf-8"))
        if read > LEARNED_BYTES:
            break
    say("learning {} tokens from {} different words in {:.1f} MB of text".format(size, len(pieces), read / 1e6))
    found = byte_pairs.learn(pieces, size)
    if found.size < size:
        raise PackError(
            "--vocabulary={}: the text allows at most {} tokens, as the other pairs of tokens occur only once".format(
                size, found.size
            )
        )
    return found


def write_tokens(
    path: str, documents: Sequence[Document], vocabulary: byte_pairs.BytePairs, say: Say
) -> dict[str, Any]:
    """Write the documents as one array uint16 [tokens] of NumPy, with END after each; returns what is in it."""
    digest, tokens, text_bytes = hashlib.sha256(), 0, 0
    with open(path, "wb") as file:
        file.write(npy_header(0))
        for number, document in enumerate(documents, 1):
            text = document.read()
            found = array.array("H", [*vocabulary.encode(text), byte_pairs.END])
            if sys.byteorder == "big":
                found.byteswap()
            file.write(found.tobytes())
            digest.update(found.tobytes())
            tokens, text_bytes = tokens + len(found), text_bytes + len(text.encode("utf-8"))
            if number % REPORTED == 0:
                say("  {} of {} documents".format(number, len(documents)))
        file.seek(0)
        file.write(npy_header(tokens))
    return {"documents": len(documents), "bytes": text_bytes, "tokens": tokens, "sha256": digest.hexdigest()}


def npy_header(length: int) -> bytes:
    """The first 128 bytes of a NumPy file, version 1.0, with one array uint16 [length]."""
    text = "{{'descr': '<u2', 'fortran_order': False, 'shape': ({},), }}".format(length)
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode("ascii") + b"\n"


def pack(documents: Sequence[Document], folder: str, size: int, source: str, say: Say) -> dict[str, Any]:
    """Write SPLIT.npy and the record tokens.json into `folder`; returns the record.

    Its sha256 is that of the tokens of all splits and of the vocabulary.
    """
    parts = divided(documents, source)
    vocabulary = vocabulary_of(parts["train"], size, say)
    splits = {}
    for split in SPLITS:
        say("encoding {} documents: {}".format(len(parts[split]), split))
        splits[split] = write_tokens(os.path.join(folder, split + ".npy"), parts[split], vocabulary, say)
    named = json.dumps([vocabulary.pairs, [splits[split]["sha256"] for split in SPLITS]])
    record = {
        "format": 1,
        "source": source,
        "vocabulary": vocabulary.size,
        "sha256": hashlib.sha256(named.encode("ascii")).hexdigest(),
        "splits": splits,
        "pairs": vocabulary.pairs,
    }
    with open(os.path.join(folder, RECORD), "w", encoding="utf-8") as file:
        json.dump(record, file)
    return record


def main(words: Sequence[str] | None = None) -> int:
    """Pack the text; if that fails, the last line on stderr gives the reason."""
    folder, source, size = parsed(words)

    def say(text: str) -> None:
        print(text, flush=True)

    try:
        if source:
            documents, named = list(documents_of(source)), os.path.abspath(source)
        else:
            library, python = sysconfig.get_path("stdlib"), "Python {}.{}.{}".format(*sys.version_info[:3])
            say("reading the docstrings of the standard library of {}: {}".format(python, library))
            documents, named = list(docstrings(library, say)), "docstrings of the standard library of " + python
        os.makedirs(folder, exist_ok=True)
        record = pack(documents, folder, size, named, say)
    except (PackError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for split in SPLITS:
        say("  {}: {documents} documents, {bytes} bytes, {tokens} tokens".format(split, **record["splits"][split]))
    say("SHA-256 {}".format(record["sha256"]))
    return 0


def parsed(words: Sequence[str] | None) -> tuple[str, str, int]:
    """The typed folder, the typed text (empty: docstrings), and the size of the vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--from", dest="source", default="", help="a file or folder of text in UTF-8")
    parser.add_argument("--vocabulary", type=int, default=1024, help="257: bytes; more: pairs of tokens, too")
    found = parser.parse_args(words)
    if not byte_pairs.SMALLEST <= found.vocabulary <= byte_pairs.LARGEST:
        parser.error("--vocabulary: {} to {} tokens".format(byte_pairs.SMALLEST, byte_pairs.LARGEST))
    return found.folder, found.source, found.vocabulary


if __name__ == "__main__":
    sys.exit(main())
