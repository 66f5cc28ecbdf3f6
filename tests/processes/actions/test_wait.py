"""When ``wait`` and ``logs --follow`` ask a scheduler, when they give up, and what of a log they read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.api.submitted import SubmittedRun
from hpclaunch.actions.queueing.wait import (
    Tail,
    follow,
    follow_states,
    missing_log_fault,
    own_log,
    read_log,
    refuse_array,
    wait,
)
from hpclaunch.core.errors import InvalidRequest, Refused, SchedulerError
from hpclaunch.runs import Run
from tests.builders import leave_proof
from tests.processes.actions.conftest import FakeSlurm
from tests.processes.actions.test_verbs import array_of, spec

END = "COMPLETED"
SECONDS = (1.0, 1.5, 2.25, 3.375, 5.0625, 7.59375, 11.390625, 15.0, 15.0)
"""The pauses between questions to Slurm."""


def one_by_one(slurm: FakeSlurm, run: Run, states: Sequence[str]) -> Callable[[float], None]:
    """A pause after which squeue lists the run in the next state; in none if that is empty."""
    rest = iter(states)

    def poll(seconds: float) -> None:
        state = next(rest)
        slurm.forget()
        if state == END:
            leave_proof(run.path, f"{run.job_id}.0")
            slurm.account(run, END)
        elif state:
            slurm.queue(run, state)

    return poll


NOBODY_KNOWS = [""] * 5
SEQUENCES = [
    ([*NOBODY_KNOWS, "RUNNING", *NOBODY_KNOWS, "RUNNING", *NOBODY_KNOWS, END], END),
    ([*NOBODY_KNOWS, END], END),
    ([*NOBODY_KNOWS, "RUNNING", *NOBODY_KNOWS, "", END], "UNKNOWN"),
]


@pytest.mark.parametrize(("states", "last"), SEQUENCES)
def test_only_six_unknown_states_in_a_row_end_a_wait(slurm: FakeSlurm, states: list[str], last: str) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    *_, found = wait([run], None, 0, print, one_by_one(slurm, run, states))
    assert [one.state for one in found] == [last]


@pytest.mark.parametrize(("states", "last"), SEQUENCES)
def test_only_six_unknown_states_in_a_row_end_the_following(slurm: FakeSlurm, states: list[str], last: str) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    following = follow_states(run, 15, one_by_one(slurm, run, states))
    if last == END:
        assert [*following][-1].state == END
        return
    with pytest.raises(SchedulerError) as caught:
        list(following)
    (fault,) = caught.value.faults
    assert fault.what == "the state of run-7 is unknown"
    assert fault.next == "read its log: hpclaunch logs run-7; then try sacct, or ask the site's staff"


def test_slurm_is_asked_at_growing_intervals_of_fifteen_seconds_at_most(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    pauses: list[float] = []

    def poll(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == len(SECONDS):
            leave_proof(run.path, "7.0")
            slurm.forget()
            slurm.account(run, END)

    list(wait([run], None, 0, print, poll))
    assert pauses == [1.5, *SECONDS[2:], 15.0]


def test_who_follows_looks_twice_a_second_and_asks_seldom(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    asked: list[float] = []
    seconds, calls = 0.0, 0

    def poll(pause: float) -> None:
        nonlocal seconds, calls
        now = len(slurm.calls("squeue"))
        if now > calls:
            asked.append(seconds)
        seconds, calls = seconds + pause, now
        if seconds > 75:
            leave_proof(run.path, "7.0")
            slurm.forget()
            slurm.account(run, END)

    looks = len(list(follow(run, poll)))
    assert asked == [0.0, 1.5, 4.0, 7.5, 13.0, 21.0, 32.5, 47.5, 62.5]
    assert looks > 2 * 75


def test_what_a_run_wrote_until_its_end_is_read_after_the_last_question(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    (run.path / "logs").mkdir()
    log = run.path / "logs/slurm-7.out"
    log.write_text("one\n")

    def poll(seconds: float) -> None:
        log.write_text("one\ntwo\n")
        # The program writes while Slurm is asked for the last time.
        slurm.put("sacct", f"printf 'three\\n' >> {log}; cat sacct.states\n")
        leave_proof(run.path, "7.0")
        slurm.forget()
        slurm.account(run, END)

    read = [*follow(run, poll)]
    assert b"".join(text for _, text in read) == b"one\ntwo\nthree\n"
    assert (read[-1][0].state, read[-1][1]) == (END, b"")


def test_an_ended_run_of_anybody_is_shown_once_and_an_open_one_of_others_is_refused(slurm: FakeSlurm) -> None:
    def never(seconds: float) -> None:
        raise AssertionError("nobody waits")

    ended = slurm.run("7", "FAILED", uid="4711", listed=False)
    assert [run.state for run in follow_states(ended, 1, never)] == ["FAILED"]
    for run in (slurm.run("8", uid="4711"), slurm.run("9", cluster="other")):
        with pytest.raises(Refused):
            next(follow_states(run, 1, never))
    assert not slurm.calls("squeue")


def test_one_run_that_no_question_can_change_does_not_end_the_wait_for_another(slurm: FakeSlurm) -> None:
    hopeless, lost, run = slurm.run("7", cluster="other"), slurm.run("9", "UNKNOWN"), slurm.run("8")
    slurm.queue(run, "RUNNING")
    states = ["RUNNING"] * 8 + [END]
    told = [*wait([hopeless, lost, run], None, 0, print, one_by_one(slurm, run, states))]
    assert [one.state for one in told[-1]] == ["RUNNING", "UNKNOWN", END]
    assert len(told) == 1 + len(states)


def test_a_run_without_a_queue_is_looked_at_every_half_second(slurm: FakeSlurm) -> None:
    run = slurm.run("7", scheduler="local", cluster="", controller="", host="elsewhere")
    pauses: list[float] = []
    *_, (found,) = wait([run], None, 0, print, pauses.append)
    assert (pauses, found.state, found.reason) == ([0.5] * 5, "UNKNOWN", "it runs on elsewhere")
    with pytest.raises(SchedulerError) as caught:
        list(follow_states(run, 0.5, pauses.append))
    assert caught.value.faults[0].what == "the state of run-7 is unknown (it runs on elsewhere)"
    assert caught.value.faults[0].next == "read its log: hpclaunch logs run-7"
    assert pauses == [0.5] * 10


def test_the_last_pause_is_what_is_left_until_the_deadline(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a run without a queue, Slurm is asked no more often than alone."""
    clock, pauses = [100.0], list[float]()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    here = slurm.run("8", scheduler="local", cluster="", controller="", host="elsewhere")

    def poll(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    list(wait([here, run], 4, 0, print, poll))
    assert pauses == [1.5, 2.25, 0.25]


def test_who_waits_for_no_time_looks_once(slurm: FakeSlurm) -> None:
    run = slurm.run("7")
    slurm.queue(run, "RUNNING")
    assert [[one.state for one in found] for found in wait([run], 0, 0, print)] == [["RUNNING"]]


def test_each_run_has_its_own_number_of_further_starts(slurm: FakeSlurm) -> None:
    """The first fails by its machine again and again; the program of the second fails, which no start helps."""
    one, two = slurm.run("7"), slurm.run("8")
    for run in (one, two):
        spec(run)
    slurm.account(one, "NODE_FAIL")
    slurm.account(two, "FAILED", "7:0")
    slurm.put("sbatch", f"n=$(grep -c '^sbatch' {slurm.folder}/calls); echo Submitted batch job $((98 + n))\n")

    def poll(seconds: float) -> None:
        for number in range(99, 105):
            slurm.account(one, "NODE_FAIL", job_id=str(number))

    told: list[str] = []
    *_, last = wait([one, two], None, 3, told.append, poll)
    assert [(run.state, run.job_id) for run in last] == [("NODE_FAIL", "101"), ("FAILED", "8")]
    assert len(told) == 3 and all(words.startswith("run-7: ") for words in told)
    assert not [line for line in slurm.calls("sbatch") if "run-8" in line]


# --- logs


@pytest.fixture
def log(slurm: FakeSlurm) -> tuple[Run, Path]:
    run = slurm.run("7")
    (run.path / "logs").mkdir()
    return run, run.path / "logs/slurm-7.out"


def test_a_tail_reads_what_was_added_and_a_shorter_file_from_its_start(log: tuple[Run, Path]) -> None:
    run, file = log
    tail = Tail(run)
    assert tail.read() == b""
    file.write_text("one\n")
    assert (tail.read(), tail.read()) == (b"one\n", b"")
    with file.open("a") as more:
        more.write("two\n")
    assert (tail.read(), tail.read()) == (b"two\n", b"")
    file.write_text("new\n")
    assert (tail.read(), tail.read()) == (b"new\n", b"")


def test_a_tail_that_passes_over_what_is_there_reads_only_the_rest(log: tuple[Run, Path]) -> None:
    run, file = log
    file.write_text("old\n")
    tail = Tail(run)
    tail.skip_to_last(0)
    assert tail.read() == b""
    later = file.with_name("slurm-8.out")
    later.write_text("of a later start\n")
    os.utime(file, (5, 5))
    with file.open("a") as more:
        more.write("added\n")
    os.utime(file, (5, 5))
    assert [tail.read(), tail.read(), tail.read()] == [b"added\n", b"of a later start\n", b""]


def all_of(tail: Tail) -> bytes:
    return b"".join(iter(tail.read, b""))


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 5, 7, 100])
def test_the_last_lines_are_those_of_tail_over_all_starts(log: tuple[Run, Path], lines: int, end: str) -> None:
    run, file = log
    earlier, later = ["a", "", "b"], ["c" * 3 * 2**20, "d", "", "e"]  # a line of several blocks
    file.write_text("\n".join(earlier) + "\n")
    os.utime(file, (5, 5))
    file.with_name("slurm-8.out").write_text("\n".join(later) + end)
    tail = Tail(run)
    tail.skip_to_last(lines)
    whole = ("\n".join([*earlier, *later]) + end).encode()
    shown = whole.splitlines(keepends=True)[-lines:] if lines else []
    assert all_of(tail) == b"".join(shown)


def test_of_a_line_longer_than_what_is_read_back_its_end_is_shown_and_that_is_said(log: tuple[Run, Path]) -> None:
    run, file = log
    end = b"x" * (24 * 2**20 - 4) + b"\nend"
    file.write_bytes(b"x" * (6 * 2**20 + 4) + end)
    told = f"\n[hpclaunch: {6 * 2**20 + 4:,} bytes are left out here; {file} has all]\n".encode()
    for lines, shown in ((3, told + end), (2, told + end), (1, b"end"), (0, b"")):
        tail = Tail(run)
        tail.skip_to_last(lines)
        assert all_of(tail) == shown, lines
        assert tail.read() == b""
    file.write_bytes(end)
    tail = Tail(run)
    tail.skip_to_last(2)
    assert all_of(tail) == end, "all of it is read"


def test_a_long_log_is_followed_from_its_last_lines(log: tuple[Run, Path]) -> None:
    run, file = log
    file.write_text("short\n")
    assert Tail(run).begin_near_end() == 0
    file.write_text("".join(f"line {number:06}\n" for number in range(100_000)))
    tail = Tail(run)
    assert tail.begin_near_end() == 99_000 * 12
    assert all_of(tail).splitlines()[:1] == [b"line 099000"]


def test_a_number_of_lines_or_a_rank_that_no_command_line_could_have_is_refused(log: tuple[Run, Path]) -> None:
    run, file = log
    file.write_text("one\ntwo\n")
    submitted = SubmittedRun(folder=run.path)
    assert (submitted.log(tail=1), submitted.log(tail=0), submitted.log()) == ("two\n", "", "one\ntwo\n")
    for wrong in (-1, True, 1.5, "2"):
        for name in ("tail", "rank"):
            with pytest.raises(InvalidRequest) as refusal:
                submitted.log(**{name: wrong})
            (fault,) = refusal.value.faults
            assert (fault.where, fault.allowed) == (name, "a whole number, at least 0")
            assert fault.what == f"{wrong!r} is not allowed"


def test_a_log_that_disappears_while_its_size_is_read_is_passed_over(
    log: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, file = log
    file.write_text("short\n")
    monkeypatch.setattr(Run, "logs", lambda *_: [file])
    monkeypatch.setattr(Path, "exists", lambda _: True)
    file.unlink()
    assert Tail(run).begin_near_end() == 0


def test_a_tail_passes_over_a_log_that_is_a_link_and_reads_the_others(log: tuple[Run, Path], tmp_path: Path) -> None:
    run, file = log
    (tmp_path / "key").write_text("secret\n")
    file.symlink_to(tmp_path / "key")
    (file.parent / "slurm-8.out").write_text("mine\n")
    assert b"".join(iter(Tail(run).read, b"")) == b"mine\n"
    assert [text for _, text in read_log(run, Tail(run))] == [b"mine\n"]


def test_the_log_of_a_rank_is_that_rank_alone(log: tuple[Run, Path]) -> None:
    run, file = log
    for number in (0, 1, 10):
        (file.parent / f"rank-{number}.out").write_text(f"of {number}\n")
    file.write_text("of all\n")
    assert [text for _, text in read_log(run, Tail(run, 1))] == [b"of 1\n"]
    assert [text for _, text in read_log(run, Tail(run))] == [b"of all\n"]


def test_which_log_of_a_rank_is_read_and_why_there_is_none(log: tuple[Run, Path]) -> None:
    run, file = log
    four = {"layout": {"nodes": 2, "tasks_per_node": 2}, "launcher": "srun"}
    spec(run, **four, rank_number="SLURM_PROCID")
    assert own_log(run, None) is None
    assert [own_log(run, rank) for rank in (0, 3)] == [0, 3]
    with pytest.raises(Refused, match=r"run-7 has ranks 0 to 3, and no rank 4"):
        own_log(run, 4)
    spec(run, **four)
    with pytest.raises(Refused, match="its 4 ranks are more than 'rank_logs' allows") as caught:
        own_log(run, 3)
    assert "for the next run set 'rank_logs: 4'" in (caught.value.faults[0].next or "")
    (file.parent / "rank-3.out").touch()
    assert own_log(run, 3) == 3, "an older hpclaunch wrote it"
    spec(run, layout={"nodes": 1, "tasks_per_node": 1})
    assert own_log(run, 0) is None, "the log of the job is that of its only rank"
    with pytest.raises(Refused, match="run-7 has one rank, 0, and no rank 1"):
        own_log(run, 1)
    assert missing_log_fault(run, 0).what == "run-7 has not started"
    leave_proof(run.path, "7.0")
    assert missing_log_fault(run, 0).what.startswith(
        "run-7 has no log of rank 0: the rank never started, or its launch"
    )


def test_a_job_array_has_no_log_of_its_own(slurm: FakeSlurm) -> None:
    array = array_of(slurm, a="FAILED 7:0", b="COMPLETED 0:0")
    with pytest.raises(Refused, match="is an array of 2 runs, and each has its own log") as caught:
        refuse_array(array)
    assert "hpclaunch logs run-7/0000" in (caught.value.faults[0].next or "")
    refuse_array(replace(array, tasks=0))
