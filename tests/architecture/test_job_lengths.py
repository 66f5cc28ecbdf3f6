"""The program of every bundled job is short: what such programs have in common stands in hpclaunch.training."""

from __future__ import annotations

from pathlib import Path

import pytest

JOBS = Path(__file__).resolve().parents[2] / "jobs"


@pytest.mark.parametrize("program", sorted(JOBS.glob("*/train.py")), ids=lambda program: program.parent.name)
def test_a_bundled_program_has_at_most_60_lines(program: Path) -> None:
    assert len(program.read_text().splitlines()) <= 60
