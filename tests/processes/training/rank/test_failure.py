"""How a rank ends: its exit code recorded once, one message, gone at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="group training: numpy is not installed")


# TensorFlow 2.15's UnavailableError on a rank of multiworker, when the other one was killed.
GRPC = (
    "Graph execution error: Collective ops is aborted by: Socket closed\nAdditional GRPC error information from remote "
    "target /job:worker/replica:0/task:1 while calling /tensorflow.WorkerService/RecvBuf:"
)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no luck')", 1, "error: no luck"),
        ("raise failure.TrainingError('what and where')", 1, "what and where"),
        ("raise failure.AgreedError('once', speaks=True)", 1, "error: once"),
        ("raise failure.AgreedError('once', speaks=False)", 1, ""),
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("raise RuntimeError('Horovod has been shut down')", 1, "another rank ended"),
        (f"raise RuntimeError({GRPC!r})", 1, "another rank ended"),
        ("raise RuntimeError('Collective ops is aborted by: out of memory')", 1, "Traceback"),
    ],
)
def test_how_a_rank_ends(tmp_path: Path, body: str, code: int, said: str) -> None:
    script = (
        "import atexit, sys\nfrom hpclaunch.training.rank import failure\n"
        "atexit.register(lambda: print('exit handlers ran'))\n"
        f"with failure.reported():\n    {body}\n"
    )
    exit_file = tmp_path / "exit-code"
    environment = {"HPCLAUNCH_EXIT_FILE": str(exit_file), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == code
    assert said in done.stderr and (said or not done.stderr)
    assert exit_file.exists() == (code != 0)
    assert ("exit handlers ran" in done.stdout) == (code == 0)
    if code:
        assert exit_file.read_text() == f"{code}\n"
