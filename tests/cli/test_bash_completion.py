"""The Tab key in a real bash."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Desk
from tests.cli.terminal import Terminal


@pytest.fixture
def shell(desk: Desk) -> Iterator[Terminal]:
    """A bash that has sourced what `hpclaunch --show-completion bash` prints."""
    bash = shutil.which("bash")
    assert bash
    program = desk.project.parent / "bin" / "hpclaunch"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hpclaunch "$@"\n')
    program.chmod(0o755)
    shown = desk.type("--show-completion", "bash")
    assert shown.code == 0 and "complete " in shown.out, shown.err
    (desk.project / "inputrc").write_text("set bell-style none\nset enable-bracketed-paste off\n")
    (desk.project / "completion.sh").write_text(f"PS1='ready> '\n{shown.out}\n")
    environment = {**desk.environment, "TERM": "dumb", "INPUTRC": str(desk.project / "inputrc")}
    environment["PATH"] += ":/usr/bin:/bin"
    words = [bash, "--noprofile", "--rcfile", str(desk.project / "completion.sh"), "-i"]
    terminal = Terminal(words, desk.project, environment)
    try:
        terminal.shows("ready>")
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("submit cifar --set warmup_e", "--set warmup_epochs=!"),  # no space before what is typed next
        ("submit cifar --set optimizer=sg", "--set optimizer=sgd !"),
        ("submit cifar --site=perl", "--site=perlmutter !"),
        ("submit cifar --site perl", "--site perlmutter !"),
        ("sites sh", "sites show !"),
    ],
)
def test_a_word_is_completed(shell: Terminal, typed: str, shown: str) -> None:
    shell.type(f"hpclaunch {typed}\t!")
    shell.shows(shown)


def test_several_values_of_a_setting_are_listed(shell: Terminal) -> None:
    shell.type("hpclaunch submit cifar --set optimizer=la\t\t")
    shell.shows("lamb  larc  lars")
