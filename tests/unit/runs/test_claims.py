"""What hpclaunch itself writes among a run's claims: a job that waits is the next, an ended one is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.runs import began_by_hand, holder_of, release, reserve, start_after
from hpclaunch.runs.claims import _add_claim
from tests.builders import a_run


def texts(run: Path) -> list[str]:
    return [(run / "claims" / str(n + 1)).read_text().strip() for n in range(len(list((run / "claims").iterdir())))]


def test_a_job_that_waits_has_the_directory(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert holder_of(run.path) == ""
    reserve(run, "4711")
    assert (holder_of(run.path), texts(run.path)) == ("4711", ["4711.0"])


def test_a_job_that_has_already_begun_or_another_one_is_not_overruled(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.path / "claims").mkdir()
    (run.path / "claims/1").write_text("4711.0 node1 77 1234\n")
    reserve(run, "4711")
    reserve(run, "4712")
    assert texts(run.path) == ["4711.0 node1 77 1234"]


def test_a_run_that_is_started_again_is_released_from_any_of_its_jobs(tmp_path: Path) -> None:
    run = a_run(tmp_path, job_id="4711", state="FAILED")
    reserve(run, "4711")
    release(run)
    assert (holder_of(run.path), texts(run.path)) == ("", ["4711.0", "free"])
    release(run)
    reserve(run, "4712")
    assert texts(run.path) == ["4711.0", "free", "4712.0"]
    release(replace(run, job_id="4720", earlier=("4711", "4712")))
    assert holder_of(run.path) == ""


def test_a_job_that_is_none_of_the_runs_keeps_the_directory(tmp_path: Path) -> None:
    run = a_run(tmp_path, job_id="4711", state="FAILED")
    reserve(run, "4799")
    release(run)
    assert texts(run.path) == ["4799.0"]


def test_a_task_of_an_array_is_released_by_its_own_name(tmp_path: Path) -> None:
    run = a_run(tmp_path, job_id="4711_7", state="FAILED")
    (run.path / "claims").mkdir()
    (run.path / "claims/1").write_text("4711_7.2 node1 77 1234\n")
    release(run)
    assert texts(run.path)[-1] == "free"


def test_a_start_that_was_faster_is_not_superseded_by_the_claim_of_its_job(tmp_path: Path) -> None:
    folder = a_run(tmp_path).path / "claims"
    folder.mkdir()
    (folder / "1").write_text("4711.0 node1 1 1\n")
    _add_claim(folder, 1, "4711.0")
    assert [file.name for file in folder.iterdir()] == ["1"]
    assert (folder / "1").read_text() == "4711.0 node1 1 1\n"


def test_where_the_claims_were_removed_the_numbers_of_earlier_starts_do_not_come_again(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for start in ("1.0", "1.1"):
        (run.path / "attempts" / start).mkdir(parents=True)
        (run.path / "attempts" / start / "started").touch()
    reserve(run, "4711")
    assert [file.name for file in (run.path / "claims").iterdir()] == ["7"]


def test_where_nothing_can_be_written_the_script_is_left_to_find_out(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.path / "claims").write_text("")
    reserve(run, "4711")
    release(run)
    assert holder_of(run.path) == ""


@pytest.mark.parametrize(
    ("claim", "began"),
    [
        ("by-hand-77.0 node1 77 1234", "1234"),
        ("by-hand-77.3 node1 77 1234", "1234"),
        ("by-hand-77.0 node1 66 1234", ""),
        ("by-hand-66.0 node1 66 1234", ""),
        ("4711.0 node1 77 1234", ""),
        ("by-hand-77.0", ""),
        ("", ""),
    ],
)
def test_the_beginning_of_a_start_by_hand_is_that_in_its_own_claim(tmp_path: Path, claim: str, began: str) -> None:
    run = a_run(tmp_path, job_id="by-hand-77")
    assert began_by_hand(run) == ""
    (run.path / "claims").mkdir()
    (run.path / "claims/1").write_text(f"{claim}\n")
    assert began_by_hand(run) == began


def test_the_newest_claim_is_that_of_the_highest_number_and_other_names_are_none(tmp_path: Path) -> None:
    run = a_run(tmp_path, job_id="4711", state="FAILED")
    (run.path / "claims").mkdir()
    for name, text in {"9": "4700.0 n1 1 1", "10": "4711.0 n1 1 1", "x11": "1.0", ".12": "1.0", "١٣": "1.0"}.items():
        (run.path / "claims" / name).write_text(f"{text}\n")
    assert holder_of(run.path) == "4711"
    release(run)
    assert (run.path / "claims/11").read_text() == "free\n"
    assert not [file for file in (run.path / "claims").iterdir() if file.name.startswith(".") and file.name != ".12"]
    (run.path / "claims/12").write_text("4799.0\n")
    assert holder_of(run.path) == "4799", "a claim may hold the start alone"


def test_a_run_without_a_job_releases_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.path / "claims").mkdir()
    (run.path / "claims/1").write_text("\n")
    release(run)
    assert texts(run.path) == [""]


def claimed(folder: Path, *claims: str) -> None:
    (folder / "claims").mkdir(parents=True)
    for number, text in enumerate(claims, 1):
        (folder / f"claims/{number}").write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("claims", "job_id", "earlier", "known", "later"),
    [
        ((), "7", (), 0, None),
        (("7.0 n1 5 6",), "7", (), 0, None),
        (("6.0", "7.0"), "7", ("6",), 0, None),
        (("7.0", "6.0"), "7", ("6",), 0, None),
        (("7.0", "9.0 n1 5 6"), "7", (), 0, ("9", 2)),
        (("7.0", "free", "9.0"), "7", (), 0, ("9", 3)),
        (("7.0", "9.0", "free"), "7", (), 0, ("9", 2)),
        (("8.0", "9.0"), "7", (), 0, None),
        (("8.0", "9.0"), "7", (), 1, ("9", 2)),
        (("8.0", "9.0"), "7", (), 2, None),
        (("8.0", "9.0"), "", (), 0, ("9", 2)),
        (("7.0", "x y", " ", "../8.0"), "7", (), 0, None),
        (("7.0", "by-hand-5.0 n1 5 6"), "7", (), 0, ("by-hand-5", 2)),
    ],
)
def test_which_start_came_after_the_recorded_one(
    tmp_path: Path,
    claims: tuple[str, ...],
    job_id: str,
    earlier: tuple[str, ...],
    known: int,
    later: tuple[str, int] | None,
) -> None:
    run = replace(a_run(tmp_path, job_id), earlier=earlier, claim=known)
    if claims:
        claimed(run.path, *claims)
    assert start_after(run) == later


def test_of_an_array_the_claims_of_its_runs_tell_the_last_start(tmp_path: Path) -> None:
    array = replace(a_run(tmp_path, "7"), tasks=3)
    for name, start in (
        ("0000", "10_0.0"),
        ("0001", "9_1.0"),
        ("code", "11_0.0"),
        ("\u00b2", "12_0.0"),
        ("x0", "13_0.0"),
    ):
        claimed(array.path / name, f"7_{name[-1]}.0", start)
    claimed(array.path, "99.0")
    assert start_after(array) == ("10", 0), "10 is a later number than 9"
    assert start_after(replace(array, earlier=("10",))) == ("9", 0)
    assert start_after(replace(array, earlier=("9", "10"))) is None
