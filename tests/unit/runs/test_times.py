"""The elapsed time of a run by the markers of its script."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hpclaunch.runs.times import began_at, took
from tests.builders import a_run


def attempt(run_dir: Path, name: str, started: str, **markers: str) -> Path:
    folder = run_dir / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "started").write_text(started)
    for marker, text in markers.items():
        (folder / marker.replace("_", "-")).write_text(text)
    return folder


def test_a_run_takes_from_the_beginning_of_its_last_start_to_the_end_of_its_script(tmp_path: Path) -> None:
    run = a_run(tmp_path, "7")
    assert (began_at(run), took(run)) == (None, None)
    attempt(run.path, "7.0", "2026-01-02T03:00:00Z", exit_code="75")
    folder = attempt(run.path, "7.1", "2026-01-02T03:04:05Z\n", exit_code="0")
    began = began_at(run)
    assert began == 1767323045.0
    os.utime(folder / "exit-code", (began + 90, began + 90))
    assert took(run) == 90.0
    os.utime(folder / "exit-code", (began - 1, began - 1))
    assert took(run) == 0.0, "two clocks may differ"


def test_a_script_that_was_ended_left_the_seconds_until_then(tmp_path: Path) -> None:
    run = a_run(tmp_path, "7")
    folder = attempt(run.path, "7.0", "2026-01-02T03:00:00Z")
    assert took(run) is None, "killed: nothing says when"
    (folder / "terminated").write_text("33")
    assert took(run) == 33.0


def test_the_times_of_a_run_of_an_array_are_its_own(tmp_path: Path) -> None:
    array = a_run(tmp_path, "7")
    task = replace(array, path=array.path / "0001", index=1, job_id="7_1")
    attempt(array.path, "7_1.0", "2026-01-01T00:00:00Z", exit_code="0")  # as another program may have left it
    folder = attempt(task.path, "7_1.0", "2026-01-02T03:04:05Z", exit_code="0")
    os.utime(folder / "exit-code", (1767323045.0 + 90,) * 2)
    assert (began_at(task), took(task)) == (1767323045.0, 90.0)
    (folder / "exit-code").unlink()
    (folder / "terminated").write_text("33")
    assert took(task) == 33.0


def test_a_damaged_time_is_none(tmp_path: Path) -> None:
    run = a_run(tmp_path, "7")
    attempt(run.path, "7.0", "yesterday", exit_code="0")
    assert (began_at(run), took(run)) == (None, None)
