"""What a writer asks of the disk, in its order: which files and folders are synced, and what gets its name when."""

from __future__ import annotations

import os
from typing import Any

import pytest


def disk_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on note every sync ("fsync PATH") and every rename ("rename TO"), which are still made."""
    calls: list[str] = []
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        calls.append("fsync " + os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def moved(original: Any) -> Any:
        def move(source: Any, to: Any) -> None:
            calls.append(f"rename {to}")
            original(source, to)

        return move

    monkeypatch.setattr(os, "fsync", sync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, moved(getattr(os, name)))
    return calls


def synced_sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """From now on note how long each file was when it was last synced; what is still in a buffer is not synced."""
    sizes: dict[str, int] = {}
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not os.path.isdir(path):
            sizes[os.path.basename(path)] = os.fstat(descriptor).st_size
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return sizes
