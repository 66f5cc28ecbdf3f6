"""How ``submit --here`` records the end of its script."""

from __future__ import annotations

from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.queueing import here
from hpclaunch.runs.record import save
from hpclaunch.schedulers import UNPROVEN
from tests.builders import a_run, leave_proof


def test_a_script_that_ends_with_0_has_completed_the_run_only_with_its_proof(tmp_path: Path) -> None:
    run = save(a_run(tmp_path, "by-hand-77", "RUNNING"))
    ended = here._record_end(run, 0, ())
    assert (ended.state, ended.exit_code, ended.reason) == ("FAILED", "0:0", UNPROVEN)
    assert runs.load(run.path).state == "FAILED"


def test_a_success_that_could_not_be_recorded_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    run = save(a_run(tmp_path, "by-hand-77", "RUNNING"))
    folder = run.path / "attempts/by-hand-77.0"
    folder.mkdir(parents=True)
    for name, text in {"started": "", "not-recorded": "the log is incomplete\n"}.items():
        (folder / name).write_text(text)
    ended = here._record_end(run, 74, ())
    assert (ended.state, ended.exit_code, ended.reason) == ("FAILED", "74:0", "the log is incomplete")


def test_the_proof_of_its_own_start_counts(tmp_path: Path) -> None:
    run = save(a_run(tmp_path, "by-hand-77", "RUNNING"))
    leave_proof(run.path, "by-hand-77.0")
    assert runs.load(here._record_end(run, 0, ()).path).state == "COMPLETED"
