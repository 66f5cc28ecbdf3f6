"""What runs left: comparing them; deleting their directories, where another process may have been meanwhile."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions import inspect
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
    assert inspect.delete(world, found, told.append) == [found[1]]
    assert (len(told), found[0].label in told[0]) == (1, True)
    assert runs.indexed(world.index) == [found[0].path], "the one that was deleted here is forgotten"


def test_runs_differ_in_the_values_of_their_parameters_not_in_how_these_reach_the_program(tmp_path: Path) -> None:
    program = ["python", "train.py"]
    told = [
        ([["epochs", "12"], ["crop", "0"]], [*program, "--default=epochs=12"]),
        ([["epochs", "12"], ["crop", "4"]], [*program, "--epochs=12", "--crop=4", "--lr=3"]),
        ([["epochs", "12"], ["crop", "0"]], [*program, "--crop=8"]),  # an argument of the program's own wins
        ("damaged", program),
    ]
    found = []
    for number, (parameters, command) in enumerate(told):
        found.append(runs.save(a_run(tmp_path, str(number))))
        (found[-1].path / "spec.json").write_text(json.dumps({"parameters": parameters, "command": command}))
    assert inspect.differences(found) == [
        ("--epochs", ["12", "12", "12", ""]),
        ("--crop", ["0", "4", "8", ""]),
        ("--lr", ["", "3", "", ""]),
    ]
