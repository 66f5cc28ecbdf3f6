"""Packages that no set-up installs: put into a folder of their own, beside this Python's packages, on first use.

The folder is in .cache, or in HPCLAUNCH_TEST_ENVIRONMENTS, where CI keeps it between its runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEPT = Path(os.environ.get("HPCLAUNCH_TEST_ENVIRONMENTS") or ROOT / ".cache")


def folder_of(group: str, *requirements: str, apart: bool = False) -> str:
    """A folder for PYTHONPATH with the packages, in versions that fit those of this Python, installed by uv.

    apart: they need not fit, because a process uses nothing else.

    In CI they are downloaded; elsewhere only if HPCLAUNCH_TEST_GROUP is 1, else the test is skipped.
    """
    beside = "" if apart else metadata.version("protobuf")  # TensorFlow needs its own
    asked = hashlib.sha256("\n".join([*requirements, beside, sys.version]).encode()).hexdigest()[:12]
    kept = KEPT / f"{group}-{asked}"
    if (kept / "complete").is_file():
        return str(kept)
    variable = f"HPCLAUNCH_TEST_{group.upper().replace('-', '_')}"
    if os.environ.get("CI") != "true" and os.environ.get(variable) != "1":
        pytest.skip(f"group {group}: is downloaded from PyPI; set {variable}=1")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not uv:
        pytest.skip(f"group {group}: needs uv (make test installs it)")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    have = subprocess.run([uv, "pip", "freeze", "--python", sys.executable], capture_output=True, text=True, check=True)
    pinned = [line for line in have.stdout.splitlines() if "==" in line]
    (kept / "have.txt").write_text("\n".join(pinned) + "\n")
    options = ["--quiet", "--python", sys.executable, "--target", str(kept)]
    options += [] if apart else ["--constraints", str(kept / "have.txt")]
    step = [uv, "--no-config", "pip", "install", *options, *requirements]
    done = subprocess.run(step, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (kept / "complete").touch()
    return str(kept)
