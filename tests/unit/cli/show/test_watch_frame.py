"""The live screen in terminals of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.cli.show.run_columns import ListedRun
from hpclaunch.cli.show.watch_frame import HELP, frame, page_of
from hpclaunch.cli.show.watch_scene import Scene
from hpclaunch.cli.show.watch_view import View
from hpclaunch.runs import Run, identity_of
from hpclaunch.runs.latest_samples import GpuUse, RankUse, RunUse
from hpclaunch.schedulers import QueuePlace
from tests.unit.cli.show.listed import a_named_run, failed, running, waiting

USE = RunUse(
    t=990.0,
    ranks=tuple(RankUse(rank=rank, cpu=cpu) for rank, cpu in enumerate([0.98, 0.97, 0.12, None])),
    gpus=tuple(
        GpuUse(node="n1", index=index, use=use, memory=12 * 10**9, total=16 * 10**9)
        for index, use in enumerate([0.9, 0.1])
    ),
    memory=3 * 10**9,
    nodes=1,
)


def scene(listed: Sequence[ListedRun], **changes: object) -> Scene:
    known = {one.run.path: one.progress for one in listed}
    made = Scene(runs=[one.run for one in listed], progress=lambda run: known[run.path], now=1000.0, asked_s=4.2)
    return replace(made, **changes)  # type: ignore[arg-type]


def drawn(view: View, shown: Scene, width: int, height: int) -> list[str]:
    lines = frame(view, shown, width, height)
    assert len(lines) == height
    texts = ["".join(text for text, _ in line) for line in lines]
    assert max(map(len, texts)) <= width
    return [text.rstrip() for text in texts]


FEW = scene([running(), waiting(), failed()], use=USE)
PLACES = {identity_of(FEW.runs[1]): QueuePlace(before=3, start=datetime(2026, 11, 24, 18, 5))}


def test_a_screen_of_80_by_24() -> None:
    lines = drawn(View(), FEW, 80, 24)
    assert lines[:5] == [
        "3 runs: 1 RUNNING, 1 PENDING, 1 FAILED                                   4 s ago",
        "  run                             state    nodes     elapsed      left  epoch",
        "> cifar-20261124-163101-00000001  RUNNING      4    01:02:05  00:09:00   6/60",
        "  cifar-20261124-163102-00000002  PENDING     16           -         -      -",
        "  cifar-20261124-163103-00000003  FAILED       1  2-02:00:00         -      -",
    ]
    assert lines[18:23] == [
        "── cifar-20261124-163101-00000001: RUNNING ─────────────────────────────────────",
        "epoch    6/60  ━━──────────────────  00:09:00 left  walltime 00:57:55 left",
        "loss     █▆▄▂▁▁  0.9 to 0.25",
        "CPU/rank ██▁?  12% to 98%; 3.0 GB of memory; 1 node, 00:00:10 ago",
        "GPU      █▁  10% to 90%; memory at most 12 GB of 16 GB",
    ]
    assert lines[23] == "[active]  q quit  l log  c cancel  s sort  r reverse  / filter  u ask  ? help"


def test_a_screen_of_60_by_20_keeps_both_ends_of_the_names() -> None:
    lines = drawn(View(), FEW, 60, 20)
    assert lines[2].startswith("> cifa…") and "00000001  RUNNING" in lines[2] and lines[2].endswith("6/60")
    assert lines[15] == "epoch    6/60  ─────  00:09:00 left  walltime 00:57:55 left"


def test_a_screen_of_200_by_50_shows_more_of_every_run() -> None:
    lines = drawn(View(), replace(FEW, places=PLACES), 200, 50)
    assert "4001" in lines[2] and "█▆▄▂▁▁" in lines[2] and "0.25" in lines[2]
    assert "3 before it, start 11-24 18:05; Priority: " in lines[3]


def test_a_terminal_without_unicode_gets_ascii_only() -> None:
    wide = drawn(View(), replace(FEW, ascii=True), 300, 50)
    assert "".join(wide).isascii()
    assert "963200" in wide[2] and "epoch    6/60  ###..." in "\n".join(wide)


@pytest.mark.parametrize("mode", ["list", "log", "help"])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (5, 3), (20, 4), (40, 13), (40, 14), (80, 24), (300, 100)])
def test_every_size_of_terminal_is_drawn(mode: str, size: tuple[int, int]) -> None:
    view = View(mode=mode, selected=FEW.runs[0].path)
    drawn(view, replace(FEW, log=["a line " * 30] * 200), *size)
    drawn(view, Scene(runs=[], progress=lambda run: RunProgress(), now=0.0), *size)


def test_a_run_that_waits_shows_its_place_and_the_reason() -> None:
    shown = replace(FEW, places=PLACES, use=None)
    lines = drawn(View(selected=FEW.runs[1].path), shown, 80, 24)
    assert lines[19] == "queue    3 jobs before it, expected start 2026-11-24 18:05"
    assert lines[20].startswith("reason   Priority: ")
    assert "before it" not in drawn(View(selected=FEW.runs[0].path), shown, 80, 24)[19]


def test_an_ended_run_shows_its_reason_and_its_epochs_and_an_array_its_states() -> None:
    one = running()
    ended = replace(one, run=replace(one.run, state="FAILED", reason="its log was gone", exit_code="1:0"))
    array = replace(waiting(2), run=a_named_run(2, "RUNNING", tasks=3, reason="3 runs: 1 RUNNING, 2 PENDING"))
    lines = drawn(View(), scene([ended]), 80, 24)
    assert "FAILED (exit code 1:0)" in lines[18] and lines[19] == "reason   its log was gone"
    assert lines[20].startswith("epoch    6/60") and lines[21].startswith("loss     ")
    lines = drawn(View(), scene([array]), 80, 24)
    assert lines[19:22] == ["reason   3 runs: 1 RUNNING, 2 PENDING", "", ""]


def test_the_page_follows_the_selection() -> None:
    runs = [a_named_run(number, "COMPLETED") for number in range(50)]
    many = Scene(runs=runs, progress=lambda run: RunProgress(), now=0.0)
    page = page_of(24)
    for place in (0, page - 1, page, 49):
        lines = drawn(View(selected=runs[place].path), many, 80, 24)
        (chosen,) = [line for line in lines[2 : 2 + page] if line.startswith("> ")]
        assert runs[place].label in chosen
    assert page_of(13) == 10 and page_of(1) == 1


def test_only_runs_on_the_screen_are_looked_at() -> None:
    looked: list[Run] = []

    def progress(run: Run) -> RunProgress:
        looked.append(run)
        return RunProgress()

    runs = [a_named_run(number % 60, "RUNNING", job_id=str(number)) for number in range(1000)]
    drawn(View(), Scene(runs=runs, progress=progress, now=0.0), 80, 24)
    assert len(looked) == page_of(24)


def test_questions_and_messages_take_the_last_line() -> None:
    run = FEW.runs[0]
    assert drawn(View(asked=run), FEW, 80, 24)[-1] == f"cancel {run.label}? [y/N]"
    assert drawn(View(typing=True, filter="ci"), FEW, 80, 24)[-1] == "filter: ci_"
    assert drawn(View(message="it is gone"), FEW, 80, 24)[-1] == "it is gone"
    assert drawn(View(filter="ci", reverse=True), FEW, 80, 24)[-1].startswith("[active reversed; filter ci]  q quit")
    assert "  no run matches 'zz'; Esc shows all" in drawn(View(filter="zz"), FEW, 80, 24)
    assert drawn(View(), replace(FEW, asked_s=None), 80, 24)[0].endswith("asking ...")
    assert drawn(View(), replace(FEW, trouble="no answer"), 80, 24)[0].endswith("no answer")


def test_a_log_ends_at_its_newest_line_and_long_lines_are_folded() -> None:
    shown = replace(FEW, log=[f"line {number}" for number in range(100)] + ["x" * 100])
    view = View(mode="log", selected=FEW.runs[0].path)
    lines = drawn(view, shown, 80, 10)
    assert lines[0] == f"log of {FEW.runs[0].label}: RUNNING"
    assert lines[1:9] == [*(f"line {number}" for number in range(94, 100)), "x" * 80, "x" * 20]
    back = drawn(replace(view, scrolled=3), shown, 80, 10)
    assert back[0].endswith("(3 lines below)") and back[8] == "line 98"
    assert drawn(replace(view, scrolled=10**9), shown, 80, 10)[1] == "line 0"
    assert drawn(view, replace(FEW, log=[]), 80, 10)[1] == "the log is still empty"


def test_help_names_every_key() -> None:
    text = "\n".join(drawn(View(mode="help"), FEW, 80, 24))
    assert all(words in text for _, words in HELP) and "any key goes back" in text
