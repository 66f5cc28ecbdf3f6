"""Whether a start is superseded: by the next claim alone, asked of the server and not of a cache."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.training.rank import fence, stopping
from hpclaunch.training.rank.failure import AgreedError, Superseded
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The claims of a run whose start 2 this is."""
    monkeypatch.setenv("HPCLAUNCH_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("HPCLAUNCH_START", "2")
    monkeypatch.setattr(stopping, "_looked_at", [-stopping.LOOK_S])
    folder = tmp_path / "claims"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("found", "superseded"),
    [
        ((), False),
        ((1,), False),
        ((1, 2), False),
        ((1, 2, 3), True),
        ((3,), True),
        ((1, 2, 3, 4), True),
        ((22,), False),
    ],
)
def test_a_start_is_superseded_by_the_claim_after_its_own(
    claims: Path, found: tuple[int, ...], superseded: bool
) -> None:
    for number in found:
        (claims / str(number)).touch()
    assert fence.is_superseded() == superseded


@pytest.mark.parametrize("text", [None, "", "two", "-2", "²"])
def test_without_a_number_there_is_no_fence(claims: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    for number in range(4):
        (claims / str(number)).touch()
    monkeypatch.delenv("HPCLAUNCH_START")
    if text is not None:
        monkeypatch.setenv("HPCLAUNCH_START", text)
    assert (fence.number(), fence.is_superseded()) == (0, False)


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_run_directory_there_is_no_fence(
    claims: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """The working folder may be that of another run."""
    (claims / "3").touch()
    monkeypatch.chdir(claims.parent)
    monkeypatch.delenv("HPCLAUNCH_RUN_DIR")
    if text is not None:
        monkeypatch.setenv("HPCLAUNCH_RUN_DIR", text)
    assert not fence.is_superseded()


def test_a_claim_that_is_a_broken_link_counts(claims: Path) -> None:
    (claims / "3").symlink_to("nowhere")
    assert fence.is_superseded()


def test_what_cannot_be_seen_ends_no_training(claims: Path) -> None:
    claims.rmdir()
    assert not fence.is_superseded()
    claims.touch()
    assert not fence.is_superseded()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_name_that_cannot_be_looked_up_ends_no_training(
    claims: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A fault of the file system is no later start; and no look leaves a folder open."""
    looked_up: list[int] = []

    def stat(name: str, *, dir_fd: int, follow_symlinks: bool) -> None:
        looked_up.append(dir_fd)
        raise OSError(number, os.strerror(number), name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat)
        found = fence.is_superseded()
    (folder,) = looked_up
    assert not found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(folder)


def test_the_folder_is_opened_before_the_name_is_looked_up_in_it(claims: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stat of the path alone would be answered from the cache of an NFS client for up to a minute."""
    calls: list[Any] = []

    def spy(name: str) -> None:
        original = getattr(os, name)

        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            result = original(path, *arguments, **options)
            calls.append((name, path, options.get("dir_fd"), result if name == "open" else None))
            return result

        monkeypatch.setattr(os, name, call)

    (claims / "3").touch()
    for name in ("open", "stat", "close"):
        spy(name)
    assert fence.is_superseded()
    descriptor = calls[0][3]
    opened = ("open", str(claims), None, descriptor)
    assert calls == [opened, ("stat", "3", descriptor, None), ("close", descriptor, None, None)]


def test_all_ranks_end_together_when_rank_0_sees_the_claim(
    claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "LOOK_S", 0.0)

    def work(world: World) -> bool:
        return stopping.concluded(world, world.gather(stopping.state(world)))

    assert on_ranks(3, tmp_path, work) == [False] * 3
    (claims / "3").touch()
    found = on_ranks(3, tmp_path, work)
    assert [(type(one), one.speaks) for one in found] == [(Superseded, True), (Superseded, False), (Superseded, False)]
    assert all(isinstance(one, AgreedError) and one.exit_code == 75 for one in found)


def test_only_rank_0_looks_and_now_and_then(claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (claims / "3").touch()
    now = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    assert on_ranks(2, tmp_path, stopping.state) == [(False, True), (False, False)]
    now[0] += 100
    assert stopping.state(SimpleNamespace(is_root=False)) == (False, False)  # type: ignore[arg-type]
    assert on_ranks(1, tmp_path, stopping.state) == [(False, True)]
    for seconds, looks in ((9.5, False), (0.5, True), (9.9, False)):
        now[0] += seconds
        assert on_ranks(1, tmp_path, stopping.state) == [(False, looks)]
