"""A second cluster beside the one that the tests share, in a slot of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.slurm.users import as_root

_SCRIPT = str(Path(__file__).resolve().parents[1] / "cluster" / "cluster.py")


@contextlib.contextmanager
def second_cluster(cluster: Any, *options: str) -> Iterator[Path]:
    """Start it with these options of ``cluster.py start``, give its slurm.conf, and stop it at the end."""
    slot = 10 + json.loads((cluster.root / "cluster.json").read_text())["slot"]
    root = f"/var/tmp/hpclaunch-elsewhere-{slot}"
    start = [sys.executable, _SCRIPT, "start", "--root", root, "--slot", str(slot), *options]
    with as_root():
        done = subprocess.run(start, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        yield Path(root, "etc", "slurm.conf")
    finally:
        with as_root():
            subprocess.run([sys.executable, _SCRIPT, "stop", "--root", root], check=True, capture_output=True)
