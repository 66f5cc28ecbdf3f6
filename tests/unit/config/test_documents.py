"""YAML and JSON files as plain values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.documents import read_yaml
from hpclaunch.config.plain_files import read_json
from hpclaunch.core.errors import InvalidFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("01:30:00", "01:30:00"),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("2026-01-02", "2026-01-02"),
        ("0x1F", "0x1F"),
        ("010", "010"),
        ("1_000", "1_000"),
        ("true", True),
        ("12", 12),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_scalars_are_those_of_yaml_1_2(file: Path, text: str, value: Any) -> None:
    file.write_text(f"key: {text}\n")
    assert read_yaml(file) == {"key": value}


def test_an_empty_file_is_an_empty_mapping(file: Path) -> None:
    file.write_text("# nothing\n")
    assert read_yaml(file) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\na: 2\n", "line 1: the key 'a' is given twice"),
        ("a: &x 1\nb: *x\n", "line 1: anchors and aliases (& and *) are not supported"),
        ("- 1\n", "must be a mapping of keys to values"),
        ("text", "must be a mapping of keys to values"),
        ("1: a\n", "must be a mapping of keys to values"),
        ("a: [1\n", "is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "is not valid YAML"),
        ("a: !!python/object:os.system x\n", "is not valid YAML"),
        (b"a: \xff\n", "is not UTF-8 text"),
        (b"a: \x00\n", "is not valid YAML"),
        ("a: " + "[" * 20_000, "is not valid YAML"),
        ("a: " + "x" * 300_000, "larger than 256 KB"),
    ],
)
def test_what_is_not_a_plain_mapping_is_refused(file: Path, content: str | bytes, message: str) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidFile) as caught:
        read_yaml(file)
    assert message in str(caught.value)


def test_a_missing_file_is_said_to_be_missing(file: Path) -> None:
    with pytest.raises(InvalidFile, match="cannot be read: No such file"):
        read_yaml(file)


@pytest.mark.parametrize("reader", [read_yaml, read_json])
def test_a_name_that_no_file_can_have_is_a_fault(reader: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="cannot be read"):
        reader(tmp_path / "a\0b")


def test_json_keeps_types_apart(file: Path) -> None:
    file.write_text('{"a": 1, "b": 1.0, "c": true, "d": "1", "e": [1], "f": {"g": null}}')
    assert repr(read_json(file)) == "{'a': 1, 'b': 1.0, 'c': True, 'd': '1', 'e': [1], 'f': {'g': None}}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1, "a": 2}', "is not valid JSON: the key 'a' is given twice"),
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' is given twice"),
        ('{"x": 1, "a": 1, "a": 2, "b": 3}', "the key 'a' is given twice"),
        ('{"a": NaN}', "is not valid JSON: NaN is not a number"),
        ("{'a': 1}", "is not valid JSON: "),
        ("[1]", "must be a mapping of keys to values"),
        ("", "is not valid JSON: "),
        ('{"a": ' + "[" * 200_000, "is not valid JSON: "),
        (b'{"a": "\xff"}', "is not UTF-8 text"),
        ('{"a": "' + "x" * 300_000 + '"}', "larger than 256 KB"),
    ],
)
def test_what_is_not_a_plain_object_is_refused(file: Path, content: str | bytes, message: str) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidFile) as caught:
        read_json(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "a: " + "{a: " * 40_000,
        "- " * 60_000,
        "a: " + "[b: " * 30_000,
        "\n".join(" " * n + "a:" for n in range(700)),
    ],
    ids=["lists", "mappings", "blocks", "pairs", "indentation"],
)
def test_depth_is_refused_before_the_c_loader_recurses(file: Path, text: str) -> None:
    """60 KB of it ended the process with a segmentation fault."""
    file.write_text(text)
    with pytest.raises(InvalidFile, match=r"more than 100 levels deep|is not valid YAML"):
        read_yaml(file)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_a_hundred_levels_are_read_and_one_more_is_refused(file: Path, opening: str, closing: str) -> None:
    wide = f"wide: [{', '.join(['[]'] * 1000)}]\n"  # so many brackets that the levels are counted
    file.write_text(f"{wide}deep: {opening * 99}{closing * 99}\n")  # the file itself is the first level
    assert "deep" in read_yaml(file)
    file.write_text(f"{wide}deep: {opening * 100}{closing * 100}\n")
    with pytest.raises(InvalidFile, match="line 2: lists and mappings are more than 100 levels deep"):
        read_yaml(file)


def test_many_brackets_beside_each_other_are_allowed(file: Path) -> None:
    file.write_text("".join(f"a{n}: [{{b: 1}}]\n" for n in range(3000)))
    assert read_yaml(file)["a2999"] == [{"b": 1}]


def test_a_sparse_file_is_refused_by_its_size_alone(file: Path) -> None:
    with file.open("wb") as made:
        made.truncate(6 * 2**30)
    with pytest.raises(InvalidFile, match=r"file\.yaml: is larger than 256 KB"):
        read_yaml(file)


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_a_fifo_and_a_device_are_not_opened(file: Path, read: Any) -> None:
    os.mkfifo(file)
    for path in (file, Path("/dev/zero"), file.parent):
        with pytest.raises(InvalidFile, match=r"is not a regular file|is a folder"):
            read(path)


def test_a_message_quotes_only_the_beginning_of_a_long_text(file: Path) -> None:
    key = "k" * 100_000
    file.write_text(f'{{"{key}": 1, "{key}": 2}}')
    with pytest.raises(InvalidFile) as refused:
        read_json(file)
    assert "more characters" in str(refused.value) and len(str(refused.value)) < 1000
