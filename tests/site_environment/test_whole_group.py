"""`make long`: the whole group tests/horovod with the other TensorFlow versions of docs/training.md (.venv: 2.15.1)."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.site_environment.environments import ROOT, WHOLE, made
from tests.tiers import LONG

HOURS = 3600
if LONG:

    @pytest.mark.timeout(3 * HOURS)
    @pytest.mark.parametrize("version", WHOLE)
    def test_the_group_horovod_passes(version: str) -> None:
        python = made(WHOLE[version]) / "bin" / "python"
        # As `make test` runs the group with 2.15.1: the long tier is about layouts, not about versions.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HPCLAUNCH_TIER"))}
        command = [python, "-m", "pytest", "-n", "3", "-p", "no:cacheprovider", "tests/horovod"]
        done = subprocess.run(command, cwd=ROOT, env={**own, "PYTHONPATH": str(ROOT)}, check=False)
        assert done.returncode == 0
