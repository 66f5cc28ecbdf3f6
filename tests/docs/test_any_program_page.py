"""docs/any-program.md: its plan is today's, its program runs, and it names every format of a printed speed.

After a change that is meant: ``pytest tests/docs/test_any_program_page.py --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hpclaunch.planner.measured.log_formats import FORMATS, GROUPS
from tests.cli.conftest import Desk, desk  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "any-program.md"
BLOCK = re.compile(r"<!-- output: (?P<command>.+?); all -->\n```\n(?P<shown>.*?)```", re.DOTALL)


def example(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.+?)```", PATH.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_plan_is_that_of_its_command(desk: Desk, request: pytest.FixtureRequest) -> None:  # noqa: F811
    page = PATH.read_text(encoding="utf-8")
    (found,) = BLOCK.finditer(page)
    assert json.loads(example("program-points"))
    desk.write("c.json", example("program-points"))
    desk.write("train.py", "import math\n")
    done = desk.type(*shlex.split(found["command"])[1:], SCRATCH="/scratch", HPCLAUNCH_RUNS_DIR="/shared/runs")
    assert done.code == 0, done.err
    if request.config.getoption("--rewrite-golden"):
        PATH.write_text(page.replace(f"```\n{found['shown']}```", f"```\n{done.out}```"), encoding="utf-8")
        return
    assert done.out == found["shown"]


def test_the_program_runs_and_tells_its_speed(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(example("throughput"))
    environment = {**os.environ, "HPCLAUNCH_RUN_DIR": str(tmp_path), "RANK": "0", "HPCLAUNCH_WORLD_SIZE": "2"}
    environment["PYTHONPATH"] = str(ROOT)
    subprocess.run([sys.executable, str(program)], check=True, env=environment)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["steps"] for line in lines) == 20 and sum(line["samples"] for line in lines) == 20 * 64 * 2


def test_every_format_and_every_group_is_named() -> None:
    section = PATH.read_text(encoding="utf-8").partition("## Its speed")[2].partition("\n## ")[0]
    assert [name for name in (*(row.name for row in FORMATS), *GROUPS) if f"`{name}`" not in section] == []
