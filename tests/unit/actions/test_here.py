"""How ``submit --here`` records the end of its script."""

from __future__ import annotations

from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions import here
from hpclaunch.runs.record import save
from hpclaunch.schedulers import UNPROVEN
from tests.builders import a_run, leave_proof


def test_a_script_that_ends_with_0_has_completed_the_run_only_with_its_proof(tmp_path: Path) -> None:
    run = save(a_run(tmp_path, "by-hand-77", "RUNNING"))
    ended = here._record_end(run, 0, ())
    assert (ended.state, ended.exit_code, ended.reason) == ("FAILED", "0:0", UNPROVEN)
    assert runs.load(run.path).state == "FAILED"


def test_the_proof_of_its_own_start_counts(tmp_path: Path) -> None:
    run = save(a_run(tmp_path, "by-hand-77", "RUNNING"))
    leave_proof(run.path, "by-hand-77.0")
    assert runs.load(here._record_end(run, 0, ()).path).state == "COMPLETED"
