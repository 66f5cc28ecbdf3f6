"""The record of a run that belongs to somebody else, read by a process of another user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import NotFound


@pytest.fixture
def anothers() -> Iterator[Path]:
    """A run directory below a folder that everybody may enter, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        run = Path(folder, "run")
        run.mkdir()
        (run / "run.json").write_text("{}")
        yield run
        run.chmod(0o700)


def as_somebody_else(path: Path) -> str:
    """What loading the run tells a person who does not own it: root becomes nobody for it, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        words = "it was read"
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            runs.load(path)
        except NotFound as error:
            words = str(error)
        finally:
            os.write(writer, words.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        words = answer.read()
    os.waitpid(child, 0)
    return words


def test_another_persons_run_is_told_from_a_damaged_one(anothers: Path) -> None:
    assert "the record cannot be read: it has no name" in as_somebody_else(anothers)
    (anothers / "run.json").chmod(0)
    assert "run.json: you may not read this: it belongs to another user" in as_somebody_else(anothers)
    anothers.chmod(0)
    assert f"{anothers}: you may not read this: it belongs to another user" in as_somebody_else(anothers)
