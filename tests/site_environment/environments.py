"""Environments as sites have them: one TensorFlow, and the Horovod compiled for it. hpclaunch is not installed.

Each takes some minutes to make and is kept in .cache, or in HPCLAUNCH_TEST_ENVIRONMENTS; CI makes those of CASES.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(os.environ.get("HPCLAUNCH_TEST_ENVIRONMENTS") or ROOT / ".cache" / "site-environments")
HEADERS = ROOT / "tools" / "horovod-headers"
THIS_PYTHON = "{}.{}".format(*sys.version_info)


@dataclass(frozen=True)
class Stack:
    """What is installed. tf_keras: its version, from TensorFlow 2.16 on.

    whole: with Gloo beside MPI, and with what the tests of this checkout need. With MPI alone, as many sites have it,
    Horovod compiles in two thirds of the time.
    """

    python: str
    tensorflow: str
    tf_keras: str = ""
    whole: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return "{}-python{}{}".format(self.tensorflow, self.python, "-whole" if self.whole else "")


CASES = {"oldest": Stack("3.8", "2.12.1"), "newest": Stack(THIS_PYTHON, "2.20.0", "2.20.1")}
WHOLE = {
    "2.12.1": Stack(THIS_PYTHON, "2.12.1", whole=True),
    "2.18.1": Stack(THIS_PYTHON, "2.18.1", "2.18.0", whole=True),
    "2.20.0": Stack(THIS_PYTHON, "2.20.0", "2.20.1", whole=True),
}


@cache
def made(stack: Stack) -> Path:
    """The folder of the environment, made by uv on first use. Skips the test where that is not possible."""
    folder = KEPT / stack.name
    # Its Python may be of another user's installation (root's, where CI runs as a newcomer).
    if (folder / "complete").is_file() and os.access(folder / "bin" / "python", os.X_OK):
        return folder
    uv, python = _tools(stack)
    shutil.rmtree(folder, ignore_errors=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    into = [uv, "--no-config", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    steps = [
        [uv, "--no-config", "venv", "--quiet", "--python", python, str(folder)],
        [*into, f"tensorflow-cpu=={stack.tensorflow}", "cmake<4", "setuptools<69", "wheel"],
        [*into, "cloudpickle", "psutil", "pyyaml", "packaging"],  # what Horovod depends on
        # tf-keras depends on `tensorflow`, whose files are those of tensorflow-cpu.
        *([[*into, "--no-deps", f"tf-keras=={stack.tf_keras}"]] if stack.tf_keras else []),
        # Without uv's cache, which may hold a Horovod that was compiled for another TensorFlow.
        [*into, "--no-build-isolation", "--no-deps", "--no-cache", "horovod==0.28.1"],
        *([[*into, "-r", str(ROOT / "pyproject.toml"), "--group", "test"]] if stack.whole else []),
    ]
    for step in steps:
        done = subprocess.run(step, env=_build(stack, folder), capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (folder / "complete").touch()
    return folder


def _build(stack: Stack, folder: Path) -> dict[str, str]:
    """The variables of Horovod's build."""
    parts = ["WITH_TENSORFLOW", "WITH_MPI", "WITH_GLOO" if stack.whole else "WITHOUT_GLOO"]
    built = {f"HOROVOD_{name}": "1" for name in (*parts, "WITHOUT_PYTORCH", "WITHOUT_MXNET")}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"  # cmake
    # Two files at once: eight without MAKEFLAGS, one after the other with those of `make test TESTS=…`.
    return {**os.environ, **built, "PATH": path, "CPLUS_INCLUDE_PATH": str(HEADERS), "MAKEFLAGS": "-j2"}


def _tools(stack: Stack) -> tuple[str, str]:
    """The paths of uv and of the environment's Python."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if os.environ.get("CI") != "true" and os.environ.get("HPCLAUNCH_TEST_SITE_ENVIRONMENT") != "1":
        pytest.skip("group site-environment: takes minutes; set HPCLAUNCH_TEST_SITE_ENVIRONMENT=1")
    if not shutil.which("mpicxx"):
        pytest.skip("group site-environment: needs MPI's compiler (mpicxx)")
    if not uv:
        pytest.skip("group site-environment: needs uv (make test installs it)")
    found = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", "--system", stack.python],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"group site-environment: Python {stack.python} is not installed")
    return uv, found.stdout.strip()
