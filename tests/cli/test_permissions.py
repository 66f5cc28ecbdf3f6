"""Folders that this user may not read: other people's runs in a shared project, and what lies beside known runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.cli.test_runs_kept import submit


@pytest.fixture
def forbidden(ordinary_user: Desk) -> Iterator[Path]:
    """A run directory in the project's folder of runs that may not be entered, as if it were another user's."""
    run = submit(ordinary_user, 1)
    index = ordinary_user.home / ".local/state/hpclaunch/runs.txt"
    index.unlink()  # another user's list
    run.chmod(0)
    yield run
    run.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [("status",), ("results",), ("logs",), ("wait",), ("runs", "list"), ("runs", "clean", "--older-than", "30d")],
    ids=" ".join,
)
def test_another_users_run_is_named_and_passed_over(ordinary_user: Desk, forbidden: Path, words: tuple[str]) -> None:
    mine = submit(ordinary_user, 2)
    ordinary_user.fake("sacct", out="2|COMPLETED|0:0\n")
    done = ordinary_user.type(*words)
    assert done.code == 0, done.err
    # The newest run of the user is found without a look at the others.
    names_it = f"skipped 1 folder that you may not read: {forbidden}\n" in done.err
    assert names_it == (words not in (("logs",), ("wait",)))
    if words not in (("logs",), ("runs", "clean", "--older-than", "30d")):
        assert mine.name in done.out + done.err


def test_where_all_runs_are_other_users_there_is_none_yet(ordinary_user: Desk, forbidden: Path) -> None:
    done = ordinary_user.type("logs")
    assert (done.code, "there is no run yet" in done.err) == (1, True)


def test_a_named_run_of_another_user_is_not_called_unknown(ordinary_user: Desk, forbidden: Path) -> None:
    for name in (forbidden.name, str(forbidden)):
        done = ordinary_user.type("status", name)
        assert (done.code, f"{forbidden}: you may not read this" in done.err) == (1, True)
        assert f"next: ls -ld {forbidden}" in done.err


def test_rebuild_passes_over_what_it_may_not_read(ordinary_user: Desk, forbidden: Path) -> None:
    mine = submit(ordinary_user, 2)
    index = ordinary_user.home / ".local/state/hpclaunch/runs.txt"
    index.write_text(f"/etc\n{mine}\n")  # beside /etc lie folders that only root may enter
    done = ordinary_user.type("runs", "rebuild", "--json")
    assert done.code == 0, done.err
    assert (done.json["runs"], done.json["forgotten"]) == ([str(mine)], ["/etc"])
    assert str(forbidden) in done.json["not_permitted"]
    assert "that you may not read: " in done.err


def test_rebuild_forgets_no_run_because_its_folder_is_closed_now(ordinary_user: Desk) -> None:
    run = submit(ordinary_user, 1)
    run.parent.chmod(0)
    try:
        done = ordinary_user.type("runs", "rebuild", "--json")
    finally:
        run.parent.chmod(0o700)
    assert (done.code, done.json["runs"], done.json["forgotten"]) == (0, [str(run)], [])
    assert json.loads((run / "run.json").read_text())["job_id"] == "1"


def test_a_folder_of_runs_that_may_not_be_listed_stops_nothing(ordinary_user: Desk) -> None:
    run = submit(ordinary_user, 1)
    run.parent.chmod(0o311)
    try:
        done = ordinary_user.type("status", "--json")
    finally:
        run.parent.chmod(0o700)
    assert (done.code, [row["run_dir"] for row in done.runs]) == (0, [str(run)])
    assert f"that you may not read: {run.parent}" in done.err
