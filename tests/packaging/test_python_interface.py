"""A stranger's files against the wheel: `mypy --strict` accepts what works, and finds every mistake."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import run

STRANGERS = Path(__file__).parent / "strangers"


@pytest.fixture(scope="module")
def desk(uv: str, distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the strangers' files, and the wheel alone in an environment beside them."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("group mypy: install mypy (the dependency group 'dev')")
    folder = tmp_path_factory.mktemp("stranger")
    run(uv, "venv", "--quiet", "--python", sys.executable, folder / "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    run(uv, "pip", "install", "--quiet", "--python", python, "--no-deps", distributions[0], cwd=folder)
    for file in STRANGERS.glob("*.py"):
        shutil.copy(file, folder)
    return folder


def mypy(folder: Path, file: str) -> str:
    """What mypy prints; it is that of this Python, and looks at the packages of the other."""
    options = ("--strict", "--python-executable", folder / "env" / "bin" / "python", "--cache-dir", folder / "cache")
    clean = ("env", "-u", "PYTHONPATH", "-u", "MYPYPATH")  # or it would look at the checkout
    return run(*clean, sys.executable, "-m", "mypy", *options, file, cwd=folder, check=False).stdout


def test_the_wheel_says_that_it_is_typed(distributions: tuple[Path, Path], desk: Path) -> None:
    assert list(desk.glob("env/lib/*/site-packages/hpclaunch/py.typed"))


@pytest.mark.timeout(1200)
def test_a_strangers_file_passes_mypy_strict(desk: Path) -> None:
    assert mypy(desk, "uses_hpclaunch.py") == "Success: no issues found in 1 source file\n"


@pytest.mark.timeout(1200)
def test_mypy_finds_every_mistake(desk: Path) -> None:
    found = re.findall(r"^misuses_hpclaunch\.py:(\d+): error", mypy(desk, "misuses_hpclaunch.py"), re.MULTILINE)
    lines = (STRANGERS / "misuses_hpclaunch.py").read_text().splitlines()
    mistakes = [number for number, line in enumerate(lines, start=1) if line.startswith("hpclaunch.")]
    assert sorted(set(map(int, found))) == mistakes
