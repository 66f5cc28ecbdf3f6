"""The program itself: help, version, completion, what it loads, and the error boundary."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.conftest import Desk

VERBS = ("submit", "render", "status", "logs", "cancel", "jobs", "sites", "data")
NEVER = ("submitit", "tensorflow", "numpy", "rich", "horovod", "pydantic")


def test_version(desk: Desk) -> None:
    assert re.fullmatch(r"hpclaunch \d+\.\d+\.\d+\S*\n", desk.type("--version").out)


def test_help_names_every_verb(desk: Desk) -> None:
    done = desk.type("--help")
    assert done.code == 0
    for verb in VERBS:
        assert re.search(rf"^\s+{verb}\s+\S", done.out, re.MULTILINE), verb


def test_without_words_it_shows_help(desk: Desk) -> None:
    done = desk.type()
    assert done.code == 2
    assert "Usage: hpclaunch" in done.out + done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_the_shells(desk: Desk, shell: str) -> None:
    done = desk.type(_HPCLAUNCH_COMPLETE=f"source_{shell}")
    assert "_HPCLAUNCH_COMPLETE" in done.out


def test_completion_knows_the_verbs(desk: Desk) -> None:
    done = desk.type(_HPCLAUNCH_COMPLETE="complete_bash", COMP_WORDS="hpclaunch su", COMP_CWORD="1")
    assert "submit" in done.out


def test_completion_knows_the_strategies(desk: Desk) -> None:
    words = {"COMP_WORDS": "hpclaunch submit cifar --strategy m", "COMP_CWORD": "4"}
    done = desk.type(_HPCLAUNCH_COMPLETE="complete_bash", **words)
    assert done.out.split() == ["mirrored", "multiworker"]


@pytest.mark.parametrize(
    "words",
    [["--help"], ["submit", "--help"], ["submit", "cifar", "--dry-run"], ["render", "cifar"], ["sites", "list"]],
)
def test_what_only_some_commands_need_is_not_loaded(desk: Desk, words: list[str]) -> None:
    program = (
        "import sys; sys.argv = ['hpclaunch', *sys.argv[1:]]\n"
        "from hpclaunch.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "else: code = 0\n"
        "print(code or 0, *sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(
        command, cwd=desk.project, env=desk.environment, capture_output=True, text=True, check=True, timeout=60
    )
    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    assert not set(NEVER) & set(loaded)


def test_a_reader_of_a_pipe_that_goes_is_no_traceback(desk: Desk) -> None:
    command = f"{sys.executable} -m hpclaunch sites show perlmutter | true"
    done = subprocess.run(
        ["bash", "-c", command], cwd=desk.project, env=desk.environment, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr


def test_control_characters_of_files_do_not_reach_the_terminal(desk: Desk) -> None:
    desk.write("jobs/evil/job.yaml", 'summary: "\\e[31mred"\nscript: a.py\n')
    assert "\\x1b[31mred" in desk.type("jobs", "list").out
