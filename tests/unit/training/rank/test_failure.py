"""A failing rank: the exit code recorded once, one message, gone at once."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
import subprocess
import sys
from pathlib import Path

from hpclaunch.training import metrics
from hpclaunch.training.rank import failure

# TensorFlow 2.15's UnavailableError on a rank of multiworker, when the other one was killed.
GRPC = (
    "Graph execution error: Collective ops is aborted by: Socket closed\nAdditional GRPC error information from remote "
    "target /job:worker/replica:0/task:1 while calling /tensorflow.WorkerService/RecvBuf:"
)


def test_only_the_first_exit_code_is_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "exit-code")
    assert failure.record_exit_code(7, path)
    assert not failure.record_exit_code(1, path)
    assert Path(path).read_text() == "7\n"


def test_a_missing_folder_does_not_hide_the_failure(tmp_path: Path) -> None:
    assert not failure.record_exit_code(7, str(tmp_path / "gone" / "exit-code"))


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


def test_metrics_are_whole_marked_lines(tmp_path: Path) -> None:
    log = metrics.metrics_log(str(tmp_path), True, synthetic=True)
    log.write("start", job="x")
    log.write("epoch", loss=np.float64(0.5).item())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "epoch"]
    assert all(line["synthetic"] is True and line["time"] > 0 for line in lines)


def test_other_ranks_write_no_metrics(tmp_path: Path) -> None:
    metrics.metrics_log(str(tmp_path), False, synthetic=False).write("start")
    assert not list(tmp_path.iterdir())


def test_metrics_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(failure.TrainingError, match="cannot write metrics"):
        metrics.metrics_log(str(tmp_path / "gone"), True, synthetic=False).write("start")
