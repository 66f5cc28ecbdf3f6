"""What the live screen's thread asks, and when: one question a turn."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpclaunch.actions.following import monitor as module
from hpclaunch.actions.following.monitor import Monitor
from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.runs import JobIdentity, Jobs, Run, identity_of
from hpclaunch.schedulers import QueuePlace
from tests.builders import a_run


class Clock:
    """The clocks of the module: a monotonic one, and the processor time of the thread."""

    def __init__(self) -> None:
        self.now, self.used = 1000.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.used

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The questions for places; each has an answer."""
    asked: list[Any] = []

    def queue_places(jobs: Jobs, partitions: list[str]) -> dict[JobIdentity, QueuePlace]:
        asked.append(([job.job_id for job in jobs], partitions))
        return {job: QueuePlace(before=number) for number, job in enumerate(jobs)}

    monkeypatch.setattr(module, "scheduler_of", lambda name: SimpleNamespace(queue_places=queue_places))
    return asked


def turns(monitor: Monitor, clock: Clock, seconds: float) -> Iterator[float]:
    """Let the thread's turns happen at the times that it names."""
    end = clock.now + seconds
    while clock.now < end:
        due = monitor.turn()
        yield clock.now
        clock.now = max(due, clock.now + 0.001)


def test_states_are_asked_at_the_schedulers_pace_and_places_once_a_minute(
    tmp_path: Path, clock: Clock, asked: list[Any]
) -> None:
    run = a_run(tmp_path, "7")
    (run.path / "spec.json").write_text(json.dumps({"partition": "batch"}))
    states: list[float] = []

    def ask() -> list[Run]:
        states.append(clock.now)
        return [run]

    monitor = Monitor(ask)
    times = list(turns(monitor, clock, 119))
    assert len(states) == 8 and states[1] - states[0] == 15.0
    assert asked == [(["7"], ["batch"])] * 2
    assert len(set(times)) == len(times) >= len(states) + len(asked), "each question has a turn of its own"
    assert monitor.found.places == {identity_of(run): QueuePlace(before=0)}
    assert monitor.found.runs == (run,)


def test_a_question_that_needs_much_processor_time_is_repeated_seldom(tmp_path: Path, clock: Clock) -> None:
    run = replace(a_run(tmp_path, "7", "RUNNING"), scheduler="local")
    states: list[float] = []

    def ask() -> list[Run]:
        states.append(clock.now)
        clock.used += 3.0
        return [run]

    list(turns(Monitor(ask), clock, 190))
    assert [second - first for first, second in itertools.pairwise(states)] == [60.0] * 3


def test_a_local_run_is_asked_about_every_other_second(tmp_path: Path, clock: Clock, asked: list[Any]) -> None:
    run = replace(a_run(tmp_path, "7", "RUNNING"), scheduler="local")
    states: list[float] = []

    def ask() -> list[Run]:
        states.append(clock.now)
        return [run]

    list(turns(Monitor(ask), clock, 11))
    assert len(states) == 6 and asked == []


def test_a_failed_question_keeps_the_last_answer_and_is_repeated(tmp_path: Path, clock: Clock) -> None:
    run = a_run(tmp_path, "7", "RUNNING")
    answers: list[Any] = [[run], SchedulerError(Fault(where="squeue", what="hangs")), [run]]
    woken: list[int] = []

    def ask() -> list[Run]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    monitor = Monitor(ask, lambda: woken.append(1))
    due = monitor.turn()
    clock.now = due
    due = monitor.turn()
    assert monitor.found.runs == (run,) and monitor.found.trouble == "no answer"
    assert list(monitor.messages) == ["squeue: hangs"] and due == clock.now + 2
    clock.now = due
    monitor.turn()
    assert monitor.found.trouble == "" and len(woken) == 3


def test_a_cancelled_run_is_asked_about_at_once(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path, "7", "RUNNING")
    cancelled: list[Run] = []

    def cancel(found: list[Run]) -> list[Run]:
        cancelled.extend(found)
        return [replace(found[0], state="CANCELLED")]

    monkeypatch.setattr(module, "cancel", cancel)
    asked: list[float] = []

    def ask() -> list[Run]:
        asked.append(clock.now)
        return [run]

    monitor = Monitor(ask)
    monitor.turn()
    clock.now += 1
    monitor.cancel(run)
    monitor.cancel(replace(run, job_id="8"))
    assert monitor.turn() == clock.now, "another one waits"
    monitor.turn()
    assert [one.job_id for one in cancelled] == ["7", "8"]
    assert list(monitor.messages) == ["run-7: CANCELLED"] * 2
    monitor.turn()
    assert asked == [1000.0, 1001.0]


def test_a_person_may_ask_but_not_without_a_pause(tmp_path: Path, clock: Clock) -> None:
    run, asked = a_run(tmp_path, "7", "RUNNING"), []

    def ask() -> list[Run]:
        asked.append(clock.now)
        return [run]

    monitor = Monitor(ask)
    monitor.turn()
    clock.now += 1
    monitor.ask_now()
    monitor.turn()
    clock.now += 1
    monitor.ask_now()
    monitor.turn()
    assert asked == [1000.0, 1002.0]


def test_samples_are_read_seldom_and_of_one_run(tmp_path: Path, clock: Clock) -> None:
    monitor = Monitor(list)
    first, second = a_run(tmp_path, "1"), a_run(tmp_path, "2")
    assert monitor.use(first) is None
    folder = first.path / "samples"
    folder.mkdir()
    header = {"format": 1, "node": "n1", "attempt": "1.0", "began": 1.0, "cpus": 1}
    line = {"t": 2.0, "ranks": {"0": {"cpu": 1}}}
    (folder / "n1-1.0.jsonl").write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n")
    assert monitor.use(first) is None
    clock.now += 5
    found = monitor.use(first)
    assert found is not None and found.ranks[0].cpu == 1.0
    assert monitor.use(second) is None
    assert monitor.use(first) == found


def test_an_error_of_hpclaunch_ends_the_thread_and_is_known() -> None:
    woken = threading.Event()

    def ask() -> list[Run]:
        raise ZeroDivisionError

    monitor = Monitor(ask, woken.set)
    monitor.start()
    assert woken.wait(60)
    assert isinstance(monitor.fault, ZeroDivisionError)


def test_the_thread_asks_until_it_is_stopped(tmp_path: Path) -> None:
    asked = threading.Event()

    def ask() -> list[Run]:
        asked.set()
        return []

    monitor = Monitor(ask)
    monitor.start()
    assert asked.wait(60)
    monitor.stop()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "hpclaunch watch"] or [None]
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()
