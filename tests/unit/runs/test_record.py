"""What a record keeps and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import NewerFormat, NotFound
from tests.builders import a_run


def test_a_reason_of_4000_characters_is_kept_whole_and_a_longer_one_is_cut(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    run = runs.change(run, state="FAILED", reason="x" * 4000)
    assert run.reason == "x" * 4000
    run = runs.change(run, state="FAILED", reason="y" * 4001)
    assert run.reason == "y" * 4000 + " ..."
    assert runs.load(run.path) == run


@pytest.mark.parametrize("number", [0, -1, True, "1", None, 1.0])
def test_a_format_that_is_no_number_of_one_is_damaged(tmp_path: Path, number: object) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "format": number}))
    with pytest.raises(NotFound, match="its format is not a number"):
        runs.load(run.path)


def test_only_a_higher_format_is_of_a_newer_version(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    assert record.pop("format") == 1
    (run.path / "run.json").write_text(json.dumps(record))
    assert runs.load(run.path) == run
    (run.path / "run.json").write_text(json.dumps({**record, "format": 3}))
    with pytest.raises(NewerFormat, match="it has format 3"):
        runs.load(run.path)


@pytest.mark.parametrize(
    ("members", "damage"),
    [
        ({"earlier": ["1", "../2"]}, "an invalid job ID or state"),
        ({"job_id": "x"}, "an invalid job ID or state"),
        ({"state": "lower"}, "an invalid job ID or state"),
        ({"tasks": 3, "parts": ["0-1;rm"]}, "an invalid part of the array"),
    ],
)
def test_what_would_reach_a_command_or_a_path_is_refused(tmp_path: Path, members: object, damage: str) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, **members}))  # type: ignore[dict-item]
    with pytest.raises(NotFound, match=damage):
        runs.load(run.path)


def test_members_of_a_wrong_kind_count_as_none(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    for members in ({"earlier": "12"}, {"tasks": 0}, {"tasks": 100_001}, {"tasks": "3"}, {"parts": ["0-1;rm"]}):
        (run.path / "run.json").write_text(json.dumps({**record, **members}))
        assert runs.load(run.path) == run
    (run.path / "run.json").write_text(json.dumps({**record, "tasks": 100_000}))
    assert runs.load(run.path).tasks == 100_000


def test_parameters_are_the_pairs_of_the_spec(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    assert run.parameters() == {}
    pairs = [["epochs", "3"], ["a", 1], ["cut"], ["x", "y", "z"], "ab", None]
    (run.path / "spec.json").write_text(json.dumps({"parameters": pairs}))
    assert run.parameters() == {"epochs": "3", "a": "1"}
    (run.path / "spec.json").write_text(json.dumps({"parameters": {"epochs": "3"}}))
    assert run.parameters() == {}


def test_a_run_without_a_folder_of_logs_has_none(tmp_path: Path) -> None:
    run = a_run(tmp_path, "1")
    assert (run.logs(), run.logs(rank=0)) == ([], [])


def test_the_command_that_starts_a_script_by_hand_is_that_of_its_scheduler(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    run = a_run(tmp_path / "a b", "1")
    assert run.start_command == f"sbatch '{run.path}/job.sh'"
    assert replace(run, scheduler="local").start_command == f"bash '{run.path}/job.sh'"


def test_a_claim_is_written_into_the_record_itself_unless_it_need_not_be_durable(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    running = runs.claim(run, state="RUNNING")
    assert running is not None
    assert json.loads((run.path / "run.json").read_text())["state"] == "RUNNING"
    assert runs.claim(running, durable=False, state="FAILED") == runs.load(run.path)
    assert json.loads((run.path / "run.json").read_text())["state"] == "RUNNING"


@pytest.mark.parametrize(
    ("name", "label"), [("cifar-1", "cifar-1"), ("$(touch X)", "'$(touch X)'"), ("a\nb", r"$'a\nb'"), ("a b", "'a b'")]
)
def test_the_label_of_a_run_is_a_word_of_the_shell(tmp_path: Path, name: str, label: str) -> None:
    run = replace(a_run(tmp_path, "1"), path=tmp_path / name)
    assert (run.id, run.label) == (name, label)
    assert run.to_json()["run"] == name
