"""The program that docs/contract.md shows goes on from what it has saved, and what the page says of it comes true."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.resolve.environment.given_variables import REFUSED, SCHEDULERS_GPUS

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
PATIENCE_S = 60
# coreutils' own, whose clock begins to run when the program has told where it begins: a busy machine may need all of
# the five seconds to start it. SIGALRM is what that clock sends; it is not sent to a run that has ended before.
TIMEOUT = """#!/bin/bash
(
  until grep -qs "begins at" "$HPCLAUNCH_RUN_DIR"/logs/*.out; do sleep 0.1; done
  for ((tenths = 10 * $2; tenths > 0; tenths--)); do
    sleep 0.1
    kill -s 0 $$ || exit
  done
  kill -s ALRM $$
) 2> /dev/null &
exec {timeout} "$1" 0 "${{@:3}}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The example as a file."""
    found = re.search(r"<!-- example: resumable -->\n```python\n(.+?)```", CONTRACT, re.DOTALL)
    assert found
    path = tmp_path / "count.py"
    path.write_text(found[1], encoding="utf-8")
    return path


@pytest.fixture
def long_program(program: Path) -> Path:
    """The example with so much to do that it is not done before it is asked to save, however late that is."""
    text = program.read_text(encoding="utf-8")
    assert text.count("200") == 2
    program.write_text(text.replace("200", "2_000_000"), encoding="utf-8")
    return program


def started(program: Path, start: int) -> subprocess.Popen[str]:
    """The program as a rank's script starts it; it has told where it begins once this returns."""
    checkpoints = program.parent / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    told = {"HPCLAUNCH_CHECKPOINT_DIR": str(checkpoints), "HPCLAUNCH_RESTART_COUNT": str(start)}
    return subprocess.Popen(
        [sys.executable, str(program)],
        env={**os.environ, **told, "HPCLAUNCH_SIGNAL": "USR2"},
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("asks", [signal.SIGUSR2, signal.SIGTERM])
def test_it_saves_when_it_is_asked_and_goes_on_from_there(long_program: Path, asks: signal.Signals) -> None:
    process = started(long_program, 0)
    assert first_line(process) == "start 0 begins at 0\n"
    process.send_signal(asks)
    said = process.communicate(timeout=PATIENCE_S)[0]
    saved = re.fullmatch(r"saved at (\d+)\n", said)
    assert saved and process.returncode == 75
    again = started(long_program, 1)
    assert first_line(again) == f"start 1 begins at {saved[1]}\n"
    again.send_signal(asks)
    again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 75


def test_it_ends_with_0_when_all_is_done(program: Path) -> None:
    place = program.parent / "checkpoints" / "count"
    place.parent.mkdir()
    place.write_text("197")
    process = started(program, 4)
    assert process.communicate(timeout=PATIENCE_S)[0] == "start 4 begins at 197\n"
    assert (process.returncode, place.read_text()) == (0, "200")


@pytest.mark.timeout(600)
def test_the_commands_on_the_page_leave_the_log_on_the_page(program: Path) -> None:
    found = re.search(r"`(hpclaunch submit \./count\.py .+?)`.+?`(hpclaunch resume RUN .+?)`", CONTRACT, re.DOTALL)
    log = re.search(r"leave in the log:\n\n```\n(.+?)```", CONTRACT, re.DOTALL)
    assert found and log
    (program.parent / "bin").mkdir()
    (program.parent / "bin" / "timeout").write_text(TIMEOUT.format(timeout=shutil.which("timeout")))
    (program.parent / "bin" / "timeout").chmod(0o755)
    home = {"HOME": str(program.parent), "PATH": f"{program.parent}/bin:{os.environ['PATH']}"}
    home |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def typed(command: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", *shlex.split(command)]
        return subprocess.run(words, cwd=program.parent, env=home, capture_output=True, text=True, timeout=PATIENCE_S)

    submitted = typed(found[1])
    assert submitted.returncode == 0, submitted.stderr
    run = Path(submitted.stdout.strip()).name
    assert "TIMEOUT" in typed(f"hpclaunch wait {run}").stdout
    try:
        resumed = typed(found[2].replace("RUN", run))
        assert resumed.returncode == 0, resumed.stderr
        deadline = time.monotonic() + PATIENCE_S
        while "start 1" not in typed(f"hpclaunch logs {run}").stdout and time.monotonic() < deadline:
            time.sleep(0.2)
        said = typed(f"hpclaunch logs {run}").stdout
    finally:
        typed(f"hpclaunch cancel {run}")
    form = re.escape(log[1]).replace("49", r"(\d+)", 1).replace("49", r"\1")  # how far it came in five seconds
    assert re.fullmatch(form, said), said


def test_the_page_names_every_variable_that_the_table_decides_about() -> None:
    decided = {name for one in REFUSED for name in one.names} | {*SCHEDULERS_GPUS}
    of_scheduler = {f"{beginning}*" for row in SCHEDULERS.values() for beginning in row.variables}
    own = {"HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", "SLURM_CPU_BIND", "PET_NNODES", "PET_NPROC_PER_NODE"}
    section = CONTRACT.partition("## Variables that you give")[2].partition("\n## ")[0]
    assert {name for name in decided | of_scheduler | own if f"`{name}`" not in section} == set()
