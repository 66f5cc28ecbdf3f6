"""The line under a command that waits."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.cli.show import console, streams
from hpclaunch.cli.show.progress_line import ProgressLine, progress_text
from hpclaunch.cli.show.run_columns import ListedRun
from tests.unit.cli.show.listed import a_named_run, failed, running, waiting
from tests.unit.cli.show.terminals import on_a_terminal

LABEL = "cifar-20261124-163101-00000001"


def test_a_run_shows_its_epochs_and_the_time_left() -> None:
    assert progress_text([running()], 120) == (
        f"{LABEL}: RUNNING  epoch 6/60  ━━──────────────────  loss 0.25  00:09:00 left"
    )
    assert progress_text([running()], 60) == f"{LABEL}: RUNNING  epoch 6/60  loss 0…"
    unknown = replace(running(), progress=RunProgress(elapsed_s=65, walltime_left_s=535))
    assert progress_text([unknown], 120) == f"{LABEL}: RUNNING  for 00:01:05  walltime 00:08:55 left"
    assert progress_text([waiting()], 120) == "cifar-20261124-163102-00000002: PENDING"


def test_several_runs_show_how_many_have_ended() -> None:
    assert progress_text([running(), waiting(), failed()], 120) == (
        "1 of 3 runs ended  ━━━━━━━─────────────  1 RUNNING  1 PENDING  00:09:00 left of the longest"
    )
    array = replace(a_named_run(4, "RUNNING", tasks=9), counts={"RUNNING": 2, "PENDING": 3, "COMPLETED": 4})
    assert progress_text([ListedRun(run=array, progress=RunProgress())], 120) == (
        "4 of 9 runs ended  ━━━━━━━━━───────────  2 RUNNING  3 PENDING"
    )
    uncounted = replace(array, counts={})
    assert progress_text([ListedRun(run=uncounted, progress=RunProgress())], 40) == "0 of 9 runs ended  9 RUNNING"


@pytest.mark.parametrize("width", [0, 1, 5, 79, 200])
def test_the_line_fits(width: int) -> None:
    for found in ([running()], [running(), waiting()]):
        assert len(progress_text(found, width)) <= max(width, 1)


def test_a_message_takes_the_place_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_named_run(1, "PENDING")

    def show() -> None:
        line = ProgressLine()
        line.show([run])
        line.show([run])
        console.say("a message")
        console.say_log(b"part of a line")
        line.show([run])
        console.say_log(b" and its end\n")
        line.show([run])
        line.end()
        line.end()

    shown = on_a_terminal(monkeypatch, show, names=["stderr"], TERM="xterm").decode()
    clear, text = "\r\x1b[K", f"{run.label}: PENDING"
    assert shown == f"{clear}{text}{clear}a message\npart of a line and its end\n{clear}{text}{clear}"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_there_is_no_line_in_a_pipe_or_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    def show() -> None:
        ProgressLine().show([a_named_run(1, "PENDING")])
        with monkeypatch.context() as patch:
            pipe = io.TextIOWrapper(io.BytesIO())
            patch.setattr(sys, "stderr", pipe)
            patch.setenv("TERM", "xterm")
            ProgressLine().show([a_named_run(1, "PENDING")])
            assert pipe.buffer.getvalue() == b""  # type: ignore[attr-defined]
        console.say("alone")

    assert on_a_terminal(monkeypatch, show, names=["stderr"], TERM=term) == b"alone\n"
    assert streams.columns() > 0
