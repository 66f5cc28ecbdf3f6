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
        ("sys.exit(256)", 1, ""),  # of which the system would keep 0
        ("sys.exit(-1)", 255, ""),
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


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('Horovod has been shut down')", "stopped because rank 3 on node17 ended\n"),
        ("raise ValueError('no\\nluck')", "failed after rank 3 on node17: ValueError: no\n"),
        ("raise failure.TrainingError('no\\nluck')", "failed after rank 3 on node17: no\n"),
        ("sys.exit('no luck')", "failed after rank 3 on node17: no luck\n"),
    ],
)
def test_a_rank_that_fails_after_another_names_it_in_one_line(tmp_path: Path, body: str, said: str) -> None:
    exit_file = tmp_path / "exit-code"
    exit_file.write_text("7\n")
    (tmp_path / "exit-code.rank").write_text("rank 3 on node17")
    script = f"import sys\nfrom hpclaunch.training.rank import failure\nwith failure.reported():\n    {body}\n"
    environment = {"HPCLAUNCH_EXIT_FILE": str(exit_file), "PYTHONPATH": ":".join(sys.path), "RANK": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("rank 1 on ") and done.stderr.endswith(": " + said)
    assert done.stderr.count("\n") == 1
    assert exit_file.read_text() == "7\n"


def test_the_first_rank_that_fails_leaves_its_name(tmp_path: Path) -> None:
    script = "from hpclaunch.training.rank import failure\nwith failure.reported():\n    1 / 0\n"
    environment = {"HPCLAUNCH_EXIT_FILE": str(tmp_path / "code"), "PYTHONPATH": ":".join(sys.path), "RANK": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert "stopped by the ZeroDivisionError below\nTraceback" in done.stderr
    assert (tmp_path / "code.rank").read_text().startswith("rank 1 on ")
