"""What the script and cancel leave in a run directory, read for the present job only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import Run, markers
from tests.builders import a_run, leave_proof


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return a_run(tmp_path, "7")


def began(run: Run, start: str, **marks: str) -> None:
    folder = run.path / "attempts" / start
    folder.mkdir(parents=True)
    for name, text in {"started": "", **marks}.items():
        (folder / name.replace("_", "-")).write_text(text)


def test_a_cancelled_job_is_marked_and_its_array_marks_all_its_tasks(run: Run) -> None:
    assert not markers.was_cancelled(run)
    for job_id in ("8", "7"):
        markers.mark_cancelled(run, job_id)
    assert markers.was_cancelled(run) and markers.was_cancelled(replace(run, job_id="7_3"))
    assert not markers.was_cancelled(replace(run, job_id="9"))
    assert not markers.was_cancelled(replace(run, job_id=""))
    assert " uid " in (run.path / "cancelled/7").read_text()
    task = replace(run, path=run.path / "0003", index=3, job_id="7_3")
    assert markers.was_cancelled(task), "the array's folder holds the mark"


def test_a_mark_that_cannot_be_written_stops_no_cancel(run: Run) -> None:
    (run.path / "cancelled").write_text("")
    markers.mark_cancelled(run, "7")
    assert not markers.was_cancelled(run)


def test_the_end_of_a_start_elsewhere_is_asked_for_by_its_job(run: Run) -> None:
    assert not markers.is_asked_to_end(run)
    markers.ask_to_end(run, "by-hand-8")
    markers.ask_to_end(run, "by-hand-7")
    assert markers.is_asked_to_end(replace(run, job_id="by-hand-7"))
    assert not markers.is_asked_to_end(run)
    assert not markers.was_cancelled(replace(run, job_id="by-hand-7"))


def test_the_last_start_is_that_of_the_present_job(run: Run) -> None:
    assert markers.last_start(run) == ""
    for start in ("7.2", "7.10", "70.0", "8.0"):
        began(run, start)
    assert (markers.last_start(run), markers.starts_of(run)) == ("7.10", ["7.2", "7.10"])


@pytest.mark.parametrize(
    ("text", "successor"), [("12\n", "12"), ("12;lab\n", "12"), ("", ""), ("x\n", ""), ("-1\n", ""), (None, None)]
)
def test_a_successor_is_what_the_last_start_of_a_job_has_submitted(
    run: Run, text: str | None, successor: str | None
) -> None:
    began(run, "7.0", next_job="11\n")
    began(run, "7.1", **({} if text is None else {"next_job": text}))
    assert markers.successor_of(run, "7") == successor
    assert markers.successor_of(run, "8") is None
    assert markers.successor_of(run, "") is None


def test_only_the_last_start_proves_success(run: Run) -> None:
    assert not markers.is_complete(run)
    began(run, "7.0")
    leave_proof(run.path, "7.0")
    assert markers.is_complete(run)
    began(run, "7.1")
    assert not markers.is_complete(run)


@pytest.mark.parametrize(
    ("mark", "alone"), [("7.1 script\n", True), ("7.1 4\n", False), ("7.1\n", False), ("7.1 script 4\n", False)]
)
def test_a_mark_of_a_batch_script_says_that_no_ranks_were_counted(run: Run, mark: str, alone: bool) -> None:
    began(run, "7.0", completed="7.0 script\n" if not alone else "7.0 4\n")
    began(run, "7.1", completed=mark)
    assert markers.is_of_script_alone(run) is alone


@pytest.mark.parametrize(("text", "seconds"), [("0\n", 0), ("30\n", 30), ("x\n", None), ("", None), (None, None)])
def test_the_time_of_sigterm_is_that_of_the_last_start(run: Run, text: str | None, seconds: int | None) -> None:
    assert markers.seconds_until_term(run) is None
    began(run, "7.0", terminated="5\n")
    began(run, "7.1", **({} if text is None else {"terminated": text}))
    assert markers.seconds_until_term(run) == seconds
