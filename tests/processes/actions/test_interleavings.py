"""Submissions, questions and retries at random moments: no job is lost, and none is queued twice.

``HPCLAUNCH_INTERLEAVINGS=1000 pytest tests/processes/actions/test_interleavings.py`` plays as many as the page on
reliability reports; `make test` plays the first of them: as many as have each of EVENTS and of the states below.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.processes.actions.simulated_slurm import play

NUMBER = int(os.environ.get("HPCLAUNCH_INTERLEAVINGS", "0"))
SEED = 20_261_123
EVENTS = {
    "submit was killed": "submit is killed",
    "a process was stopped": "is stopped until",
    "sbatch took more than its 120 s": "-> 120.0 s, 124",
    "status found the job": "status: squeue --noheader --states=all",
    "a retry called sbatch": "retry: sbatch",
}
"""What must happen in some of the interleavings: the words by which their stories tell it."""


PARTS = 3
"""The arrays that a divided sweep is submitted as."""

FOUND = {0: [20_261_535], PARTS: [20_261_155, 20_261_374, 20_262_003]}
"""Seeds that have found a defect. They are played each time."""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tasks", [0, PARTS], ids=["one job", "a divided array"])
def test_no_job_is_lost_and_none_is_queued_twice(tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "srun", "timeout"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/false\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    states: Counter[str] = Counter()
    events: Counter[str] = Counter()
    number_of_them = NUMBER // 2 or 20 if tasks else NUMBER or 16
    for seed in dict.fromkeys([*range(SEED, SEED + number_of_them), *FOUND[tasks]]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        result = play(seed, folder, tasks)
        told = "\n".join([f"seed {result.seed}: {result.state} {result.job_ids}, live {result.live}", *result.story])
        assert not result.is_lost, told
        assert result.most_at_once <= 1, told
        assert result.state in ("PENDING", "NOT_SUBMITTED", "RENDERED"), told  # RENDERED: killed before sbatch
        states[result.state] += 1
        events.update(name for name, words in EVENTS.items() if any(words in line for line in result.story))
    print(f"{number_of_them} interleavings from seed {SEED}: {dict(states)}, 0 lost, 0 doubled; {dict(events)}")
    assert {"PENDING", "NOT_SUBMITTED"} <= states.keys()
    assert set(events) == set(EVENTS)
