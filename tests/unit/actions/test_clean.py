"""Deleting run directories: what another process did meanwhile is no error."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions import clean
from hpclaunch.actions.system import System
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
