"""The comparison with other tools: one situation with two of them, by the command that makes the page's table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.conftest import Cluster

COMPARE = Path(__file__).resolve().parents[2] / "benchmarks" / "peers" / "compare.py"
if not COMPARE.exists():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)


def test_two_tools_are_compared(cluster: Cluster, workdir: Path) -> None:
    words = [sys.executable, str(COMPARE), "--small", "--conf", str(cluster.conf), "--work", str(workdir)]
    done = subprocess.run(
        [*words, "--results", str(workdir / "results")],
        env={**os.environ, "HPCLAUNCH_PEERS_HERE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    own, other = (
        _seen(workdir / "results" / "raw" / "peers" / name / "plain-1.json") for name in ("hpclaunch", "submitit")
    )
    for seen in (own, other):
        assert (seen["state"], seen["sacct_exit_code"], len(seen["jobs"])) == ("COMPLETED", "0:0", 1)
        assert sorted(rank["rank"] for rank in seen["ranks"]) == list(range(8))
        assert {len(rank["arguments"]) for rank in seen["ranks"]} == {15}
        assert not seen["command_was_run"]
        assert seen["cpu_s"] > 0
        assert seen["verdicts"]["arguments"].startswith("yes: ")
    assert own["dry_run"]["same"], own["dry_run"]
    assert other["dry_run"] is None


def _seen(path: Path) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(path.read_text())["measured"]
    return seen
