"""Tests of units, goldens and properties start no process: one that does fails with a sentence."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.source_tree import CHECKOUT
from tests.no_processes import no_processes

PROBE = """\
import subprocess

import pytest


@pytest.fixture(scope="session")
def made():
    subprocess.run(["true"])


def test_in_a_fixture(made):
    pass


def test_in_the_test():
    try:
        subprocess.run(["true"])
    except BaseException:
        pass


def test_none():
    pass
"""


def fork() -> None:
    if os.fork() == 0:
        os._exit(0)


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"]),
        lambda: os.posix_spawnp("true", ["true"], {}),
        lambda: os.spawnlp(os.P_WAIT, "true", "true"),
        lambda: os.system("true"),
        lambda: os.popen("true"),
        lambda: multiprocessing.get_context("fork").Process(target=print).start(),
        fork,
    ],
    ids=["subprocess", "posix_spawn", "spawn", "system", "popen", "multiprocessing", "fork"],
)
def test_every_way_to_start_a_process_is_refused(start: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"a test in tests/unit starts a process \("), no_processes("unit"):
        start()


def test_a_program_can_be_started_afterwards() -> None:
    with no_processes("unit"):
        pass
    assert subprocess.run(["true"]).returncode == 0


@pytest.mark.parametrize(
    ("folder", "refused"), [("unit", True), ("golden", True), ("property", True), ("script", False), ("cli", False)]
)
def test_a_test_fails_where_none_may_be_started_even_if_its_code_goes_on(
    tmp_path: Path, folder: str, refused: bool
) -> None:
    for name in ("pyproject.toml", "tests/conftest.py", "tests/no_processes.py", "tests/tiers.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(CHECKOUT / name, tmp_path / name)
    (tmp_path / "tests" / folder).mkdir()
    (tmp_path / "tests" / folder / "test_probe.py").write_text(PROBE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    inner = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH_", "PYTEST_"))}
    done = subprocess.run(command, cwd=tmp_path, env=inner, capture_output=True, text=True, check=False)
    end = done.stdout.splitlines()[-1]
    assert end.startswith("1 failed, 1 passed, 1 error in" if refused else "3 passed in"), done.stdout
    assert (f"tests/{folder} starts a process (subprocess.Popen ['true'])" in done.stdout) is refused
