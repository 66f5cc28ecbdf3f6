from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpclaunch.config import kept_values
from hpclaunch.config.catalog import bundled
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.kept_values import read_kept
from hpclaunch.core.errors import InvalidFile

BUNDLED = sorted([*bundled("site_configs").glob("*.yaml"), *bundled("jobs").glob("*/job.yaml")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "files"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text("nodes: 4\n")
    return file


def the_kept(folder: Path) -> Path:
    (kept,) = folder.iterdir()
    return kept


def spoil(folder: Path, **changes: object) -> None:
    """Change what is kept, so that it tells whether it was believed."""
    kept = the_kept(folder)
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "values": {"nodes": 99}, **changes}))


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_kept_of_each_bundled_file_is_what_was_read(path: Path, folder: Path) -> None:
    read = read_yaml(path)
    assert repr(read_kept(path, folder)) == repr(read)
    assert the_kept(folder).is_file()
    assert repr(read_kept(path, folder)) == repr(read)


def test_an_unchanged_file_is_not_parsed_again(file: Path, folder: Path) -> None:
    assert read_kept(file, folder) == {"nodes": 4}
    assert folder.stat().st_mode & 0o777 == 0o700
    spoil(folder)
    assert read_kept(file, folder) == {"nodes": 99}
    assert read_kept(file, None) == {"nodes": 4}


def test_a_changed_file_is_parsed_again_though_its_size_and_times_are_the_same(file: Path, folder: Path) -> None:
    read_kept(file, folder)
    before = file.stat()
    file.write_text("nodes: 5\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert read_kept(file, folder) == {"nodes": 5}
    assert json.loads(the_kept(folder).read_text())["values"] == {"nodes": 5}


def test_what_other_code_has_read_is_not_believed(file: Path, folder: Path) -> None:
    read_kept(file, folder)
    spoil(folder, readers=[1, 2])
    assert read_kept(file, folder) == {"nodes": 4}


def test_each_reader_counts(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_kept(file, folder)
    spoil(folder)
    monkeypatch.setattr(kept_values, "_READERS", ("hpclaunch.config.documents", "json"))
    kept_values._readers.cache_clear()
    assert read_kept(file, folder) == {"nodes": 4}
    kept_values._readers.cache_clear()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"text": "nodes: 4\\n"}', '{"values": {"nodes": 99}}'])
def test_damaged_values_are_read_again(file: Path, folder: Path, damage: str) -> None:
    read_kept(file, folder)
    the_kept(folder).write_text(damage)
    assert read_kept(file, folder) == {"nodes": 4}
    spoil(folder)
    assert read_kept(file, folder) == {"nodes": 99}


def test_values_that_are_no_mapping_are_read_again(file: Path, folder: Path) -> None:
    read_kept(file, folder)
    spoil(folder, values=[1])
    assert read_kept(file, folder) == {"nodes": 4}


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_folder_that_others_may_write_is_not_believed_and_not_used(file: Path, folder: Path, mode: int) -> None:
    read_kept(file, folder)
    spoil(folder)
    folder.chmod(mode)
    assert read_kept(file, folder) == {"nodes": 4}
    folder.chmod(0o700)
    assert read_kept(file, folder) == {"nodes": 99}


def test_a_folder_that_cannot_be_made_changes_nothing(file: Path) -> None:
    assert read_kept(file, file / "files") == {"nodes": 4}


@pytest.mark.parametrize("text", ["limits: {1: a}\n", "limits: !!set {a, b}\n", "day: !!timestamp 2026-01-02\n"])
def test_values_that_json_would_change_are_not_kept(file: Path, folder: Path, text: str) -> None:
    file.write_text(text)
    assert repr(read_kept(file, folder)) == repr(read_yaml(file))
    assert not folder.exists()


def test_a_file_that_cannot_be_used_is_refused_each_time(file: Path, folder: Path) -> None:
    file.write_text("nodes: 4\nnodes: 5\n")
    for _ in range(2):
        with pytest.raises(InvalidFile, match="'nodes' is given twice"):
            read_kept(file, folder)
    assert not folder.exists()


def test_two_files_are_kept_apart(tmp_path: Path, file: Path, folder: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("nodes: 8\n")
    for _ in range(2):
        assert [read_kept(one, folder) for one in (file, other)] == [{"nodes": 4}, {"nodes": 8}]
    assert len(list(folder.iterdir())) == 2
