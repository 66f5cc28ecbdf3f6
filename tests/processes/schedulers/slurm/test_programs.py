"""Calling Slurm's programs: what becomes of one that cannot be started, fails or hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.schedulers.slurm.programs import Answer, ask


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
