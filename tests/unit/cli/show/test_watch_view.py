"""The keys of the live screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.actions.following.progress import RunProgress
from hpclaunch.cli.show.watch_view import SORTS, Command, View, arranged, place_of, press
from hpclaunch.runs import Run
from tests.unit.cli.show.listed import a_named_run, running

STATES = ("COMPLETED", "PENDING", "FAILED", "RUNNING", "PENDING")
RUNS = [a_named_run(number, state) for number, state in enumerate(STATES)]


def no_progress(_: Run) -> RunProgress:
    return RunProgress()


def typed(view: View, keys: list[str], runs: list[Run] = RUNS, page: int = 2) -> tuple[View, list[Command]]:
    commands = []
    for key in keys:
        view, command = press(view, key, arranged(runs, view, no_progress), page)
        commands += [command] if command else []
    return view, commands


def test_runs_that_run_come_first_then_those_that_wait_newest_first() -> None:
    assert [run.state for run in arranged(RUNS, View(), no_progress)] == [
        *("RUNNING", "PENDING", "PENDING", "COMPLETED", "FAILED")
    ]
    assert arranged(RUNS, View(sort="newest"), no_progress) == RUNS
    assert arranged(RUNS, View(sort="newest", reverse=True), no_progress) == RUNS[::-1]


@pytest.mark.parametrize(("sort", "order"), [("left", [2, 1, 0]), ("epoch", [1, 2, 0]), ("loss", [1, 2, 0])])
def test_an_order_by_progress_has_unknown_runs_last(sort: str, order: list[int]) -> None:
    far = running(1, epoch=6).progress
    near = replace(running(1, epoch=3).progress, left_s=30)
    known = {RUNS[1].path: far, RUNS[2].path: near}
    found = arranged(RUNS[:3], View(sort=sort), lambda run: known.get(run.path, RunProgress()))
    assert [RUNS.index(run) for run in found] == order


def test_a_filter_names_parts_of_name_state_site_and_job() -> None:
    for words, number in (("pending", 2), ("PENDING 4001", 1), ("perl cifar", 5), ("00000003", 1), ("nothing", 0)):
        assert len(arranged(RUNS, View(filter=words), no_progress)) == number, words


def test_the_selection_moves_and_stays_on_its_run() -> None:
    view, _ = typed(View(), ["down", "j", "k"])
    first = arranged(RUNS, view, no_progress)
    assert place_of(view, first) == 1
    view, _ = typed(view, ["s"])
    assert view.sort == "newest" and arranged(RUNS, view, no_progress)[place_of(view, RUNS)] == first[1]
    for keys, place in ((["end"], 4), (["pageup"], 2), (["home", "up"], 0), (["pagedown", "pagedown", " "], 4)):
        view, _ = typed(view, keys)
        assert place_of(view, arranged(RUNS, view, no_progress)) == place
    assert place_of(view, []) == 0
    assert typed(View(), ["down", "enter", "c"], runs=[])[1] == []


def test_the_orders_are_gone_through_and_reversed() -> None:
    view, _ = typed(View(), ["s"] * len(SORTS))
    assert view.sort == SORTS[0]
    assert typed(View(), ["r"])[0].reverse and not typed(View(), ["r", "r"])[0].reverse


def test_a_cancellation_asks_first() -> None:
    view, commands = typed(View(), ["c"])
    assert (view.asked, commands) == (RUNS[3], [])
    for key in ("n", "enter", "escape", "c", "q"):
        now, commands = typed(view, [key])
        assert (now.asked, now.message, commands) == (None, "nothing was cancelled", [])
    now, commands = typed(view, ["y"])
    assert commands == [Command(name="cancel", run=RUNS[3])]
    assert now.asked is None


def test_the_run_that_is_cancelled_is_the_one_that_was_asked_about() -> None:
    view, _ = typed(View(), ["c"])
    moved = [replace(run, state="COMPLETED") if run == RUNS[3] else run for run in RUNS]
    _, commands = typed(view, ["y"], runs=moved)
    assert [command.run for command in commands] == [RUNS[3]]


def test_an_ended_run_is_not_cancelled() -> None:
    view, commands = typed(View(), ["end", "c", "y"])
    assert commands == [] and view.asked is None
    view, _ = typed(View(), ["end", "c"])
    assert view.message == f"{RUNS[2].label} has ended: it is FAILED"


def test_letters_of_a_filter_are_no_keys() -> None:
    view, commands = typed(View(), ["/", "q", "c", "x", "backspace", "up", "é"])
    assert (view.filter, view.typing, commands) == ("qcé", True, [])
    assert typed(view, ["enter"])[0] == replace(view, typing=False)
    assert typed(view, ["escape"])[0] == View()
    assert typed(replace(view, typing=False), ["escape"])[0].filter == ""
    assert len(typed(View(), ["/", *"x" * 200])[0].filter) == 60


def test_a_log_is_opened_scrolled_and_left() -> None:
    view, _ = typed(View(), ["l", "up", "pageup", "down"], page=10)
    assert (view.mode, view.selected, view.scrolled) == ("log", RUNS[3].path, 10)
    assert typed(view, ["end"])[0].scrolled == 0
    assert typed(view, ["down"] * 50)[0].scrolled == 0
    for key in ("q", "escape", "l", "enter"):
        now, commands = typed(view, [key])
        assert (now.mode, now.scrolled, commands) == ("list", 0, []), "q leaves the log, not the screen"
    array = replace(RUNS[3], tasks=9)
    view, _ = typed(View(), ["enter"], runs=[array])
    assert view.mode == "list" and view.message.endswith(f"hpclaunch watch {array.label}")


def test_help_is_left_by_any_key() -> None:
    view, _ = typed(View(), ["?"])
    assert view.mode == "help"
    assert typed(view, ["q"]) == (View(), [])


def test_keys_that_ask_for_something() -> None:
    assert [command.name for command in typed(View(), ["u", "q"])[1]] == ["ask", "quit"]
    assert typed(View(message="old"), ["x"]) == (View(), []), "any key removes a message"
