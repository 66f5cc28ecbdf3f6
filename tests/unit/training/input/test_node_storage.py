"""Staging to a node's disk: complete or not at all, once a node; and what rank 0 hands to all."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from hpclaunch.training.input import datasets, loading, node_storage
from hpclaunch.training.input.source import DataError
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World
from tests.unit.training.input.test_readers import CIFAR10, arrays, write_batches, write_folders
from tests.unit.training.several_ranks import on_ranks


def world(local_rank: int = 0) -> World:
    return World(local_rank, 1, local_rank, 2, "node1", "CPU", 1, "")


@pytest.mark.parametrize("layout", ["npz", "npz file", "folders", "pickles"])
def test_the_copy_is_the_same_data_set(tmp_path: Path, layout: str) -> None:
    shared = tmp_path / "shared"
    if layout.startswith("npz"):
        shared.mkdir()
        np.savez(shared / "cifar10.npz", **arrays(CIFAR10))
        shared = shared / "cifar10.npz" if layout == "npz file" else shared
    elif layout == "folders":
        write_folders(shared)
    else:
        write_batches(shared / "cifar-10-batches-py", arrays(CIFAR10))
    source = datasets.open_dataset(str(shared), CIFAR10)
    local = node_storage.staged(world(), source, str(tmp_path / "local"))
    expected = None if layout == "folders" else source.read("train", np.arange(40))
    shutil.rmtree(tmp_path / "shared")
    assert local.path.startswith(str(tmp_path / "local")) and local.counts == source.counts
    assert local.fingerprint_here() == source.fingerprint == type(local)(CIFAR10, local.path).fingerprint
    if expected is not None:
        assert all((a == b).all() for a, b in zip(local.read("train", np.arange(40)), expected, strict=True))
    assert [path.name for path in (tmp_path / "local").iterdir()] == [f"cifar10-{source.fingerprint}-{os.geteuid()}"]
    # A second run finds the copy; another rank of the node copies nothing.
    assert node_storage.staged(world(), source, str(tmp_path / "local")).path == local.path
    node_storage.staged(world(local_rank=1), source, str(tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


def test_the_first_rank_of_every_node_copies(tmp_path: Path) -> None:
    """Two nodes of two ranks, each with a disk of its own: not only rank 0's node needs the data."""
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    places = on_ranks(4, tmp_path, lambda one: node_storage.staged(one, source, str(tmp_path / one.host)), per_node=2)
    shutil.rmtree(tmp_path / "shared")
    for rank, local in enumerate(places):
        assert local.path.startswith(str(tmp_path / f"node{rank // 2}")), local
        assert type(local)(CIFAR10, local.path).fingerprint == source.fingerprint


def test_every_piece_of_a_copy_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_storage, "PIECE", 100)
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    before = watch.this_rank.count
    node_storage.staged(world(), source, str(tmp_path / "local"))
    assert watch.this_rank.count - before == sum(-(-os.path.getsize(path) // 100) for path in source.files())


def test_a_variable_of_the_node_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "disk"))
    assert node_storage.staged(world(), source, "$NODE_DISK/sets").path.startswith(str(tmp_path / "disk" / "sets"))
    assert node_storage.staged(world(), source, "") is source
    monkeypatch.delenv("NODE_DISK")
    with pytest.raises(AgreedError, match=r"\$NODE_DISK/sets on node1: .* a variable that is not set"):
        node_storage.staged(world(), source, "$NODE_DISK/sets")
    with pytest.raises(AgreedError, match=r"disk on node1: .* is not an absolute path"):
        node_storage.staged(world(), source, "disk")


def fails(source: Any, folder: Path) -> str:
    with pytest.raises(AgreedError) as error:
        node_storage.staged(world(), source, str(folder))
    return str(error.value)


def test_what_does_not_fit_or_breaks_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    file = tmp_path / "file"
    file.write_bytes(b"")
    assert f"{file / 'x'} on node1: the data set cannot be staged" in fails(source, file / "x")
    (tmp_path / "shared" / "test" / "class9" / "0.jpg").unlink()
    text = fails(source, tmp_path / "local")
    assert "cannot be staged" in text and "class9/0.jpg" in text and "next: name another folder" in text
    assert not list((tmp_path / "local").iterdir())
    (tmp_path / "shared" / "test" / "class9" / "0.jpg").write_bytes(b"")
    (tmp_path / "shared" / "test" / "class0" / "0.jpg").write_bytes(b"x" * 5000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: argparse.Namespace(free=4096))
    assert "needs 0.0 MiB, but only 0.0 MiB are free" in fails(source, tmp_path / "local")


def test_made_up_data_are_not_staged(tmp_path: Path) -> None:
    source = Synthetic(CIFAR10, 8, 1)
    assert node_storage.staged(world(), source, str(tmp_path)) is source and not list(tmp_path.iterdir())


def test_rank_0s_failure_is_everybodys() -> None:
    def broken() -> None:
        raise DataError("the file is gone")

    assert loading.from_root(world(), lambda: 3) == 3
    with pytest.raises(AgreedError, match=r"^the file is gone$"):
        loading.from_root(world(), broken)
    with pytest.raises(AgreedError, match=r"unforeseen:(.|\n)*ZeroDivisionError"):
        loading.from_root(world(), lambda: 1 / 0)


def test_classes_that_only_the_test_has(tmp_path: Path) -> None:
    made = arrays(CIFAR10)
    made["y_train"] = made["y_train"] % 9
    np.savez(tmp_path / "cifar10.npz", **made)
    with pytest.raises(DataError, match=r"classes differ: the training data lack \[9\]"):
        datasets.open_dataset(str(tmp_path), CIFAR10)


def test_a_host_without_a_class_folder_is_noticed(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path)), CIFAR10)
    assert source.fingerprint_here() == source.fingerprint
    shutil.rmtree(tmp_path / "test" / "class4")
    with pytest.raises(DataError, match="class4: the class folder is missing on this host"):
        source.fingerprint_here()


def test_a_folder_that_others_made_or_may_write_is_refused(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    local = tmp_path / "local"
    local.mkdir()
    local.chmod(0o777)
    assert "can be changed by other users (mode 777" in fails(source, local)
    local.chmod(0o1777)  # as /tmp and /dev/shm: the copy in it is the user's alone
    copy = Path(node_storage.staged(world(), source, str(local)).path).parent
    assert copy.stat().st_mode & 0o077 == 0
    copy.chmod(0o770)
    assert "can be changed by other users (mode 770" in fails(source, local)
    shutil.rmtree(copy)
    copy.symlink_to(tmp_path / "shared")
    assert "is not a folder" in fails(source, local)


@pytest.mark.skipif(os.geteuid() != 0, reason="group root: only root can give a folder away")
def test_a_copy_of_another_user_is_refused(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    local = tmp_path / "local"
    copy = Path(node_storage.staged(world(), source, str(local)).path).parent
    os.chown(copy, 12345, -1)
    assert "belongs to another user (uid 12345)" in fails(source, local)
    os.chown(local, 12345, -1)
    assert "belongs to another user (uid 12345)" in fails(source, local)


def test_a_folder_that_staging_makes_is_the_users_own(tmp_path: Path) -> None:
    source = datasets.open_dataset(str(write_folders(tmp_path / "shared")), CIFAR10)
    before = os.umask(0o002)  # usual where every user has a group of their own
    try:
        node_storage.staged(world(), source, str(tmp_path / "local"))
    finally:
        os.umask(before)
    assert (tmp_path / "local").stat().st_mode & 0o077 == 0
