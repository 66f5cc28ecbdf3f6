from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import SchedulerError
from hpclaunch.runs import Jobs, Run, identity_of
from hpclaunch.schedulers import UNPROVEN, Search, Status, local
from tests.builders import leave_proof, local_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return local_run(tmp_path)


def state(run: Run) -> Status:
    return local.states(Jobs([run]))[identity_of(run)]


UNSEEN = Status(state="UNKNOWN", reason="no process of it is seen from here, and it wrote no exit code")


@pytest.mark.parametrize(
    ("code", "recorded", "expected"),
    [
        ("0", "RUNNING", Status(state="COMPLETED", exit_code="0:0")),
        ("7", "RUNNING", Status(state="FAILED", exit_code="7:0")),
        ("124", "RUNNING", Status(state="FAILED", exit_code="124:0")),  # of the program: see the next test
        ("143", "CANCELLED", Status(state="CANCELLED", exit_code="143:0")),
        ("", "RUNNING", UNSEEN),
    ],
)
def test_an_ended_run_is_known_by_its_mark(run: Run, code: str, recorded: str, expected: Status) -> None:
    ended = replace(run, job_id="999999999", state=recorded)
    (run.path / "attempts/999999999.0").mkdir()
    (run.path / "attempts/999999999.0/exit-code").write_text(code)
    if code == "0":
        assert state(ended) == Status(state="FAILED", exit_code="0:0", reason=UNPROVEN)
        leave_proof(run.path, "999999999.0")
    assert state(ended) == expected


def test_a_run_has_timed_out_only_if_its_script_says_so(run: Run) -> None:
    ended = replace(run, job_id="999999999")
    start = run.path / "attempts/999999999.0"
    start.mkdir()
    (start / "exit-code").write_text("124")
    (start / "overdue").write_text("60\n")
    assert state(ended) == Status(state="TIMEOUT", exit_code="124:0")


def test_the_proof_counts_although_the_exit_code_is_missing(run: Run) -> None:
    leave_proof(run.path, "999999999.0")
    (run.path / "attempts/999999999.0/exit-code").unlink()
    (run.path / "attempts/999999999.0/started").write_text("2026-11-28T03:00:00Z\n")
    assert state(replace(run, job_id="999999999")) == Status(state="COMPLETED", exit_code="0:0")


def test_a_number_that_belongs_to_another_process_by_now_is_not_the_run(run: Run) -> None:
    assert state(replace(run, job_id=str(os.getpid()))) == UNSEEN


def test_a_run_of_another_machine_is_unknown_here(run: Run) -> None:
    assert state(replace(run, job_id="1", host="elsewhere")) == Status(state="UNKNOWN", reason="it runs on elsewhere")


def test_a_run_of_another_machine_is_not_ended_here(run: Run) -> None:
    """A process with its number is another one."""
    with pytest.raises(SchedulerError, match=f"{run.label} runs on elsewhere") as caught:
        local.cancel([run, replace(run, job_id=str(os.getpid()), host="elsewhere")])
    assert caught.value.faults[0].next == f"cancel it there, not on {os.uname().nodename}"


def test_what_markers_do_not_name_may_still_exist(run: Run) -> None:
    for start in ("7.1", "7.0", "8.0"):
        (run.path / "attempts" / start).mkdir()
        (run.path / "attempts" / start / "started").touch()
    assert local.search([run]) == Search(jobs={run.path: ("7", "8")}, answered=True, certain=False)


def test_what_to_type_to_cancel(run: Run) -> None:
    assert local.cancel_command(run) == f"hpclaunch cancel {run.path.name}"
