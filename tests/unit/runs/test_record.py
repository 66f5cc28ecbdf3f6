"""What a record keeps and refuses."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import HpclaunchError, NewerFormat, NotFound
from hpclaunch.runs import Run, record
from hpclaunch.runs.record import RecordChange, add_note
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


def test_the_logs_of_a_run_are_those_of_all_starts_by_age_and_not_those_of_ranks(tmp_path: Path) -> None:
    run = a_run(tmp_path, "1")
    (run.path / "logs").mkdir()
    for age, name in enumerate(("slurm-9.out", "slurm-10.out", "rank-0.out", "rank-10.out", "slurm-9.err")):
        (run.path / "logs" / name).touch()
        os.utime(run.path / "logs" / name, (age, age))
    (run.path / "logs/slurm-11.out").symlink_to("/etc/hostname")
    assert [path.name for path in run.logs()] == ["slurm-9.out", "slurm-10.out"]
    assert [path.name for path in run.logs(rank=0)] == ["rank-0.out"]
    assert run.logs(rank=1) == []
    assert replace(run, job_id="9", earlier=("8",)).logs() == run.logs(), "each once, and no others"


def test_the_logs_of_a_run_of_an_array_are_those_of_its_own_jobs_in_the_arrays_folder(tmp_path: Path) -> None:
    array = a_run(tmp_path, "8")
    task = replace(array, path=array.path / "0001", index=1, job_id="8_1", earlier=("6_1", "7_1"))  # 6_1 left no log
    (array.path / "logs").mkdir()
    for age, name in enumerate(("slurm-7_1.out", "slurm-8_1.out", "slurm-8_2.out", "slurm-.out")):
        (array.path / "logs" / name).touch()
        os.utime(array.path / "logs" / name, (9 - age, 9 - age))
    (task.path / "logs").mkdir(parents=True)
    (task.path / "logs/rank-0.out").touch()
    assert [path.name for path in task.logs()] == ["slurm-8_1.out", "slurm-7_1.out"]
    assert task.logs(rank=0) == [task.path / "logs/rank-0.out"]
    assert replace(task, job_id="", earlier=()).logs() == []
    first = replace(task, path=array.path / "0000", index=0)
    assert [path.name for path in first.logs()] == ["slurm-8_1.out", "slurm-7_1.out"]


def start(run: Run, name: str, **marks: str) -> None:
    folder = run.path / "attempts" / name
    folder.mkdir(parents=True)
    for mark, text in marks.items():
        (folder / mark.replace("_", "-")).write_text(text)


def test_starts_are_in_the_order_of_their_numbers_and_those_that_did_not_begin_are_none(tmp_path: Path) -> None:
    run = a_run(tmp_path, "10")
    for name in ("10.0", "9.10", "9.2", "by-hand-7.0"):
        start(run, name, started="")
    start(run, "9.3", exit_code="3\n")
    start(run, "11.0", terminated="1\n")
    assert run.attempts() == ["9.2", "9.3", "9.10", "10.0", "by-hand-7.0"]
    assert run.exit_codes() == {"9.3": 3}
    assert (run.last_exit_code("9"), run.last_exit_code("12")) == (None, None), "9.10 is the last one, without a code"
    for text, code in (("255\n", 255), ("1000\n", None), ("-1\n", None), ("\n", None)):
        (run.path / "attempts/9.10/exit-code").write_text(text)
        assert run.last_exit_code("9") == code


@pytest.mark.parametrize(
    ("mark", "proves"),
    [("7.0 4\n", True), ("7.0\n", True), ("7.1 4\n", False), ("17.0 4\n", False), ("7.01 4\n", False), ("\n", False)],
)
def test_the_mark_of_success_names_its_start(tmp_path: Path, mark: str, proves: bool) -> None:
    run = a_run(tmp_path, "7")
    start(run, "7.0", completed=mark, exit_code="0\n")
    (run.path / "attempts/7.0/ranks").mkdir()
    assert run.has_completed("7.0") is proves
    (run.path / "attempts/7.0/ranks").rmdir()
    assert run.has_completed("7.0"), "an older hpclaunch had no folder ranks, and its exit code is 0"
    (run.path / "attempts/7.0/exit-code").write_text("1\n")
    assert run.has_completed("7.0") is proves


@pytest.mark.parametrize("ranks", [False, True])
def test_an_exit_code_of_0_alone_proves_no_success(tmp_path: Path, ranks: bool) -> None:
    run = a_run(tmp_path, "7")
    start(run, "7.0", started="", exit_code="0\n")
    if ranks:
        (run.path / "attempts/7.0/ranks").mkdir()
    assert not run.has_completed("7.0")


_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("TIMEOUT", "NOT_SUBMITTED", "FORGOTTEN"),
)
_NOT_ENDED = (
    *("COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD"),
    *("REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED"),
    *("INCOMPLETE", "RENDERED", "SUBMITTING", "UNKNOWN"),
)


@pytest.mark.parametrize(("states", "final"), [(_ENDED, True), (_NOT_ENDED, False)])
def test_which_states_end_a_run(tmp_path: Path, states: tuple[str, ...], final: bool) -> None:
    """The state codes of squeue(1), and hpclaunch's own."""
    assert {state for state in states if replace(a_run(tmp_path, "7"), state=state).final is not final} == set()


@pytest.mark.parametrize(("claim", "read"), [(3, 3), (2**53 - 1, 2**53 - 1), (2**53, 0), (0, 0), (-1, 0), ("3", 0)])
def test_the_number_of_a_claim_counts_from_one(tmp_path: Path, claim: object, read: int) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "claim": claim}))
    assert runs.load(run.path).claim == read


def test_a_record_keeps_every_field_and_shows_all_but_the_token(tmp_path: Path) -> None:
    run = a_run(tmp_path, "1")
    texts = {name: f"its {name}" for name in RecordChange.__annotations__ if isinstance(getattr(run, name), str)}
    whole = replace(run, **{**texts, "state": "RUNNING", "job_id": "4711"})
    whole = replace(whole, held={"partition": "gpu"}, earlier=("12", "13"), created="2026-01-02T03:04:05Z")
    assert runs.load(runs.save(whole).path) == replace(whole, edition=1)
    shown = whole.to_json()
    assert {name: shown[name] for name in texts if name in shown} == {
        name: getattr(whole, name) for name in texts if name not in ("token", "waits_for")
    }
    assert (shown["held"], shown["earlier"], "tasks" in shown) == ({"partition": "gpu"}, ["12", "13"], False)
    array = replace(whole, tasks=1, parts=("0",), offsets=(0,))
    assert runs.load(runs.save(array).path) == replace(array, edition=1)
    assert {name: array.to_json()[name] for name in ("tasks", "parts", "offsets")} == {
        "tasks": 1,
        "parts": ["0"],
        "offsets": [0],
    }
    assert not {"held", "offsets", "tasks"} & run.to_json().keys()
    assert (shown["run"], shown["run_dir"]) == (run.id, str(run.path))


def test_a_damaged_record_is_named_by_its_file(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    for members in ({"tasks": 3, "parts": ["x"]}, {"tasks": 3, "offsets": [3]}, {"job_id": "x"}, {"format": 9}):
        (run.path / "run.json").write_text(json.dumps({**record, **members}))
        with pytest.raises(HpclaunchError) as caught:
            runs.load(run.path)
        assert caught.value.faults[0].where == str(run.path / "run.json")


@pytest.mark.parametrize("offsets", [[-1], [3], [True], ["1"], [1.0], {"0": 1}, None])
def test_an_offset_is_the_index_of_a_run_of_the_array(tmp_path: Path, offsets: object) -> None:
    run = runs.save(replace(a_run(tmp_path, "1"), tasks=3, offsets=(2,)))
    assert runs.load(run.path).offsets == (2,)
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "offsets": offsets}))
    with pytest.raises(NotFound, match="an invalid offset of the array"):
        runs.load(run.path)


def test_a_run_that_is_no_array_has_no_offsets_and_no_parts(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    record = json.loads((run.path / "run.json").read_text())
    for tasks in (None, 0, -1, "3", 10**9):
        (run.path / "run.json").write_text(json.dumps({**record, "tasks": tasks, "parts": ["0-2"]}))
        assert (runs.load(run.path).tasks, runs.load(run.path).parts) == (0, ())
        (run.path / "run.json").write_text(json.dumps({**record, "tasks": tasks, "offsets": [0]}))
        with pytest.raises(NotFound, match="an invalid offset of the array"):
            runs.load(run.path)


def test_a_record_has_at_most_6_mib(tmp_path: Path) -> None:
    """Thousands are read at once."""
    run = runs.save(a_run(tmp_path, "1"))
    record = (run.path / "run.json").read_text()
    (run.path / "run.json").write_text(record + " " * (6 * 2**20 - len(record)))
    assert runs.load(run.path) == run
    (run.path / "run.json").write_text(record + " " * (6 * 2**20 - len(record) + 1))
    with pytest.raises(NotFound):
        runs.load(run.path)


def test_an_edition_counts_up_to_the_whole_numbers_that_json_keeps(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    assert (run.edition, runs.save(run).edition) == (1, 2)
    record = json.loads((run.path / "run.json").read_text())
    for edition, read in ((2**53 - 1, 2**53 - 1), (2**53, 0), (-(2**53), 0), ("2", 0)):
        (run.path / "run.json").write_text(json.dumps({**record, "edition": edition}))
        assert runs.load(run.path).edition == read


def test_a_change_is_refused_in_another_start_or_state_than_the_caller_saw(tmp_path: Path) -> None:
    run = runs.save(replace(a_run(tmp_path, "7", state="RUNNING"), earlier=("6",)))
    for seen in (replace(run, job_id="8"), replace(run, earlier=()), replace(run, state="PENDING")):
        assert runs.claim(seen, state="FAILED") is None
        assert runs.change(seen, state="FAILED") == runs.load(run.path) == run
    seen = replace(run, state="PENDING")
    changed = runs.claim(seen, any_state=True, state="FAILED")
    assert changed is not None and changed.state == runs.load(run.path).state == "FAILED"
    assert runs.claim(replace(seen, job_id="8"), any_state=True, state="RUNNING") is None


def test_what_another_process_has_recorded_while_this_one_waited_for_its_turn_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.save(replace(a_run(tmp_path, "7", state="RUNNING")))

    @contextlib.contextmanager
    def waited(folder: Path) -> Iterator[bool]:
        runs.save(replace(run, state="COMPLETED"))
        yield True

    monkeypatch.setattr(record, "locked", waited)
    assert runs.claim(run, state="CANCELLED") is None
    assert runs.load(run.path).state == "COMPLETED"


def test_a_line_of_the_history_counts_only_for_the_record_that_it_updates(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    ended = runs.change(run, durable=False, state="FAILED", exit_code="7:0", reason="why", nodes="n1")
    assert json.loads((run.path / "run.json").read_text())["state"] == "RUNNING"
    assert runs.load(run.path) == ended
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "edition": 2}))
    assert runs.load(run.path) == replace(run, edition=2)
    with (run.path / "states.jsonl").open("a") as file:
        file.write('{"state": "CANCELLED", "edition": 2}\n{"time": "a note"}\n{"state": "COMPLETED", "edition": 2}')
    assert runs.load(run.path) == replace(run, edition=2, state="CANCELLED"), "a line that is cut off does not count"


def test_a_line_of_the_history_without_an_edition_updates_no_record(tmp_path: Path) -> None:
    """An older hpclaunch wrote it, before the record that is there now."""
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    with (run.path / "states.jsonl").open("a") as file:
        file.write('{"state": "FAILED"}\n')
    assert runs.load(run.path) == run


def test_a_change_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    before = [(run.path / name).read_text() for name in ("run.json", "states.jsonl")]
    assert runs.change(run, state="RUNNING") == runs.claim(run, durable=False, nodes="") == run
    assert [(run.path / name).read_text() for name in ("run.json", "states.jsonl")] == before


def test_a_record_without_an_edition_is_written_again(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    record = json.loads((run.path / "run.json").read_text())
    del record["edition"]
    (run.path / "run.json").write_text(json.dumps(record))
    runs.change(runs.load(run.path), durable=False, state="FAILED")
    written = json.loads((run.path / "run.json").read_text())
    assert (written["state"], written["edition"]) == ("FAILED", 1)


def test_what_a_line_of_the_history_cannot_hold_is_written_into_the_record(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    runs.change(run, durable=False, state="FAILED", excluded="n1")
    assert json.loads((run.path / "run.json").read_text())["excluded"] == "n1"
    assert runs.load(run.path).excluded == "n1"


def test_the_evidence_against_nodes_has_a_limit_too(tmp_path: Path) -> None:
    run = runs.save(a_run(tmp_path, "1"))
    run = runs.change(run, reason="r" * 4000, excluded_because="x" * 4001)
    assert (run.reason, run.excluded_because) == ("r" * 4000, "x" * 4000 + " ...")


def test_the_disk_is_waited_for_unless_a_change_need_not_be_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    run = runs.save(run, durable=False)
    assert not synced
    run = runs.change(run, durable=False, state="FAILED")
    assert not synced
    runs.change(run, state="CANCELLED")
    assert synced


def test_the_history_says_when_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1795824019.7)
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    ended = runs.change(run, durable=False, state="FAILED", exit_code="7:0", reason="why", nodes="n1")
    runs.save(replace(ended, repaired="2026-11-29T00:00:00Z"))
    begun = {"time": "2026-11-28T00:00:19Z", "state": "RUNNING", "job_id": "7", "edition": 1}
    later = {**begun, "state": "FAILED", "exit_code": "7:0", "reason": "why", "nodes": "n1"}
    assert run.history() == [begun, later, {**later, "repaired": "2026-11-29T00:00:00Z", "edition": 2}]


def test_a_change_is_written_as_its_caller_wants_and_the_number_of_a_claim_only_if_there_is_one(
    tmp_path: Path,
) -> None:
    written: list[str] = []

    def write(path: str, text: str) -> None:
        written.append(text)
        Path(path).write_text(text)

    run = runs.change(runs.save(a_run(tmp_path, "7")), write=write, reason="why")
    assert len(written) == 1 and "claim" not in json.loads(written[0])
    assert runs.change(run, write=write, claim=3) == runs.load(run.path)
    assert len(written) == 2 and json.loads(written[1])["claim"] == 3


def test_a_note_is_a_line_without_a_state_that_reaches_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.save(a_run(tmp_path, "7", state="RUNNING"))
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    add_note(run, note="repaired")
    last = run.history()[-1]
    assert (last["note"], "state" in last, bool(last["time"]), len(synced)) == ("repaired", False, True, 1)
    assert runs.load(run.path) == run


def test_the_longest_parts_of_an_array_can_be_read_again(tmp_path: Path) -> None:
    half = runs.MOST_IN_PARTS // 2
    parts = ("0-1," * (half // 4), "1,2," * (half // 4))
    made = runs.save(replace(a_run(tmp_path, "7"), tasks=3, parts=parts, reason="x" * 4000))
    assert sum(map(len, parts)) == runs.MOST_IN_PARTS
    assert runs.load(made.path).parts == parts


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_stands_in_the_place_of_a_record_was_not_written_by_hpclaunch(tmp_path: Path, kind: str) -> None:
    file = a_run(tmp_path, "7").path / "run.json"
    file.unlink(missing_ok=True)
    file.symlink_to("/etc/hostname") if kind == "link" else os.mkfifo(file)
    with pytest.raises(NotFound, match="the record cannot be read: ") as caught:
        runs.load(file.parent)
    assert caught.value.faults[0].next == f"hpclaunch did not write it: ls -l {file}"


def test_a_record_whose_file_system_fails_is_to_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path, "7")
    (run.path / "run.json").write_text("")

    def fail(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(NotFound, match="the record cannot be read: Input/output error") as caught:
        runs.load(run.path)
    assert str(caught.value.faults[0].next).startswith("try again")
