"""Calling Slurm's programs: what becomes of one that cannot be started, fails or hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert Answer(ok=False).words == "failed without a message"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    answer = ask([program(tmp_path, "exec sleep 1000")], seconds=0.2)
    assert answer == Answer(ok=False, messages="did not answer within 0.2 s")


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
