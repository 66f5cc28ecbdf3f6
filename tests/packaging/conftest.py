"""The distribution files, built once; uv comes with `make test`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def uv_program() -> str:
    """uv beside this Python, or on PATH; without it the group cannot run."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if not found:
        pytest.skip("group packaging: needs uv (make test installs it)")
    return found


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program and keep what it says; a failure shows it."""
    # Of the session around it: its groups, and a path that would hide the installed package.
    inner = ("HPCLAUNCH_TEST_PASSED", "HPCLAUNCH_TEST_SKIPPED", "HPCLAUNCH_TEST_ELSEWHERE", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in inner}
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, env=environment)
    if check:
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="session")
def uv() -> str:
    return uv_program()


@pytest.fixture(scope="session")
def distributions(uv: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(wheel, sdist), the wheel built from the sdist, from what git tracks or would track."""
    source = tmp_path_factory.mktemp("source")
    listing = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    target = tmp_path_factory.mktemp("dist")
    run(uv, "build", "--quiet", "--out-dir", target, cwd=source)
    return next(target.glob("*.whl")), next(target.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def linters(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs that check metadata, workflows, forms and the recipe for conda."""
    environment = tmp_path_factory.mktemp("linters") / "env"
    run(uv, "venv", "--quiet", "--python", sys.executable, environment, cwd=ROOT)
    tools = ("twine>=6", "check-jsonschema>=0.30", "zizmor>=1.32", "py-rattler-build>=0.73")
    run(uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", *tools, cwd=ROOT)
    return environment / "bin"
