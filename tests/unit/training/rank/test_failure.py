"""A failing rank: the exit code recorded once, one message, gone at once."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
from pathlib import Path

from hpclaunch.training import metrics
from hpclaunch.training.rank import failure


def test_only_the_first_exit_code_is_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "exit-code")
    assert failure.record_exit_code(7, path)
    assert not failure.record_exit_code(1, path)
    assert Path(path).read_text() == "7\n"


def test_a_missing_folder_does_not_hide_the_failure(tmp_path: Path) -> None:
    assert not failure.record_exit_code(7, str(tmp_path / "gone" / "exit-code"))


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


class HorovodInternalError(Exception):
    """As Horovod's, known by its name."""


GRPC = "Additional GRPC error information from remote target /job:worker/replica:0/task:1"


@pytest.mark.parametrize(
    ("error", "follows"),
    [
        (HorovodInternalError("any"), True),
        (RuntimeError("Horovod has been shut down. This was caused by an exception on one of the ranks"), True),
        (RuntimeError("[gloo] Read error [127.0.0.1]:5000: Connection reset by peer"), True),
        (RuntimeError(f"Collective ops is aborted by: failed to connect. {GRPC}"), True),
        (RuntimeError("Collective ops is aborted by: a shape of this rank"), False),
        (RuntimeError(GRPC), False),
        (RuntimeError("Horovod was not built with NCCL"), False),
        (ConnectionResetError("Connection reset by peer"), False),
    ],
)
def test_only_a_broken_collective_is_the_failure_of_another_rank(error: Exception, follows: bool) -> None:
    assert failure._follows_another_rank(error) is follows


@pytest.mark.parametrize("speaks", [True, False])
def test_a_shutdown_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, speaks: bool) -> None:
    """Another rank may be gone. Who says nothing lets the rank that says why be the first."""
    steps: list[object] = []

    class Thread:
        def __init__(self, target: object, daemon: bool) -> None:
            steps.append((target, daemon))

        def start(self) -> None:
            steps.append("start")

        def join(self, timeout: object = None) -> None:
            steps.append(timeout)

    monkeypatch.setattr(failure, "_shutdown_of_all", lambda: "shutdown")
    monkeypatch.setattr(failure.threading, "Thread", Thread)
    monkeypatch.setattr(failure.time, "sleep", steps.append)
    monkeypatch.setattr(failure, "record_exit_code", lambda code: steps.append(f"code {code}"))
    monkeypatch.setattr(failure, "leave", lambda code, message: steps.append((code, message)))
    error = failure.Superseded(speaks=speaks)
    failure._leave_together(error)
    pause = [] if speaks else [failure.HEAD_START_S]
    assert steps == ["code 75", ("shutdown", True), "start", failure.FINALIZE_S, *pause, (75, "")]
    assert 0 < failure.FINALIZE_S <= 60
