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
