"""The marks by which a script knows that a training has begun, and that it has ended with all its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="group training: numpy is not installed")

PROGRAM = """
import os, shutil, sys
from argparse import Namespace
from hpclaunch.training.program.run import running
from hpclaunch.training.rank import failure
from hpclaunch.training.rank.world import World

def train():
    with running(Namespace(synthetic=True), "job", lambda name: World({rank}, 1, 0, 1, "n1", "CPU", 1, os.getcwd())):
        {body}

train()
{then}
"""
STOPPED = "raise failure.RunAgain('asked to stop; saved', speaks=True)"


@pytest.mark.parametrize(
    ("body", "code", "marks"),
    [
        ("pass", 0, ["trained", "training"]),
        ("return", 0, ["trained", "training"]),
        ("sys.exit(0)", 0, ["trained", "training"]),
        ("sys.exit()", 0, ["trained", "training"]),
        ("sys.exit(7)", 7, ["training"]),
        (STOPPED, 75, ["training"]),
        ("raise failure.TrainingError('what and where')", 1, ["training"]),
        ("1 / 0", 1, ["training"]),
        ("os.kill(os.getpid(), 9)", -9, ["training"]),
        ("os._exit(0)", 0, ["training"]),
    ],
)
def test_a_training_that_ends_by_itself_is_marked_in_its_start(
    tmp_path: Path, body: str, code: int, marks: list[str]
) -> None:
    done = run(tmp_path, body)
    assert done.returncode == code, done.stderr
    assert found(tmp_path) == marks


def test_the_mark_of_the_end_is_not_there_before_it(tmp_path: Path) -> None:
    assert run(tmp_path, "print(os.listdir('attempts/7.0'))").stdout == "['training']\n"


def test_other_ranks_mark_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "pass", rank=1).returncode == 0
    assert found(tmp_path) == []


def test_without_a_script_nothing_is_marked(tmp_path: Path) -> None:
    assert run(tmp_path, "pass", exit_file="").returncode == 0
    assert found(tmp_path) == []


def test_a_second_training_of_a_start_takes_the_mark_of_the_first_away(tmp_path: Path) -> None:
    done = run(tmp_path, "os.path.exists('again') and os._exit(0); open('again', 'w').close()", then="train()")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path) == ["training"]


def test_an_end_that_cannot_be_marked_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "os.rename('attempts', 'gone')")
    assert (done.returncode, "does not call the run completed" in done.stderr) == (1, True), done.stderr


def found(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "attempts" / "7.0").iterdir() if path.name.startswith("train"))


def run(
    tmp_path: Path, body: str, rank: int = 0, then: str = "", exit_file: str = "attempts/7.0/first-failure"
) -> subprocess.CompletedProcess[str]:
    """Run a training of one rank, whose block is `body`, and what comes after it."""
    (tmp_path / "attempts" / "7.0").mkdir(parents=True)
    environment = {"PYTHONPATH": ":".join(sys.path)}
    if exit_file:
        environment["HPCLAUNCH_EXIT_FILE"] = str(tmp_path / exit_file)
    program = PROGRAM.format(rank=rank, body=body, then=then)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60
    )
