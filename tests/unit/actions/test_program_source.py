"""Which modules a program may import: its own files are read, and what cannot be seen without running it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpclaunch.actions.preparing.program_source import with_program_imports
from hpclaunch.config.job import Job
from hpclaunch.resolve.environment.framework import stated_framework
from tests.builders import a_case, a_context, a_job


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def looked_at(folder: Path, command: tuple[str, ...] = (), **changes: Any) -> Job:
    """The job of a command that is typed in a folder, or else of its script train.py, once its source was read."""
    job = a_job(command=command, **changes) if command else a_job(folder=str(folder), source_only=True, **changes)
    context = a_context(cwd=str(folder), environment={"PATH": "/usr/bin:/bin"})
    return with_program_imports(a_case(job=job, context=context)).job


def test_modules_beside_the_program_are_read_too_and_are_none_of_others(tmp_path: Path) -> None:
    write(
        tmp_path, train="import os, model\nfrom data import load\n", model="import torch.nn as nn\n", data="import h5py"
    )
    job = looked_at(tmp_path)
    assert job.may_import is not None
    assert {"torch", "h5py"} <= set(job.may_import) and not {"model", "data"} & set(job.may_import)
    assert job.unread == "what torch imports is not known"


def test_the_framework_is_found_in_a_module_two_files_away(tmp_path: Path) -> None:
    write(tmp_path, train="import first\n", first="import second\n", second="def f():\n    import jax\n")
    case = a_case(job=a_job(folder=str(tmp_path), source_only=True), context=a_context(cwd=str(tmp_path)))
    assert stated_framework(case) == ("", None)
    assert stated_framework(with_program_imports(case)) == ("imports jax", "jax")


@pytest.mark.parametrize(
    "command", [("python3", "other.py"), ("python3", "-m", "other"), ("env", "A=1", "python3", "other.py")]
)
def test_the_python_of_a_typed_command_is_read(tmp_path: Path, command: tuple[str, ...]) -> None:
    write(tmp_path, other="import tensorflow\n")
    assert "tensorflow" in (looked_at(tmp_path, command, source_only=True).may_import or ())


@pytest.mark.parametrize(
    ("command", "unread"),
    [
        (("python3", "-m", "not_here"), "which modules python3 -m not_here imports is not known"),
        (("python3.11", "-c", "import torch"), "which modules python3.11 -c import torch imports is not known"),
        (("./run.sh",), "run.sh starts Python, and which modules that imports is not known"),
        (("./plain.sh",), ""),
        (("./simulation",), ""),
    ],
)
def test_what_cannot_be_seen_is_said_and_not_guessed(tmp_path: Path, command: tuple[str, ...], unread: str) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/bash\npython3 train.py\n")
    (tmp_path / "plain.sh").write_text("#!/bin/bash\n# python3 train.py\nhostname\n")
    job = looked_at(tmp_path, command, source_only=True)
    assert (job.may_import, job.unread) == ((), unread)


def test_a_name_that_is_only_known_at_run_time_is_a_reason(tmp_path: Path) -> None:
    write(tmp_path, train="import importlib, sys\nimportlib.import_module(sys.argv[1])\n")
    assert looked_at(tmp_path).unread


def test_a_program_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    assert looked_at(tmp_path).may_import is None
