"""A process in which nothing progresses ends, also one whose exit handlers wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="group training: numpy is not installed")

WAIT = "os.read(os.pipe()[0], 1)"  # for ever


@pytest.mark.parametrize("body", [WAIT, f"atexit.register(lambda: {WAIT})"], ids=["waits", "waits at exit"])
def test_a_rank_without_progress_ends(tmp_path: Path, body: str) -> None:
    script = (
        "import atexit, os\nfrom hpclaunch.training.rank import watch\n"
        f"watch.begin(0.2)\nwatch.reached('a test')\n{body}\n"
    )
    exit_file = tmp_path / "exit-code"
    environment = {"HPCLAUNCH_EXIT_FILE": str(exit_file), "PYTHONPATH": ":".join(sys.path), "RANK": "2"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("error: rank 2 on ") and "in a test: a rank hangs" in done.stderr
    assert exit_file.read_text() == "1\n"
