"""A failing rank: the exit code recorded once, one message, gone at once."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def test_all_ranks_end_their_communication_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod ends JAX's as well, if a program has both; a program with neither has nothing to end."""
    strategy_ranks = "hpclaunch.training.rank.strategy_ranks"
    for name in ("horovod.tensorflow", "jax", strategy_ranks):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert failure._shutdown_of_all() is None
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(distributed=SimpleNamespace(shutdown="of jax")))  # type: ignore[arg-type]
    assert failure._shutdown_of_all() == "of jax"
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", SimpleNamespace(shutdown="of horovod"))  # type: ignore[arg-type]
    assert failure._shutdown_of_all() == "of horovod"
    monkeypatch.setitem(sys.modules, strategy_ranks, SimpleNamespace(end="of the strategy"))  # type: ignore[arg-type]
    assert failure._shutdown_of_all() == "of the strategy"


def test_a_rank_is_named_by_horovod_else_by_the_launcher_else_by_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_begun() -> int:
        raise ValueError("Horovod has not been initialized; use hvd.init().")

    monkeypatch.setattr(failure.socket, "gethostname", lambda: "node17")
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", SimpleNamespace(rank=lambda: 3))  # type: ignore[arg-type]
    assert failure.who() == "rank 3 on node17"
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", SimpleNamespace(rank=not_begun))  # type: ignore[arg-type]
    assert failure.who() == "rank 5 on node17"
    monkeypatch.delitem(sys.modules, "horovod.tensorflow")
    assert failure.who() == "rank 5 on node17"
    for text in ("", None):
        monkeypatch.setenv("RANK", "") if text == "" else monkeypatch.delenv("RANK")
        assert failure.who() == "node17"


def test_who_failed_first_is_told_as_far_as_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / "exit-code.rank"
    monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", str(tmp_path / "exit-code"))
    assert failure._failed_first() == ""
    name.write_bytes(b"rank 3 on \xff")
    assert failure._failed_first() == ""
    name.write_text("r" * 301)
    assert failure._failed_first() == "r" * 300


def test_the_first_to_fail_leaves_its_code_and_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "exit-code"
    monkeypatch.setattr(failure, "who", lambda: "rank 3 on node17")
    monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", str(path))
    assert failure.first_to_fail(256), "of which the system keeps 0"
    assert (path.read_text(), Path(f"{path}.rank").read_text()) == ("1\n", "rank 3 on node17")
    monkeypatch.setattr(failure, "who", lambda: "rank 4 on node18")
    assert not failure.first_to_fail(7)
    assert (path.read_text(), Path(f"{path}.rank").read_text()) == ("1\n", "rank 3 on node17")
    for nowhere in ("", str(tmp_path / "gone/exit-code")):
        monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", nowhere)
        assert failure.first_to_fail(7), "what cannot be known silences no rank"


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (failure.RunAgain("saved", speaks=True), 75, "saved\n"),
        (failure.RunAgain("saved", speaks=False), 75, ""),
        (failure.AgreedError("no luck", speaks=True), 1, "error: no luck\n"),
        (failure.AgreedError("no luck", speaks=False), 1, ""),
        (KeyboardInterrupt(), 130, "error: rank 3 on node17: interrupted\n"),
        (failure.TrainingError("no\nluck"), 1, "error: rank 3 on node17: no\nluck\n"),
        (SystemExit("no luck"), 1, "error: no luck\n"),
        (SystemExit(7), 7, ""),
        (SystemExit(512), 1, ""),
    ],
)
def test_a_rank_that_ends_says_so_once_and_leaves_its_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
    said: str,
) -> None:
    path, waited = tmp_path / "exit-code", []

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", str(path))
    monkeypatch.delenv("HPCLAUNCH_START", raising=False)
    monkeypatch.setattr(failure.os, "_exit", end)
    monkeypatch.setattr(failure.time, "sleep", waited.append)
    monkeypatch.setattr(failure, "who", lambda: "rank 3 on node17")
    monkeypatch.setattr(failure, "_shutdown_of_all", lambda: None)
    with pytest.raises(Ended) as ended, failure.reported():
        raise raised
    assert (ended.value.args, path.read_text(), capsys.readouterr().err) == ((code,), f"{code}\n", said)
    speaks: Any = getattr(raised, "speaks", True)
    assert waited == ([] if speaks else [failure.HEAD_START_S]), "the rank that says why ends first"


@pytest.mark.parametrize("code", [0, None])
def test_a_program_that_ends_well_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: object) -> None:
    monkeypatch.setenv("HPCLAUNCH_EXIT_FILE", str(tmp_path / "exit-code"))
    with pytest.raises(SystemExit), failure.reported():
        raise SystemExit(code)
    assert not list(tmp_path.iterdir())
