from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import NotFound, Refused
from hpclaunch.core.files import write_text
from hpclaunch.core.spec import Code, Script
from hpclaunch.runs import Run
from hpclaunch.runs.create import create as create_run
from hpclaunch.runs.snapshot import choose
from tests.builders import CONTEXT, planned


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "state/hpclaunch/runs.txt"


def create(tmp_path: Path, index: Path, name: str = "train-1", **changes: str) -> Run:
    source = tmp_path / "job"
    source.mkdir(exist_ok=True)
    (source / "train.py").write_text("print()")
    spec = planned(context=replace(CONTEXT, run_dir=str(tmp_path / "runs" / name), **changes))
    spec = replace(spec, code=Code(folder=str(source), entry="train.py"))
    runs.remember(index, Path(spec.run_dir))
    script = Script(text="#!/bin/bash\n", library="# functions\n")
    made = create_run(spec, script, choose(spec.code), runs.Submission(host="host"))
    assert made.inode == made.path.stat().st_ino
    return replace(made, inode=0)  # as a process has it that reads the record


def submitted(run: Run, job_id: str) -> Run:
    return runs.change(run, state="PENDING", job_id=job_id, submission="hpclaunch")


def test_a_run_directory_holds_script_code_spec_record_and_log_folder(tmp_path: Path, index: Path) -> None:
    run = create(tmp_path, index)
    assert run.script.read_text() == "#!/bin/bash\n"
    assert (run.path / "code/train.py").is_file()
    assert json.loads((run.path / "spec.json").read_text())["name"] == "train"
    assert (run.state, run.job_id) == ("RENDERED", "")
    assert runs.load(run.path) == run


def test_row_07_the_log_folder_is_there_before_anything_is_submitted(tmp_path: Path, index: Path) -> None:
    assert (create(tmp_path, index).path / "logs").is_dir()


def test_only_its_owner_may_look_into_it(tmp_path: Path, index: Path) -> None:
    assert stat.S_IMODE(create(tmp_path, index).path.stat().st_mode) == 0o700


def test_a_run_directory_is_never_used_twice(tmp_path: Path, index: Path) -> None:
    create(tmp_path, index)
    with pytest.raises(Refused, match="this run directory exists already"):
        create(tmp_path, index)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, index: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(Refused, match="is not a folder"):
        create(tmp_path, index)


def test_the_hosts_file_is_written(tmp_path: Path, index: Path) -> None:
    spec = replace(planned(), run_dir=str(tmp_path / "r"), hosts=("a slots=2", "b slots=2"))
    spec = replace(spec, code=Code(folder=str(tmp_path), entry=""))
    snapshot = choose(Code(folder=str(tmp_path / "none"), entry=""))
    run = create_run(spec, Script(text="", library=""), snapshot, runs.Submission(host="host"))
    assert (run.path / "hosts").read_text() == "a slots=2\nb slots=2\n"


def test_a_submitted_run_is_pending(tmp_path: Path, index: Path) -> None:
    run = submitted(create(tmp_path, index), "4711")
    assert (runs.load(run.path).job_id, runs.load(run.path).state) == ("4711", "PENDING")


def test_runs_are_found_by_name_job_id_path_or_as_the_newest(tmp_path: Path, index: Path) -> None:
    old = submitted(create(tmp_path, index, "train-1", now="2026-01-01T00:00:00Z"), "1")
    new = submitted(create(tmp_path, index, "train-2", now="2026-01-02T00:00:00Z"), "2")
    assert runs.known(index).runs == (new, old)
    assert runs.find(index, None) == new
    for name in ("train-1", "1", str(old.path)):
        assert runs.find(index, name) == old


def test_many_names_read_every_run_once(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [create(tmp_path, index, f"train-{number}") for number in range(5)]
    read: list[Path] = []
    monkeypatch.setattr("hpclaunch.runs.index.load", lambda path: read.append(path) or runs.load(path))
    assert runs.find_all(index, [run.path.name for run in made]) == made
    assert sorted(path for path in read if path.is_absolute()) == sorted(run.path for run in made)
    with pytest.raises(NotFound) as caught:
        runs.find_all(index, ["train-1", "none", "nothing"])
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [("train-3", "no run is called 'train-3'; did you mean 'train-1'"), ("/nowhere", "is not a run directory")],
)
def test_an_unknown_run_is_not_found(tmp_path: Path, index: Path, name: str, message: str) -> None:
    create(tmp_path, index)
    with pytest.raises(NotFound, match=message):
        runs.find(index, name)


def test_without_runs_there_is_no_newest(index: Path) -> None:
    with pytest.raises(NotFound, match="there is no run yet"):
        runs.find(index, None)


def test_of_two_runs_of_one_second_the_later_is_the_newest(tmp_path: Path, index: Path) -> None:
    made = [create(tmp_path, index, name) for name in ("train-c", "train-a", "train-b")]
    assert runs.known(index).runs == tuple(made[::-1])


def test_a_deleted_run_is_forgotten(tmp_path: Path, index: Path) -> None:
    run = create(tmp_path, index)
    (run.path / "run.json").unlink()
    assert runs.known(index).runs == ()


def heard(run: Run, **news: str) -> Run:
    """Record what a scheduler told of a run."""
    return runs.change(run, durable=False, **news)


def lines_of(run: Run) -> list[str]:
    return (run.path / "states.jsonl").read_text().splitlines()


def test_what_a_scheduler_tells_is_one_line_and_no_new_record(tmp_path: Path, index: Path) -> None:
    run = submitted(create(tmp_path, index), "1")
    record, before, inode = (run.path / "run.json").read_bytes(), lines_of(run), (run.path / "run.json").stat().st_ino
    ended = heard(run, state="FAILED", exit_code="3:0", reason="NonZeroExitCode", nodes="n1")
    assert (run.path / "run.json").read_bytes() == record
    assert (run.path / "run.json").stat().st_ino == inode
    assert lines_of(run)[:-1] == before
    assert runs.load(run.path) == ended
    assert (ended.state, ended.exit_code, ended.reason, ended.nodes) == ("FAILED", "3:0", "NonZeroExitCode", "n1")
    assert heard(ended, state="FAILED", exit_code="3:0") == ended
    assert len(lines_of(run)) == len(before) + 1  # nothing new, no line


def test_a_line_that_was_cut_short_counts_as_not_written_and_damages_no_other(tmp_path: Path, index: Path) -> None:
    run = heard(submitted(create(tmp_path, index), "1"), state="RUNNING", nodes="n1")
    whole = (run.path / "states.jsonl").read_text()
    heard(run, state="COMPLETED", exit_code="0:0")
    line = (run.path / "states.jsonl").read_text().removeprefix(whole)
    for length in range(len(line)):  # a full disk, a lost node: it ends anywhere
        (run.path / "states.jsonl").write_text(whole + line[:length])
        assert runs.load(run.path) == run
    (run.path / "states.jsonl").write_text(whole + line[: len(line) // 2])
    again = heard(run, state="COMPLETED", exit_code="0:0")
    assert runs.load(run.path) == again == replace(run, state="COMPLETED", exit_code="0:0")
    assert [state["state"] for state in again.history()][-2:] == ["RUNNING", "COMPLETED"]


def test_a_record_without_its_line_is_not_undone_by_an_earlier_one(tmp_path: Path, index: Path) -> None:
    run = heard(submitted(create(tmp_path, index), "1"), state="FAILED", exit_code="1:0")
    lines = (run.path / "states.jsonl").read_bytes()
    started = runs.claim(run, state="SUBMITTING", job_id="", exit_code="", earlier=("1",))
    (run.path / "states.jsonl").write_bytes(lines)  # killed between the record and its line
    assert started is not None and runs.load(run.path) == started
    queued = runs.change(started, state="PENDING", job_id="2")
    (run.path / "states.jsonl").unlink()
    assert runs.load(run.path) == queued
    assert heard(queued, state="RUNNING") == runs.load(run.path)


@pytest.mark.parametrize("line", ["[]", "null", "{}", '{"state": "../x"}', '{"state": 3}', "\0", '{"state": "FAI'])
def test_a_damaged_line_is_passed_over(tmp_path: Path, index: Path, line: str) -> None:
    run = heard(submitted(create(tmp_path, index), "1"), state="RUNNING")
    with (run.path / "states.jsonl").open("a") as file:
        file.write(f"{line}\n")
    assert runs.load(run.path) == run


def test_a_record_of_before_editions_is_loaded_and_takes_news(tmp_path: Path, index: Path) -> None:
    run = submitted(create(tmp_path, index), "1")
    record = json.loads((run.path / "run.json").read_text())
    del record["edition"]
    (run.path / "run.json").write_text(json.dumps({**record, "state": "RUNNING"}))
    assert (old := runs.load(run.path)).state == "RUNNING"
    assert heard(old, state="TIMEOUT") == runs.load(run.path)
    assert json.loads((run.path / "run.json").read_text())["state"] == "TIMEOUT"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": "x"}', "\xff"])
def test_a_damaged_record_is_not_found_not_a_traceback(tmp_path: Path, index: Path, content: str) -> None:
    run = create(tmp_path, index)
    (run.path / "run.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(NotFound, match=r"run\.json"):
        runs.load(run.path)


def test_marks_and_metrics_are_read_as_far_as_they_are_whole(tmp_path: Path, index: Path) -> None:
    run = create(tmp_path, index)
    for attempt, text in {"7.0": "3\n", "7.1": "", "8.0": "x"}.items():
        (run.path / "attempts" / attempt).mkdir()
        (run.path / "attempts" / attempt / "exit-code").write_text(text)
    (run.path / "metrics.jsonl").write_text('{"event": "start"}\n[1]\nnot json\n{"event": "en')
    assert run.exit_codes() == {"7.0": 3}
    assert list(run.metrics()) == [{"event": "start"}]


def test_logs_are_read_in_the_order_of_their_age(tmp_path: Path, index: Path) -> None:
    run = create(tmp_path, index)
    for age, name in enumerate(("b.out", "a.out")):
        path = run.path / "logs" / name
        path.write_text(name)
        os.utime(path, (age, age))
    assert [path.name for path in run.logs()] == ["b.out", "a.out"]


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/hpclaunch/runs.txt"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/var/state"}, "/var/state/hpclaunch/runs.txt"),
    ],
)
def test_the_index_is_where_xdg_says(environment: dict[str, str], path: str) -> None:
    assert runs.index_file(environment) == Path(path)


def test_undecodable_bytes_of_a_script_are_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "a\udcff")
    assert (tmp_path / "x").read_bytes() == b"a\xff"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_record_can_be_read_again_however_much_a_program_wrote(tmp_path: Path, index: Path) -> None:
    run = runs.change(create(tmp_path, index), reason="x" * 2**21, excluded="node1", excluded_because="y" * 2**21)
    assert runs.load(run.path) == run
    assert (len(run.reason), run.excluded, len(run.excluded_because)) == (4004, "node1", 4004)
    assert runs.change(run, excluded="node2").excluded_because == run.excluded_because


def test_a_file_system_that_shows_another_file_each_time_ends_the_tries(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda one, other: False)
    assert runs.remember(index, Path("/runs/one")) == ""
    assert runs.indexed(index) == [Path("/runs/one")]
