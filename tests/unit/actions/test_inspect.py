"""Comparing runs: what was asked for, used or found and is not the same in all."""

from __future__ import annotations

import json
from pathlib import Path

from hpclaunch import runs
from hpclaunch.actions.following import inspect
from tests.builders import a_run


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
