"""Checkpoints: whole or not there, verified, the last few kept; a full disk or a read-only folder harms none."""

from __future__ import annotations

import errno
import gc
import os
import re
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.checkpoints import folders
from hpclaunch.training.rank.failure import TrainingError
from tests.unit.training.disk_calls import disk_calls, synced_sizes

FILES = [folders.SHARED, folders.own_file(0), folders.own_file(1)]


def save(folder: Path, step: int, keep: int = 2) -> Path:
    partial = folders.begin(str(folder), step)
    files = [folders.write(partial, name, {"a": np.full(1000, step)}.items()) for name in FILES]
    return Path(folders.commit(partial, step, files, {"epoch": step}, keep))


def test_the_newest_are_kept_in_the_order_of_steps(tmp_path: Path) -> None:
    for step in (5, 70, 100_000_000, 900):
        newest = save(tmp_path, step, keep=3)
    assert [Path(path).name for path in folders.existing(str(tmp_path))] == [
        "step-100000000",
        "step-00000900",
        "step-00000070",
    ]
    assert folders.facts_of(str(newest))["epoch"] == 900
    assert folders.problem(str(newest), FILES) == ""
    assert folders.read(str(newest), FILES[2])["a"][0] == 900


def manifest(path: Path, text: str) -> None:
    (path / "checkpoint.json").write_text(text)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: os.truncate(path / FILES[1], 100), "has 100 bytes instead of"),
        (lambda path: (path / FILES[0]).write_bytes(b"x" * (path / FILES[0]).stat().st_size), "SHA-256"),
        (lambda path: (path / FILES[2]).unlink(), "No such file"),
        (lambda path: os.truncate(path / "checkpoint.json", 10), "checkpoint.json cannot be read"),
        (
            lambda path: (path / "checkpoint.json").write_text('{"format": 0, "step": 1, "files": []}'),
            "format 0, .* reads formats 1, 2, 3",
        ),
        (
            lambda path: (path / "checkpoint.json").write_text('{"format": 1, "step": 1, "files": []}'),
            "not in its list",
        ),
    ],
)
def test_damage_is_found(tmp_path: Path, harm: object, said: str) -> None:
    path = save(tmp_path, 1)
    harm(path)  # type: ignore[operator]
    assert re.search(said, folders.problem(str(path), FILES))


def test_what_is_not_committed_does_not_count(tmp_path: Path) -> None:
    partial = folders.begin(str(tmp_path), 3)
    folders.write(partial, FILES[0], {"a": np.zeros(1)}.items())
    assert folders.existing(str(tmp_path)) == []
    again = folders.begin(str(tmp_path), 3)
    assert again == partial and os.listdir(again) == []


def test_the_same_step_of_a_given_up_attempt_is_set_aside(tmp_path: Path) -> None:
    first = save(tmp_path, 4)
    (first / "mark").touch()
    second = save(tmp_path, 4)
    assert not (second / "mark").exists()
    assert (tmp_path / "unused-step-00000004" / "mark").exists()
    assert folders.existing(str(tmp_path)) == [str(second)]


@pytest.mark.filterwarnings("error")
def test_a_full_disk_is_one_clear_error_and_nothing_is_left_open(tmp_path: Path) -> None:
    """np.savez leaves its archive open: Python then printed a traceback for every rank."""
    partial = folders.begin(str(tmp_path), 5)
    (Path(partial) / FILES[1]).symlink_to("/dev/full")
    with pytest.raises(TrainingError, match="the disk is full"):
        folders.write(partial, FILES[1], {"a": np.zeros(100_000), "b": np.zeros(3)}.items())
    gc.collect()


def test_arrays_of_any_kind_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {"layer/kernel:0": np.arange(6.0).reshape(2, 3), "step": np.int64(7), "half": np.ones(2, np.float16)}
    partial = folders.begin(str(tmp_path), 5)
    folders.write(partial, FILES[0], arrays.items())
    with np.load(Path(partial) / FILES[0], allow_pickle=False) as found:
        assert {name: (found[name].dtype, found[name].tolist()) for name in found.files} == {
            name: (array.dtype, array.tolist()) for name, array in arrays.items()
        }


def test_a_file_where_a_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="There is no earlier checkpoint"):
        folders.begin(str(tmp_path / "file" / "checkpoints"), 1)


@pytest.mark.parametrize(
    "manifest",
    [
        '{"format": 1, "step": 1, "files": [{"name": "../../etc/passwd", "bytes": 1, "sha256": ""}]}',
        '{"format": 1, "step": 1, "files": [{"name": "shared.npz"}]}',
        '{"format": 1, "step": true, "files": []}',
        '{"format": 1, "step": 1, "files": {}}',
        "[" * 100_000,
        "9" * 100_000,
    ],
)
def test_a_manifest_that_was_not_written_here_is_refused(tmp_path: Path, manifest: str) -> None:
    path = save(tmp_path, 1)
    (path / "checkpoint.json").write_text(manifest)
    text = folders.problem(str(path), FILES)
    assert "checkpoint.json" in text and len(text) < 1000


def test_a_file_that_grew_is_not_read(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    os.truncate(path / FILES[0], 2**42)
    assert f"has {2**42} bytes instead of" in folders.problem(str(path), FILES)


def test_arrays_that_are_longer_than_their_file_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    content = (path / FILES[0]).read_bytes().replace(b"'shape': (", b"'shape': (9")
    (path / FILES[0]).write_bytes(content)
    with pytest.raises(TrainingError, match="cannot be read"):
        folders.read(str(path), FILES[0])


def test_every_file_is_on_the_disk_before_the_checkpoint_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, sizes = disk_calls(monkeypatch), synced_sizes(monkeypatch)
    path = save(tmp_path, 1)
    assert sizes == {file.name: file.stat().st_size for file in path.iterdir()}
    partial = tmp_path / ".partial-00000001"
    files = [f"fsync {partial / name}" for name in (*FILES, folders.MANIFEST)]
    assert calls == [*files, f"fsync {partial}", f"rename {path}", f"fsync {tmp_path}"]


def test_a_checkpoint_that_cannot_be_completed_is_one_clear_error_and_the_last_good_one_is_named(
    tmp_path: Path,
) -> None:
    good = save(tmp_path, 1)
    partial = Path(folders.begin(str(tmp_path), 2))
    (partial / folders.MANIFEST).mkdir()
    with pytest.raises(TrainingError) as caught:
        folders.commit(str(partial), 2, [], {"epoch": 2}, 1)
    assert f"The last good checkpoint is {good}. Make room and resume the run." in str(caught.value)
    assert "the folder cannot be written" in str(caught.value)
    assert folders.existing(str(tmp_path)) == [str(good)]


def test_a_manifest_counts_only_as_it_was_written(tmp_path: Path) -> None:
    path = Path(folders.commit(folders.begin(str(tmp_path), 1), 1, [], {"earlier_starts": {2: 7}, "rate": 0.1}, 1))
    assert (folders.facts_of(str(path))["format"], folders.facts_of(str(path))["step"]) == (folders.FORMAT, 1)
    text = (path / folders.MANIFEST).read_text()
    manifest(path, text.replace('"rate": 0.1', '"rate": 0.2'))
    with pytest.raises(TrainingError, match="it has changed since it was written"):
        folders.facts_of(str(path))


def test_a_newer_format_is_no_damage_and_a_manifest_has_a_limit(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    manifest(path, '{"format": 5, "step": 1, "files": []}')
    with pytest.raises(folders.NewerFormat, match="has format 5, of a newer version"):
        folders.facts_of(str(path))
    text = '{"format": 3, "step": 1, "files": []}'
    manifest(path, text + " " * (folders.LARGEST_MANIFEST - len(text)))
    assert folders.facts_of(str(path))["step"] == 1
    os.truncate(path / folders.MANIFEST, folders.LARGEST_MANIFEST + 1)
    with pytest.raises(TrainingError, match="or larger than 16 MiB"):
        folders.facts_of(str(path))
    (path / folders.MANIFEST).unlink()
    (path / folders.MANIFEST).mkdir()
    with pytest.raises(TrainingError, match="it is no file"):
        folders.facts_of(str(path))


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_folder_that_cannot_be_sent_to_the_disk_is_no_failure_and_none_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    """Some network file systems refuse it."""
    fsync, opened = os.fsync, set()

    def refuse(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            opened.add(descriptor)
            if is_refused:
                raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert folders.problem(str(save(tmp_path, 1)), FILES) == ""
    assert opened
    for descriptor in opened:
        assert not os.path.isdir(f"/proc/self/fd/{descriptor}")


def test_objects_of_python_are_neither_written_nor_read(tmp_path: Path) -> None:
    partial = folders.begin(str(tmp_path), 1)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        folders.write(partial, FILES[0], {"a": np.array([{}], dtype=object)}.items())


def test_the_checkpoint_is_one_of_the_lineage_or_not() -> None:
    lineage = folders.Lineage(3, {1: 26, 2: 30})
    names = {"step-00000099-start-3": True, "step-00000026-start-1": True, "step-00000027-start-1": False}
    names |= {"step-00000030-start-2": True, "step-00000031-start-2": False, "step-00000000": False}
    assert {name: lineage.has(f"/c/{name}") for name in names} == names
    assert folders.of_step(["/c/step-00000030-start-2", "/c/step-00000030-start-1"], 30) == "/c/step-00000030-start-2"
    assert folders.of_step([], 30) == ""


def test_a_checkpoint_whose_files_were_moved_and_linked_is_intact(tmp_path: Path) -> None:
    """As by a person who makes room on one file system."""
    path = save(tmp_path, 1)
    (tmp_path / "elsewhere").mkdir()
    for name in FILES:
        (path / name).rename(tmp_path / "elsewhere" / name)
        (path / name).symlink_to(tmp_path / "elsewhere" / name)
    assert folders.problem(str(path), FILES) == ""


def test_a_compressed_file_is_not_read(tmp_path: Path) -> None:
    """A few bytes could become more than the memory holds; `write` compresses nothing."""
    np.savez_compressed(tmp_path / FILES[0], a=np.zeros(1000))
    with pytest.raises(TrainingError, match="is compressed or contains Python objects"):
        folders.read(str(tmp_path), FILES[0])


def test_only_the_last_checkpoint_that_was_set_aside_is_kept(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        (save(tmp_path, 4) / "mark").write_text(text)
    assert sorted(os.listdir(tmp_path)) == ["step-00000004", "unused-step-00000004"]
    assert (tmp_path / "unused-step-00000004/mark").read_text() == "second"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full or the quota is used up"),
        (errno.EDQUOT, "the disk is full or the quota is used up"),
        (errno.EFBIG, "the disk is full or the quota is used up"),
        (errno.EACCES, "the folder cannot be written"),
    ],
)
def test_why_nothing_can_be_written_and_which_checkpoint_is_the_last_good_one(
    tmp_path: Path, number: int, words: str
) -> None:
    for step in (1, 2):
        newest = save(tmp_path, step)
    text = folders.failure_text(str(tmp_path / "x"), str(tmp_path), OSError(number, os.strerror(number)))
    assert f": {words} ({os.strerror(number)}). The last good checkpoint is {newest}." in text


def test_a_file_that_takes_the_place_of_another_is_whole_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("old")
    calls, sizes = disk_calls(monkeypatch), synced_sizes(monkeypatch)
    folders.put_in_place(str(path), b"new lines")
    assert calls == [f"fsync {path}.new", f"rename {path}"]
    assert (sizes, path.read_bytes(), os.listdir(tmp_path)) == ({"metrics.jsonl.new": 9}, b"new lines", [path.name])
