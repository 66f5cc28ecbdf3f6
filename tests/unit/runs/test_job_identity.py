"""A job is known by more than its number."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import JobIdentity, Jobs, identity_of
from hpclaunch.runs.job_identity import CLOCKS_S, epoch_of
from tests.builders import a_run

THEN = "2026-11-28T00:00:19Z"


def test_it_cannot_be_made_from_a_number_alone() -> None:
    with pytest.raises(TypeError, match="missing 3 required positional arguments"):
        JobIdentity("4711")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'cluster', 'home', and 'submitted'"):
        JobIdentity(job_id="4711")  # type: ignore[call-arg]
    identity = JobIdentity("lab", "4711_7", "/runs/a", 5)
    with pytest.raises(AttributeError):
        identity.job_id = "4712"  # type: ignore[misc]
    assert identity.array_id == "4711"


def test_it_says_where_and_when_the_run_was_submitted(tmp_path: Path) -> None:
    run = replace(a_run(tmp_path, "7"), cluster="lab", created="2026-11-27T00:00:00Z", submitted=THEN)
    assert identity_of(run) == JobIdentity("lab", "7", str(run.path), 1795824019)
    older = replace(run, submitted="")
    assert identity_of(older).submitted == epoch_of(run.created) == 1795737600
    assert identity_of(replace(older, created="damaged")).submitted == 0


def test_times_of_records_are_in_utc_wherever_hpclaunch_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-7")
    time.tzset()
    try:
        epoch_of.cache_clear()
        assert epoch_of(THEN) == 1795824019
    finally:
        monkeypatch.undo()
        time.tzset()
        epoch_of.cache_clear()


def test_an_answer_about_another_submission_is_about_another_job(tmp_path: Path) -> None:
    run = replace(a_run(tmp_path, "7"), submitted=THEN)
    job, then, home = identity_of(run), epoch_of(THEN), str(run.path)
    for when in (then - CLOCKS_S, then, then + 1, then + 10**9):  # of a job that is queued again the time is later
        assert job.is_job(home, when)
    for when in (then - CLOCKS_S - 1, 0):
        assert not job.is_job(home, when)
    assert not job.is_job("/elsewhere", then)
    assert job.is_job(home, None), "an answer without a time is no reason to doubt the run's own folder"
    for folder in ("/elsewhere", ""):
        assert not job.is_job(folder, None)
    assert identity_of(replace(run, submitted="")).is_job(home, None), "an old record does not know when"


def test_the_folder_of_a_job_is_known_under_every_name(tmp_path: Path) -> None:
    """By the same text also where it is gone by now, in any bytes, and by another path to it."""
    home = tmp_path / os.fsdecode(b"caf\xe9")
    home.mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path)
    printed = os.fsencode(home).decode(errors="replace")
    job = JobIdentity("lab", "7", str(home), 5)
    assert job.is_job(printed, 5) and not job.is_job(str(tmp_path), 5)
    (tmp_path / "plain").mkdir()
    plain = JobIdentity("lab", "8", str(tmp_path / "plain"), 5)
    assert plain.is_job(str(tmp_path / "scratch/plain"), 5) and not plain.is_job("", 5)
    assert not plain.is_job("a\0b", 5)
    gone = JobIdentity("lab", "9", str(tmp_path / "gone"), 5)
    assert gone.is_job(str(tmp_path / "gone"), 5)


def test_two_runs_with_one_number_are_two_jobs(tmp_path: Path) -> None:
    os.makedirs(tmp_path / "other")
    one, other = a_run(tmp_path, "7"), a_run(tmp_path / "other", "7")
    jobs = Jobs([one, other])
    assert len(jobs) == 2
    assert [jobs[job] for job in jobs.numbered("7")] == [one, other]
    assert [jobs[job] for job in jobs.numbered("7") if job.is_job(str(other.path), 5)] == [other]
