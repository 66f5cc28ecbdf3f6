"""Folders of tensorflow_datasets whose features only its own package decodes: read with the real package."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

try:
    import tensorflow  # noqa: F401
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests import downloaded

TEST = "tests/unit/training/input/test_tfds_folder.py"


@pytest.mark.long_tier  # its package is downloaded; what hpclaunch itself decodes is tested in every run
@pytest.mark.timeout(900)
def test_the_package_decodes_what_is_not_simple() -> None:
    """The test of the readers that needs the package, in a process that has it."""
    # Newer metadata need a newer protobuf than TensorFlow 2.15 has.
    package = downloaded.folder_of("tfds", "tensorflow-datasets>=4.9,<4.9.5", "tensorflow-metadata==1.16.*")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", TEST, "-k", "package_decodes"]
    # It runs no group of its own, so none is required of it.
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("HPCLAUNCH_")}
    done = subprocess.run(
        command,
        cwd=downloaded.ROOT,
        env={**kept, "PYTHONPATH": os.pathsep.join([str(downloaded.ROOT), package])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
