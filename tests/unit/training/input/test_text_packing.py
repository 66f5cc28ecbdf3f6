"""Packing text for the jobs transformer and gpt: byte pairs, documents, splits, files; the standard library does it."""

from __future__ import annotations

import ast
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.training.input import byte_pairs
from hpclaunch.training.input import text_packing as pack

TEXT = "the cat and the hat, then the other cat; naïve — 猫\n\n\tthe end\r\n" * 3
LEARNED = byte_pairs.learn({piece: TEXT.count(piece) for piece in byte_pairs.PIECE.findall(TEXT)}, 300)


@given(st.text() | st.text(alphabet="the cat\n", max_size=300))
def test_any_text_is_the_same_after_encoding_and_decoding(text: str) -> None:
    for vocabulary in (byte_pairs.BytePairs(), LEARNED):
        tokens = vocabulary.encode(text)
        assert vocabulary.decode(tokens) == text
        assert all(0 <= token < vocabulary.size and token != byte_pairs.END for token in tokens)
    assert len(LEARNED.encode(text)) <= len(text.encode())


def test_without_pairs_the_tokens_are_the_bytes() -> None:
    assert byte_pairs.BytePairs().encode("aé") == list("aé".encode())


def test_the_most_frequent_pair_becomes_a_token_and_counts_anew() -> None:
    """Worked out by hand: ab 5 times, then (ab)c 3 times; of x y and c d, once each, neither is frequent."""
    learned = byte_pairs.learn({"abc": 3, "ab": 2, "xy": 1, "cd": 1}, 300)
    a, b, c = b"abc"
    assert learned.pairs == [(a, b), (257, c)]
    assert learned.encode("abcab") == [258, 257]


def test_of_equally_frequent_pairs_the_smaller_tokens_come_first() -> None:
    pieces = {"zy": 2, "ab": 2, "mn": 2}
    assert [chr(left) for left, _ in byte_pairs.learn(pieces, 300).pairs] == ["a", "m", "z"]
    assert byte_pairs.learn(dict(reversed(pieces.items())), 300).pairs == byte_pairs.learn(pieces, 300).pairs


def test_pairs_of_equal_tokens_overlap_and_are_joined_from_the_left() -> None:
    assert byte_pairs.learn({"aaaa": 3}, 259).encode("aaaaa") == [258, 97]


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(**texts: str) -> Path:
        folder = tmp_path / "texts"
        folder.mkdir()
        for name, text in texts.items():
            (folder / f"{name}.txt").write_bytes(text.encode())
        return folder

    return put


def packed(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    code = pack.main([str(folder), *words])
    record = folder / pack.RECORD
    return code, json.loads(record.read_text()) if record.exists() else {}


def tokens_of(path: Path) -> list[int]:
    """An array of NumPy's format 1.0, read by hand: the header has 128 bytes."""
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00" and content[8:10] == struct.pack("<H", 118)
    header = ast.literal_eval(content[10:128].decode("ascii"))
    assert (header["descr"], header["fortran_order"]) == ("<u2", False)
    found = [token for (token,) in struct.iter_unpack("<H", content[128:])]
    assert header["shape"] == (len(found),)
    return found


def test_every_document_is_in_one_split_and_ends_with_the_token_for_it(write: Write, tmp_path: Path) -> None:
    texts = {f"n{number}": f"text number {number}\n" for number in range(60)}
    code, record = packed(tmp_path / "out", "--from", str(write(**texts)), "--vocabulary=257")
    assert code == 0
    found: list[str] = []
    for split, facts in record["splits"].items():
        tokens = tokens_of(tmp_path / "out" / f"{split}.npy")
        assert (len(tokens), tokens[-1], tokens.count(256)) == (facts["tokens"], 256, facts["documents"])
        ends = [place for place, token in enumerate(tokens) if token == 256]
        starts = [0, *(end + 1 for end in ends)]
        documents = [bytes(tokens[start:end]).decode() for start, end in zip(starts, ends, strict=False)]
        assert facts["bytes"] == sum(len(document.encode()) for document in documents)
        found += documents
    assert sorted(found) == sorted(texts.values())
    assert {split: facts["documents"] for split, facts in record["splits"].items()} == {
        "train": 54,
        "validation": 3,
        "test": 3,
    }


def test_the_result_depends_on_the_texts_alone(write: Write, tmp_path: Path) -> None:
    folder = write(**{f"n{number}": f"some text, number {number}" for number in range(30)})
    first = packed(tmp_path / "a", "--from", str(folder), "--vocabulary=270")
    for number, path in enumerate(sorted(folder.iterdir())):  # other names, and so another order
        path.rename(folder / f"{(7 * number) % 30}-{number}.text")
    second = packed(tmp_path / "b", "--from", str(folder), "--vocabulary=270")
    assert first[1]["sha256"] == second[1]["sha256"]
    assert (tmp_path / "a/train.npy").read_bytes() == (tmp_path / "b/train.npy").read_bytes()
    third = packed(tmp_path / "c", "--from", str(folder), "--vocabulary=271")
    assert third[1]["sha256"] != first[1]["sha256"]


def test_equal_texts_count_once(write: Write, tmp_path: Path) -> None:
    folder = write(**{f"n{number}": f"text {number // 10}" for number in range(40)})
    _, record = packed(tmp_path / "out", "--from", str(folder), "--vocabulary=257")
    assert sum(facts["documents"] for facts in record["splits"].values()) == 4


def test_a_file_is_divided_into_its_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("one\nline\n\n\ntwo\n\nthree\n\n")
    _, record = packed(tmp_path / "out", "--from", str(tmp_path / "book.txt"), "--vocabulary=257")
    assert {facts["documents"] for facts in record["splits"].values()} == {1}
    assert sum(facts["bytes"] for facts in record["splits"].values()) == len("one\nline\ntwo\nthree\n")


def test_docstrings_are_parsed_and_nothing_of_a_module_runs(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text('"""Of the module."""\nraise SystemExit\n')
    (tmp_path / "inner/b.py").write_text(
        'class B:\n    """Of B."""\n\n    def c(self):\n        """Of c, \\ud800."""\n'
    )
    (tmp_path / "wrong.py").write_text('"""Not Python: """ (\n')
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "test/d.py").write_text('"""A test."""\n')
    assert [document.read() for document in pack.docstrings(str(tmp_path), print)] == [
        "Of the module.",
        "Of B.\n\nOf c, .",
    ]


THREE = {"a": "one text", "b": "another text", "c": "a third text"}


@pytest.mark.parametrize(
    ("texts", "size", "message"),
    [
        ({"a": "x", "b": "y"}, 257, "has 2 different documents with text, and training, validation and test need one"),
        ({"a": "", "b": " \n", "c": "\n"}, 257, "has 0 different documents with text"),
        (THREE, 400, "--vocabulary=400: the text allows at most 2"),
        ({**THREE, "d": "nul \0"}, 257, "d.txt: is not text: character 4 is NUL"),
    ],
)
def test_a_text_that_cannot_be_packed_gives_one_line(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: dict[str, str], size: int, message: str
) -> None:
    code, record = packed(tmp_path / "out", "--from", str(write(**texts)), f"--vocabulary={size}")
    (line,) = capsys.readouterr().err.splitlines()
    assert (code, record) == (1, {}) and message in line


def test_a_binary_file_and_a_missing_one_are_named(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(**THREE)
    (folder / "d.bin").write_bytes(b"ab\xff")
    assert packed(tmp_path / "out", "--from", str(folder))[0] == 1
    assert "d.bin: is not text in UTF-8: byte 2 cannot be decoded" in capsys.readouterr().err
    assert packed(tmp_path / "out", "--from", str(tmp_path / "none"))[0] == 1
    assert "none: does not exist, or is neither a file nor a folder" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["256", "65537"])
def test_a_size_out_of_bounds_is_refused(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pack.main([str(tmp_path), "--vocabulary", size])
    assert "257 to 65536 tokens" in capsys.readouterr().err
