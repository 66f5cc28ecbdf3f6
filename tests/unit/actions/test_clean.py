"""Deleting run directories: what another process did meanwhile is no error."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.following import clean
from hpclaunch.actions.system import System
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run


def test_a_run_that_another_cleaned_meanwhile_keeps_no_other_from_being_deleted_and_forgotten(tmp_path: Path) -> None:
    created = "2026-01-02T03:04:05Z"
    found = [runs.save(replace(a_run(tmp_path, job_id, state="COMPLETED"), created=created)) for job_id in "12"]
    world = System(cwd=tmp_path, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    for run in found:
        runs.remember(world.index, run.path)
    shutil.rmtree(found[0].path)
    told: list[str] = []
    assert clean.delete(world, found, told.append) == [found[1]]
    assert (len(told), found[0].label in told[0]) == (1, True)
    assert runs.indexed(world.index) == [found[0].path], "the one that was deleted here is forgotten"


def test_clean_covers_what_was_submitted_here_or_lies_here(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    inside = runs.save(a_run(here, "1", state="COMPLETED"))
    submitted_here = runs.save(a_run(there, "2", state="COMPLETED"))
    (submitted_here.path / "request.json").write_text(json.dumps({"cwd": str(here / "below")}))
    elsewhere = runs.save(a_run(there, "3", state="COMPLETED"))
    (elsewhere.path / "request.json").write_text("[]")
    found = [inside, submitted_here, elsewhere]
    assert clean.of_folder(System(cwd=here), found) == [inside, submitted_here]
    assert clean.of_folder(System(cwd=tmp_path), found) == found
    assert clean.of_folder(System(cwd=tmp_path / "other"), found) == []


def test_a_run_of_others_is_none_of_the_newest_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned repository may hold records of the year 9999."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = []
    for job_id, day in (("1", "2026-01-01"), ("2", "2026-01-02"), ("3", "9999-01-01")):
        ended_run = a_run(tmp_path, job_id, state="COMPLETED")
        run = replace(ended_run, created=f"{day}T00:00:00Z", token=new_token())
        found.append(runs.save(run))
    older, newer, stranger = found
    for run in (older, newer):
        assert runs.list_own(tmp_path / "state/hpclaunch", run) == ""
    now = datetime(2026, 2, 1, tzinfo=timezone.utc)
    newest_first = [stranger, newer, older]
    ended, kept = clean.cleanable(newest_first, timedelta(0), 1, now)
    assert (ended, kept) == ([older], [])
    assert clean.cleanable(newest_first, timedelta(0), 0, now.replace(year=9999)) == ([newer, older], [stranger])
