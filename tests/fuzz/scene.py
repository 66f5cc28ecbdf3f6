"""Where hostile input meets hpclaunch: a project folder of its own, watched by a guard, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis.strategies import SearchStrategy

from hpclaunch.core.errors import HpclaunchError
from tests.fuzz.guard import Guard

COMPILED = "home/.cache/hpclaunch/templates"
"""Where any command line may leave compiled templates."""
KEPT = "home/.cache/hpclaunch/files"
"""Where any command line may keep what it has read of YAML files."""


@dataclass
class Scene:
    """``place`` holds the project folder and the home. ``outcome``: what became of the last input.

    ``expected`` are the errors that may refuse an input. ``store`` is for what a way prepares once.
    """

    place: Path
    guard: Guard
    expected: tuple[type[Exception], ...] = (HpclaunchError,)
    outcome: str = "result"
    store: dict[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def met(self, *allowed: Path) -> Iterator[None]:
        """One input: it may be refused with an error that says something; any other exception is a failure."""
        self.outcome = "result"
        try:
            with self.guard.armed(*allowed):
                yield
        except self.expected as error:
            faults = getattr(error, "faults", None)
            assert str(error) if faults is None else faults and all(fault.what for fault in faults)
            str(error).encode("utf-8", "surrogateescape")
            self.outcome = "refused"


def nothing(scene: Scene) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Way:
    """A way in: how its inputs are made, what is done with one, and what must be made before the first."""

    inputs: SearchStrategy[tuple[Any, ...]]
    feed: Callable[..., None]
    prepare: Callable[[Scene], None] = nothing


@contextlib.contextmanager
def furnished() -> Iterator[Scene]:
    """A project folder in which a person works, with a home beside it; no program is on PATH."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # as many small files as there are inputs
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=memory) as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name).resolve()
        (folder / COMPILED).mkdir(parents=True)
        (folder / "project/jobs/train").mkdir(parents=True)
        (folder / "project/jobs/train/train.py").write_text("print()\n")
        (folder / "project/jobs/train/job.yaml").write_text("{summary: trains, script: train.py}\n")
        for variable in [name for name in os.environ if name.startswith(("HPCLAUNCH", "SLURM", "SBATCH", "XDG"))]:
            patch.delenv(variable)
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("PATH", str(folder))
        patch.chdir(folder / "project")
        patch.setattr(sys, "dont_write_bytecode", True)
        yield Scene(folder, Guard())
        assert not list(folder.rglob("pwned"))
