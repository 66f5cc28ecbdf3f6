"""Pythons with real PyTorch, JAX and mpi4py, each apart from the environment of the tests; kept in .cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(os.environ.get("HPCLAUNCH_TEST_ENVIRONMENTS") or ROOT / ".cache")
NEWER_TORCH = "2.13.0"
"""Has fully_shard, which Debian's lacks."""
SYSTEM = "/usr/bin/python3"
# Python 3.11 leaves a flag of value 0 out of a loop, so that torchrun of PyTorch 1.13 reads its default "0" as None.
TORCHRUN = """#!{python}
from torch.distributed.elastic.multiprocessing.api import Std
from torch.distributed.run import main

read = Std.from_str
Std.from_str = classmethod(lambda cls, text: Std.NONE if text == "0" else read(text))
main()
"""


def torch_environment() -> Path:
    """A venv over Debian's python3-torch (the wheel of PyPI for Linux is the build for CUDA, with gigabytes)."""
    _need("torch", "torch", "python3-torch python3-pil")
    _need("torch", "PIL", "python3-torch python3-pil")
    with _alone("torch") as venv:
        if not (venv / "bin" / "torchrun").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _run(SYSTEM, "-m", "venv", "--system-site-packages", "--without-pip", str(venv))
            program = venv / "bin" / "torchrun"
            program.write_text(TORCHRUN.format(python=venv / "bin" / "python"))
            program.chmod(0o755)
    return venv


def newer_torch_environment() -> Path:
    """A venv with NEWER_TORCH, by pip, which takes a build for CPUs where it is told of one."""
    venv = KEPT / f"torch-{NEWER_TORCH}"
    if (venv / "complete").is_file() and os.access(venv / "bin" / "python", os.X_OK):
        return venv
    if os.environ.get("CI") != "true" and os.environ.get("HPCLAUNCH_TEST_TORCH") != "1":
        pytest.skip(f"group newer-torch: downloads PyTorch {NEWER_TORCH}; set HPCLAUNCH_TEST_TORCH=1")
    with _alone("newer-torch"):
        if not (venv / "complete").is_file():
            shutil.rmtree(venv, ignore_errors=True)
            _run(SYSTEM, "-m", "venv", str(venv))
            _run(str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", f"torch=={NEWER_TORCH}", "numpy")
            (venv / "complete").touch()
    return venv


def jax_environment() -> Path:
    """A venv with JAX for CPUs from PyPI."""
    with _alone("jax") as venv:
        if not (venv / "complete").exists():
            _install_jax(venv)
    return venv


def _install_jax(venv: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if os.environ.get("CI") != "true" and os.environ.get("HPCLAUNCH_TEST_JAX") != "1":
        pytest.skip("group jax: is downloaded from PyPI; set HPCLAUNCH_TEST_JAX=1")
    if not uv:
        pytest.skip("group jax: needs uv (make test installs it)")
    shutil.rmtree(venv, ignore_errors=True)
    _run(uv, "--no-config", "venv", "--quiet", "--python", SYSTEM, str(venv))
    _run(uv, "--no-config", "pip", "install", "--quiet", "--python", str(venv / "bin" / "python"), "jax", "pillow")
    (venv / "complete").touch()


@contextlib.contextmanager
def _alone(name: str) -> Iterator[Path]:
    """Give the folder of an environment; the processes of a test run make it one after the other."""
    venv = ROOT / ".cache" / name
    venv.parent.mkdir(exist_ok=True)
    with venv.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield venv


def need_mpi4py() -> str:
    """Debian's Python, whose mpi4py is built for Debian's Open MPI."""
    _need("mpi4py", "mpi4py", "python3-mpi4py")
    return SYSTEM


def _need(group: str, module: str, packages: str) -> None:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    if not os.path.exists(SYSTEM) or subprocess.run([SYSTEM, "-I", "-c", code]).returncode:
        pytest.skip(f"group {group}: needs Debian's {module} (apt-get install {packages})")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
