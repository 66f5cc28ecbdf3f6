"""Without a cluster: doctor runs its probe on this machine, with two real ranks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_local_installation_passes(tmp_path: Path) -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH", "SLURM"))}
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hpclaunch", "doctor", "--local", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    report = json.loads(done.stdout)
    told = {check["name"]: (check["verdict"], check["what"]) for check in report["checks"]}
    assert done.returncode == 0, told
    assert told["ranks"] == ("PASS", f"2 on 1 node x 2 tasks, as requested: {os.uname().nodename} 2")
    assert told["MPI"][0] == told["TensorFlow"][0] == told["Horovod"][0] == "PASS"
    assert told["shared paths"][0] == "PASS"
