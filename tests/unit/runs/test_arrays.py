"""Runs of a job array: derived from its record, its file of states, and Slurm's own spelling of tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.errors import NotFound
from hpclaunch.runs import ArrayTasks, Jobs, Run, identity_of
from hpclaunch.runs.arrays import summary
from hpclaunch.schedulers import NEVER_BEGUN, Status
from hpclaunch.schedulers.slurm.arrays import cancelled_while_waiting, ids_in, ids_to_query
from tests.builders import a_run


def an_array(folder: Path, tasks: int = 5, **changes: object) -> Run:
    run = replace(a_run(folder, "4711"), created="2026-01-02T03:04:05Z", tasks=tasks, **changes)  # type: ignore[arg-type]
    return runs.save(run)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3", [3]),
        ("0,5-7", [0, 5, 6, 7]),
        ("0-8:4%2", [0, 4, 8]),
        ("98-999999999", [98, 99]),
        ("", []),
        ("5-3", []),
        ("1,x", []),
        ("-1", []),
    ],
)
def test_slurms_spelling_of_tasks_is_read(text: str, found: list[int]) -> None:
    assert runs.numbers(text, 100) == found


def test_tasks_are_spelled_as_slurm_reads_them() -> None:
    assert runs.spelled([9, 0, 3, 4, 5, 5]) == "0,3-5,9"
    assert runs.numbers(runs.spelled(range(0, 50, 2)), 100) == list(range(0, 50, 2))


def test_what_slurm_calls_tasks_are_job_ids() -> None:
    assert list(ids_in("4711")) == ["4711"]
    assert list(ids_in("4711_7")) == ["4711_7"]
    assert list(ids_in("4711_[3,5-6%2]")) == ["4711_3", "4711_5", "4711_6"]
    assert list(ids_in("4711_[x]")) == ["4711_[x]"]


def test_an_array_is_asked_for_once_and_a_single_task_alone() -> None:
    assert ids_to_query(["1", "4711_0", "4711_1", "4800_3", "2"]) == ["1", "4711", "4800_3", "2"]


def test_the_last_start_that_names_a_run_is_its_own(tmp_path: Path) -> None:
    array = an_array(tmp_path, earlier=("11", "12"), job_id="13", parts=("", "1-2", "2,4"))
    found = runs.tasks_of(array)
    assert [run.job_id for run in found] == ["11_0", "12_1", "13_2", "11_3", "13_4"]
    assert [run.earlier for run in found] == [(), ("11_1",), ("11_2", "12_2"), (), ("11_4",)]
    whole = replace(array, earlier=("11", "12", "13"), job_id="14", parts=("", "1-2", "2,4", ""))
    assert {run.job_id.partition("_")[0] for run in runs.tasks_of(whole)} == {"14"}


def test_a_run_of_an_array_is_found_by_its_place_and_no_other_is_made_up(tmp_path: Path) -> None:
    array = an_array(tmp_path)
    run = runs.load_any(array.path / "0004")
    assert (run.label, run.home, run.script) == ("run-4711/0004", array.path, array.path / "job.sh")
    for name in ("0005", "00004", "4", "logs"):
        with pytest.raises(NotFound):
            runs.load_any(array.path / name)
    with pytest.raises(NotFound):
        runs.load_any(tmp_path / "0001")


def test_what_was_heard_of_a_run_counts_for_the_start_that_it_was_heard_of(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2)
    failed = replace(runs.task_of(array, 1), state="FAILED", exit_code="3:0", nodes="n1")
    told = runs.record_tasks(array, {1: failed})
    assert (told.state, told.reason) == ("PENDING", "2 runs: 1 PENDING, 1 FAILED")
    assert (told.counts, runs.counts_of(runs.load(array.path))) == ({"PENDING": 1, "FAILED": 1},) * 2
    assert "counts" not in told.to_json(), "the reason says them, and documents have it"
    assert runs.load_any(array.path / "0001").exit_code == "3:0"
    again = runs.change(told, earlier=("4711",), job_id="4800", parts=("", "1"))
    assert [run.state for run in runs.tasks_of(again)] == ["PENDING", "PENDING"]


def test_another_reason_ends_the_counts_that_the_last_one_told(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=3)
    waits = [replace(runs.task_of(array, index), reason=why) for index, why in ((0, "Priority"), (1, "Priority"))]
    told = runs.record_tasks(array, {run.index: run for run in waits})
    assert (told.reason, told.waits_for) == ("3 runs: 3 PENDING (Priority)", "Priority")
    assert runs.load(array.path).waits_for == "Priority"
    refused = runs.change(told, state="NOT_SUBMITTED", reason="no such partition (12 RUNNING)")
    assert runs.load(array.path) == refused
    assert (refused.waits_for, runs.counts_of(refused)) == ("", {"NOT_SUBMITTED": 3})


@pytest.mark.parametrize("counts", ['{"PENDING": 0}', '{"PENDING": "3"}', '{"pending": 3}', "[3]", '{"PENDING": 1e3}'])
def test_counts_that_are_none_are_not_read(tmp_path: Path, counts: str) -> None:
    array = an_array(tmp_path, tasks=3)
    record = array.path / "run.json"
    record.write_text(record.read_text().replace('"tasks"', f'"counts": {counts},\n  "tasks"'))
    (array.path / "states.jsonl").unlink()
    assert runs.load(array.path).counts == {}


def test_an_array_that_was_started_in_parts_has_several_jobs_that_may_run(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=4, earlier=("11",), job_id="12", parts=("", "2-3"))
    assert [run.job_id for run in runs.jobs_of(array)] == ["11", "12"]
    ended = {index: replace(runs.task_of(array, index), state="COMPLETED") for index in (0, 1)}
    array = runs.record_tasks(array, ended)
    assert [run.job_id for run in runs.jobs_of(array)] == ["12"]
    single = replace(array, tasks=0)
    assert runs.jobs_of(single) == [single]


def test_the_states_of_a_large_array_are_read_again(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2000)
    ended = {run.index: replace(run, state="COMPLETED", exit_code="0:0") for run in runs.tasks_of(array)}
    array = runs.record_tasks(array, ended)
    assert (array.state, array.reason) == ("COMPLETED", "2000 runs: 2000 COMPLETED")
    assert {run.state for run in runs.tasks_of(array)} == {"COMPLETED"}


def test_each_run_of_an_array_has_its_own_values_and_other_runs_none(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2)
    (array.path / "values").write_text("0000\t--seed=1\n0001\t--seed=2\n")
    single = a_run(tmp_path, "5")
    found = runs.each([single, array])
    assert [run.label for run in found] == ["run-5", "run-4711/0000", "run-4711/0001"]
    assert [runs.swept(run) for run in found] == [{}, {"seed": "1"}, {"seed": "2"}]
    assert runs.swept(array) == {}


def test_damaged_states_are_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=7)
    entries = {
        "0": ["4711_0", "COMPLETED", "0:0", "", ""],
        "x": ["4711_1", "COMPLETED", "0:0", "", ""],
        "2": ["4711_2", "COMPLETED"],
        "3": "COMPLETED",
        "4": ["4711_4", "no state", "", "", ""],
        "5": ["../4711_5", "COMPLETED", "", "", ""],
        "6": ["4711_6", "FAILED", 1, "", ""],
    }
    (array.path / "states.json").write_text(json.dumps(entries))
    assert [run.state for run in runs.tasks_of(array)] == ["COMPLETED", *["PENDING"] * 6]


def test_states_that_are_known_already_are_not_written_again(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2)
    news = {index: replace(runs.task_of(array, index), state="RUNNING") for index in range(2)}
    array = runs.record_tasks(array, news)
    before = (array.path / "states.json").stat()
    assert runs.record_tasks(array, news) == array
    assert (array.path / "states.json").stat() == before
    runs.record_tasks(array, {1: replace(news[1], state="COMPLETED")})
    assert (array.path / "states.json").stat().st_ino != before.st_ino


@pytest.mark.parametrize(
    ("states", "state", "code"),
    [
        (["COMPLETED", "COMPLETED"], "COMPLETED", "0:0"),
        (["COMPLETED", "FAILED", "TIMEOUT"], "FAILED", "1:0"),
        (["FAILED", "PENDING"], "PENDING", ""),
        (["FAILED", "PENDING", "RUNNING"], "RUNNING", ""),
        (["COMPLETED", "UNKNOWN"], "UNKNOWN", ""),
        (["UNKNOWN", "PENDING"], "PENDING", ""),
    ],
)
def test_an_array_is_as_its_liveliest_run(tmp_path: Path, states: list[str], state: str, code: str) -> None:
    array = an_array(tmp_path, tasks=len(states))
    codes = {"COMPLETED": "0:0", "FAILED": "1:0"}
    found = [
        replace(run, state=state, exit_code=codes.get(state, ""))
        for run, state in zip(runs.tasks_of(array), states, strict=True)
    ]
    told = summary(found)
    assert (told["state"], told["exit_code"]) == (state, code)


def test_the_runs_of_a_divided_array_have_the_ids_that_slurm_gives_them(tmp_path: Path) -> None:
    parts = ("0-1", "2-3", "4", "1,4")
    array = an_array(tmp_path, earlier=("11", "12", "13"), job_id="14", parts=parts, offsets=(0, 2, 4, 0))
    assert runs.load(array.path) == array
    found = runs.tasks_of(array)
    assert [run.job_id for run in found] == ["11_0", "14_1", "12_0", "12_1", "14_4"]
    assert [run.earlier for run in found] == [(), ("11_1",), (), (), ("13_0",)]
    assert runs.current_jobs(array) == ["11", "12", "14"]
    assert [runs.index_of(array, job, 1) for job in ("11", "12", "13", "14", "99")] == [1, 3, 5, 1, 1]


def test_the_runs_of_a_divided_array_that_were_never_queued_are_not_submitted(tmp_path: Path) -> None:
    array = an_array(tmp_path, job_id="11", parts=("0-1",), state="RUNNING")
    assert [run.state for run in runs.tasks_of(array)] == ["PENDING"] * 2 + ["NOT_SUBMITTED"] * 3
    assert [run.job_id for run in runs.tasks_of(array)][2:] == [""] * 3


@pytest.mark.parametrize("offsets", ["[0, 5]", "[-1]", '["0"]', "[true]", "7", '{"a": 1}'])
def test_an_offset_that_is_none_makes_a_record_unreadable(tmp_path: Path, offsets: str) -> None:
    array = an_array(tmp_path, parts=("0-1",), offsets=(0,))
    record = array.path / "run.json"
    assert '"offsets": [0]' in record.read_text()
    record.write_text(record.read_text().replace('"offsets": [0]', f'"offsets": {offsets}'))
    with pytest.raises(NotFound, match="invalid offset of the array"):
        runs.load(array.path)


def test_only_a_divided_array_has_the_second_format(tmp_path: Path) -> None:
    record = an_array(tmp_path).path / "run.json"
    assert '"format": 1,' in record.read_text()
    an_array(tmp_path, parts=("0-1",), offsets=(0,))
    assert '"format": 2,' in record.read_text()


def test_a_run_of_an_array_is_made_when_its_job_is_looked_up(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=4, earlier=("11",), job_id="12", parts=("", "2-3"))
    runs.record_tasks(array, {1: replace(runs.task_of(array, 1), state="FAILED", exit_code="3:0")})
    states = runs.present_states(array, [0, 1, 3])
    assert [(task.job_id, task.state) for task in states.values()] == [
        ("11_0", "PENDING"),
        ("11_1", "FAILED"),
        ("12_3", "PENDING"),
    ]
    single = a_run(tmp_path, "5")
    jobs = Jobs([single, a_run(tmp_path)], [ArrayTasks(array, states)])
    assert [job.job_id for job in jobs] == ["5", "11_0", "11_1", "12_3"], "a run without a job is none"
    assert [jobs[job] for job in jobs] == [single, *(runs.task_of(array, index) for index in (0, 1, 3))]
    assert [*jobs.single] == [identity_of(single)]
    assert [job.home for job in jobs] == [str(single.path), *[str(array.path)] * 3]
    assert [identity_of(jobs[job]) for job in jobs] == [*jobs]
    assert [len(jobs.numbered(number)) for number in ("11_1", "11_2", "5", "11")] == [1, 0, 1, 0]
    assert identity_of(runs.task_of(array, 1)) in jobs and identity_of(runs.task_of(array, 2)) not in jobs
    assert len(jobs) == 4
    assert not Jobs([]) and not Jobs([], [ArrayTasks(array, {})])


def test_recorded_states_are_read_again_after_a_change(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2)
    for state in ("RUNNING", "COMPLETING", "FAILED"):
        array = runs.record_tasks(array, {0: replace(runs.task_of(array, 0), state=state)})
        assert runs.present_states(array)[0].state == state
        assert runs.present_states(array)[1].state == "PENDING"


def test_the_end_of_a_run_of_an_array_stays_as_it_is_recorded(tmp_path: Path) -> None:
    array = an_array(tmp_path, tasks=2)
    first, second = runs.tasks_of(array)
    failed = replace(first, state="FAILED")
    array = runs.record_tasks(array, {0: failed})
    for later in (replace(first, state="RUNNING"), replace(first, state="COMPLETED", exit_code="0:0")):
        array = runs.record_tasks(array, {0: later, 1: replace(second, state="RUNNING")})
        assert runs.present_states(array)[0].state == "FAILED", later.state
        assert (array.state, array.reason) == ("RUNNING", "2 runs: 1 RUNNING, 1 FAILED")
    runs.record_tasks(array, {0: replace(failed, exit_code="7:0")})
    assert runs.present_states(array)[0].exit_code == "7:0"
    runs.record_tasks(array, {0: replace(failed, exit_code="9:0")})
    assert runs.present_states(array)[0].exit_code == "7:0"
    runs.record_tasks(array, {0: replace(failed, state="TIMEOUT")}, any_state=True)
    assert runs.present_states(array)[0].state == "TIMEOUT"


def test_a_run_of_an_array_has_all_that_the_array_has(tmp_path: Path) -> None:
    """Whose it is and on which cluster its job is decide what may be done with it."""
    texts = {name: f"the {name}" for name in ("host", "user", "token", "cluster", "controller", "git", "submission")}
    more = {"uid": "4711", "differs": "x", "excluded": "n9", "excluded_because": "n9: old", "held": {"nodes": "1"}}
    array = an_array(tmp_path, **texts, **more, submitted="2026-01-02T03:04:06Z", allocation="7", repaired="then")
    run = runs.task_of(array, 3)
    for name in (*texts, *more, "name", "site", "scheduler", "created", "submitted"):
        assert getattr(run, name) == getattr(array, name), name
    assert (run.path, run.home, run.index, run.tasks, run.parts) == (array.path / "0003", array.path, 3, 0, ())
    earlier = replace(array, earlier=("11",), job_id="12", parts=("", "0-1"))
    assert [runs.task_of(earlier, index).submitted for index in (0, 3)] == [array.submitted, ""], "when 11 was is gone"


def test_a_run_that_was_never_queued_has_the_reason_of_its_array(tmp_path: Path) -> None:
    for state, expected in (
        ("NOT_SUBMITTED", "NOT_SUBMITTED"),
        ("SUBMITTING", "SUBMITTING"),
        ("PENDING", "NOT_SUBMITTED"),
    ):
        array = replace(an_array(tmp_path), job_id="", state=state, reason="no such partition")
        run = runs.task_of(array, 0)
        assert (run.state, run.reason, run.job_id, run.earlier) == (expected, "no such partition", "", ())


@pytest.mark.parametrize(
    ("parts", "offsets", "expected"),
    [
        (("", ""), (), ["12"]),
        (("", "1-2"), (), ["11", "12"]),
        (("0-1", "2-4"), (), ["11", "12"]),
        (("", "0-4"), (), ["12"]),
    ],
)
def test_which_jobs_the_runs_of_an_array_have_now(
    tmp_path: Path, parts: tuple[str, ...], offsets: tuple[int, ...], expected: list[str]
) -> None:
    array = an_array(tmp_path, earlier=("11",), job_id="12", parts=parts, offsets=offsets)
    assert runs.current_jobs(array) == expected
    assert runs.whole_of(runs.task_of(array, 0)) == runs.load(array.path)


def test_a_name_of_many_digits_is_shortened_in_the_refusal(tmp_path: Path) -> None:
    array = an_array(tmp_path)
    with pytest.raises(NotFound) as caught:
        runs.load_any(array.path / ("1" * 50))
    (fault,) = caught.value.faults
    assert (fault.what, fault.allowed) == (f"run-4711 has no run {'1' * 20!r}", "0000 to 0004")


def test_the_lines_about_an_array_are_those_of_all_its_jobs(tmp_path: Path) -> None:
    array = an_array(tmp_path, earlier=("11", "12"), job_id="13")
    states = {0: runs.TaskState("13_0", "PENDING"), 1: runs.TaskState("", "NOT_SUBMITTED")}
    tasks = ArrayTasks(array, states)
    assert (tasks.lines, list(tasks.states)) == (15, [0])
    single = a_run(tmp_path, "7")
    assert [bool(Jobs(*words)) for words in (([],), ([single],), ([], [tasks]), ([], [ArrayTasks(array, {})]))] == [
        *(False, True, True, False)
    ]


@pytest.mark.parametrize(
    ("index", "state", "begun", "accounted", "other", "never_begun"),
    [
        (1, "PENDING", False, "", "4711_0", True),
        (1, "UNKNOWN", False, "", "4711_0", True),
        (1, "PENDING", False, "PENDING", "4711_0", True),
        (1, "PENDING", False, "PENDING", "", True),
        (0, "PENDING", False, "", "4711_1", True),
        (1, "PENDING", False, "", "", False),
        (1, "PENDING", False, "", "4712_0", False),
        (1, "RUNNING", False, "", "4711_0", False),
        (1, "PENDING", True, "", "4711_0", False),
        (1, "PENDING", False, "COMPLETED", "4711_0", False),
        (-1, "PENDING", False, "", "4711_0", False),
    ],
)
def test_a_task_that_slurm_has_removed_from_its_array_never_began(
    tmp_path: Path, index: int, state: str, begun: bool, accounted: str, other: str, never_begun: bool
) -> None:
    """squeue and sacct list only the other tasks; one that accounting calls PENDING no longer waits."""
    array = an_array(tmp_path)
    job_id = f"4711_{index}" if index >= 0 else "4711"
    run = replace(array, job_id=job_id, state=state, index=index, tasks=0)
    run = replace(run, path=array.path / f"{index:04}") if index >= 0 else run
    if begun:
        (run.path / "attempts" / f"{job_id}.0").mkdir(parents=True)
        (run.path / "attempts" / f"{job_id}.0/started").touch()
    job = identity_of(run)
    known = {job: Status(state=accounted)} if accounted else {}
    if other:
        known[job._replace(job_id=other)] = Status(state="RUNNING")
    found = cancelled_while_waiting([job], Jobs([run]), known)
    assert found == ({job: NEVER_BEGUN} if never_begun else {})


def test_a_run_of_an_earlier_job_was_submitted_with_the_array_and_not_with_its_last_job(tmp_path: Path) -> None:
    """Of the last job are those with its whole number: 70 is not 7."""
    array = replace(a_run(tmp_path, "7"), tasks=3, created="2026-01-02T00:00:00Z", submitted="2026-01-03T00:00:00Z")
    array = replace(array, earlier=("70", "6"))
    states = {index: runs.TaskState(job_id, "RUNNING") for index, job_id in enumerate(("7_0", "70_1", "6_2"))}
    begun = {index: job.submitted for index, job in ArrayTasks(array, states).identities.items()}
    assert begun[1] == begun[2] == identity_of(replace(array, submitted="")).submitted == begun[0] - 86400
