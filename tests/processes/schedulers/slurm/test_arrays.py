"""The arrays that this Slurm accepts, from a fake ``scontrol show config``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.spec import Sweep
from hpclaunch.runs import Jobs, identity_of
from hpclaunch.schedulers import NEVER_BEGUN, Status
from hpclaunch.schedulers.slurm.arrays import cancelled_while_waiting, ids_in, ids_to_query, objections
from hpclaunch.schedulers.slurm.configuration import configuration
from tests.builders import a_run, planned

SWEEP = Sweep(axes=(("seed", ("1", "2", "3")), ("augment", ("true", "false"))))


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ("MaxArraySize            = 1001\nMaxJobCount             = 10000", []),
        ("MaxArraySize            = 6\nMaxJobCount             = 6", []),
        ("MaxArraySize            = 1\nMaxJobCount             = 6", []),  # it is divided
        ("MaxArraySize            = 1\nMaxJobCount             = 5", ["MaxJobCount: at most 5 runs"]),
        ("MaxArraySize            = 0\nMaxJobCount             = 10", ["MaxArraySize: "]),
        ("MaxArraySize            = (null)\nMaxJobCount             = 0", []),
        ("", []),
    ],
)
def test_an_array_that_is_larger_than_a_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, found: list[str]
) -> None:
    (tmp_path / "scontrol").write_text(f"#!/bin/bash\n[ \"$1\" = ping ] || echo '{limits}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ("MaxArraySize" in configuration()) is bool(limits)
    faults = objections(replace(planned(), sweep=SWEEP))
    assert [f"{fault.where}: {fault.allowed}" for fault in faults] == found
    assert objections(planned()) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4711", ["4711"]),
        ("4711_7", ["4711_7"]),
        ("4711+0", ["4711"]),
        ("4711_[3,5-7%4]", ["4711_3", "4711_5", "4711_6", "4711_7"]),
        ("4711_[0-6:3]", ["4711_0", "4711_3", "4711_6"]),
    ],
)
def test_a_first_column_names_one_job_or_those_of_an_array(text: str, found: list[str]) -> None:
    assert list(ids_in(text)) == found


def test_of_several_tasks_their_array_is_asked_for_once() -> None:
    assert ids_to_query(["7_1", "8", "7_2", "9_4", "8"]) == ["7", "8", "9_4"]


def test_a_task_that_was_cancelled_while_it_waited_never_began(tmp_path: Path) -> None:
    array = replace(a_run(tmp_path, "7"), tasks=6, state="PENDING")
    others = [runs.task_of(array, index) for index in range(6)]
    waited, listed, late, began, ran, ended = others
    began.path.joinpath("attempts/7_3.0").mkdir(parents=True)
    began.path.joinpath("attempts/7_3.0/started").touch()
    ran, ended = replace(ran, state="RUNNING"), replace(ended, state="COMPLETED")
    single = a_run(tmp_path, "8", state="PENDING")
    jobs = Jobs([waited, listed, late, began, ran, ended, single])
    accounted = {
        identity_of(listed): Status(state="RUNNING"),
        identity_of(late): Status(state="PENDING"),
    }
    found = cancelled_while_waiting(list(jobs), jobs, accounted)
    assert found == {identity_of(waited): NEVER_BEGUN, identity_of(late): NEVER_BEGUN}
    assert cancelled_while_waiting(list(jobs), jobs, {}) == {}, "accounting may not know the array yet"
