"""Calling Slurm's programs: what becomes of one that cannot be started, fails or hangs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpclaunch.schedulers.slurm import programs
from hpclaunch.schedulers.slurm.programs import Answer, ask, room_for


def program(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("name", "messages"),
    [("/nowhere/squeue", "is not on this machine"), ("/etc", "Permission denied"), ("a\0b", "null byte")],
)
def test_a_program_that_cannot_be_started_is_a_failed_answer(name: str, messages: str) -> None:
    answer = ask([name])
    assert (answer.ok, answer.text) == (False, "")
    assert messages in answer.messages


def test_output_and_messages_are_apart_and_the_exit_code_counts(tmp_path: Path) -> None:
    assert ask([program(tmp_path, "cat; echo hm >&2")], text="in") == Answer(ok=True, text="in", messages="hm\n")
    assert not ask([program(tmp_path, "exit 3")]).ok
    killed = ask([program(tmp_path, "echo 4711; kill -9 $$")])
    assert (killed.ok, killed.text) == (False, "4711\n"), "what it said may be a part"
    assert Answer(ok=False).words == "failed without a message"
    assert Answer(ok=False, messages=" squeue: error:\n\tno  answer\n").words == "squeue: error: no answer"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    answer = ask([program(tmp_path, "exec sleep 1000")], seconds=0.2)
    assert answer == Answer(ok=False, messages="did not answer within 0.2 s")


def test_each_program_gets_the_time_and_the_room_that_it_is_asked_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[object, ...]] = []
    communicate = programs.waiting.communicate

    def note(
        process: subprocess.Popen[bytes], name: str, seconds: float, *words: bytes, most: int
    ) -> tuple[bytes, bytes]:
        given.append((seconds, most))
        return communicate(process, name, seconds, *words, most=most)

    monkeypatch.setattr(programs.waiting, "communicate", note)
    path = program(tmp_path, ":")
    ask([path])
    ask([path], seconds=7, most=room_for(3))
    controllers(tmp_path, monkeypatch, "UP")
    programs.down_controllers()
    largest = programs.waiting.MOST_BYTES
    assert given == [(60, largest), (7, 2**20 + 3 * 2**10), (4, largest)]


def test_a_program_that_ctrl_c_interrupts_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(process: subprocess.Popen[bytes], *_: object, **__: object) -> None:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        raise KeyboardInterrupt

    monkeypatch.setattr(programs.waiting, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask([program(tmp_path, f"echo $$ > {tmp_path}/number; echo begun; exec sleep 100")])
    assert not Path("/proc", (tmp_path / "number").read_text().strip()).exists()


def test_variables_that_change_the_output_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SACCT_FORMAT", "SINFO_FORMAT", "MINE", "OTHER"):
        monkeypatch.setenv(name, "x")
    seen = ask([program(tmp_path, "env")], without=["OTHER"]).text.split("\n")
    assert "MINE=x" in seen and "SLURM_BITSTR_LEN=0" in seen
    assert not [line for line in seen if line.startswith(("SQUEUE_", "SACCT_", "SINFO_", "OTHER"))]


def test_an_answer_without_an_end_is_a_failed_one_and_its_program_is_ended(tmp_path: Path) -> None:
    path = program(tmp_path, f"echo $$ > {tmp_path}/number; exec yes")
    answer = ask([path], most=room_for(0))
    assert answer == Answer(ok=False, messages="was ended, as its answer has more than 1 MiB")
    number = (tmp_path / "number").read_text().strip()
    assert not Path("/proc", number).exists()


def test_there_is_room_for_the_jobs_that_are_asked_for() -> None:
    assert [room_for(jobs) // 1024 for jobs in (0, 1, 10_000)] == [1024, 1025, 11_024]
    assert room_for(100_000) == room_for(10**9) == 64 * 2**20


def test_an_array_of_the_largest_size_fits(tmp_path: Path) -> None:
    """100,000 tasks, as squeue lists them, in a folder with a long name."""
    line = "12345678_%d|PENDING|Resources||/" + "d" * 300
    path = program(tmp_path, f"seq -f '{line.replace('%d', '%.0f')}' 100000")
    answer = ask([path], most=room_for(100_000))
    assert (answer.ok, answer.text.count("\n")) == (True, 100_000)


def controllers(folder: Path, monkeypatch: pytest.MonkeyPatch, *states: str) -> None:
    """Let ``scontrol ping`` report these states, and note that it was asked."""
    lines = "".join(
        f"echo 'Slurmctld(host{number}) at ctl{number} is {state}'\n" for number, state in enumerate(states)
    )
    (folder / "scontrol").write_text(f"#!/bin/sh\necho >> {folder}/asked\n{lines}")
    (folder / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    programs._answers.clear()


@pytest.mark.parametrize(
    ("states", "down"),
    [(("DOWN", "DOWN"), "ctl0, ctl1"), (("DOWN", "UP"), ""), (("UP",), ""), ((), ""), (("DOWN",), "ctl0")],
)
def test_slurm_is_down_if_all_its_controllers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], down: str
) -> None:
    controllers(tmp_path, monkeypatch, *states)
    assert programs.down_controllers() == down


def test_an_answer_counts_for_five_seconds_and_for_its_own_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    controllers(tmp_path, monkeypatch, "UP")
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def asked() -> int:
        programs.down_controllers()
        return len((tmp_path / "asked").read_text())

    assert [asked(), asked()] == [1, 1]
    clock[0] += 4.9
    assert asked() == 1
    clock[0] += 0.1
    assert asked() == 2
    monkeypatch.setenv("SLURM_CONF", "/other/slurm.conf")
    assert asked() == 3, "another cluster is asked by itself"
    controllers(tmp_path, monkeypatch, "DOWN")
    assert [asked(), asked()] == [4, 5], "one that is down is asked each time"
