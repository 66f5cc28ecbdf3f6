"""``watch`` in tmux: a run's life, a window that changes its size, and a window that is closed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Desk, wait_for
from tests.cli.test_watch import TRAINER

if shutil.which("tmux") is None:
    pytest.skip("group tmux: needs tmux", allow_module_level=True)


class Tmux:
    """A server of its own with one window."""

    def __init__(self, desk: Desk) -> None:
        self._socket = desk.root / "tmux"
        self._environment = {**desk.environment, "SHELL": "/bin/sh", "TERM": "xterm-256color"}
        self.ask("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", str(desk.project), "/bin/sh")
        self.ask("set-option", "-g", "window-size", "manual")
        self.type(f"{sys.executable} -m hpclaunch watch; echo ended $?", "Enter")

    def ask(self, *words: str) -> str:
        tmux = shutil.which("tmux")
        assert tmux
        command = [tmux, "-S", str(self._socket), *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, *keys: str) -> None:
        self.ask("send-keys", *keys)

    def rows(self) -> list[str]:
        return self.ask("capture-pane", "-p").split("\n")[:-1]

    def shows(self, words: str) -> list[str]:
        wait_for(lambda: any(words in row for row in self.rows()), f"the window shows {words!r}")
        return self.rows()


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.write("train.py", TRAINER)
    return desk


@pytest.fixture
def tmux(local: Desk) -> Iterator[Tmux]:
    window = Tmux(local)
    yield window
    subprocess.run(["tmux", "-S", str(local.root / "tmux"), "kill-server"], capture_output=True)


def test_a_runs_life_with_another_size_and_a_closed_window(local: Desk, tmux: Tmux) -> None:
    tmux.shows("no run yet")
    run = Path(local.type("submit", "./train.py").out.strip())
    tmux.shows(f"> {run.name}")
    (run / "epoch-1").touch()
    rows = tmux.shows("1/4")
    assert len(rows) == 24 and rows[-1].startswith("[active]  q quit  l log"), rows
    tmux.ask("resize-window", "-x", "60", "-y", "20")
    wait_for(lambda: len(rows := tmux.rows()) == 20 and rows[-1].startswith("[active]"), "60 by 20")
    assert any(row.startswith("> train-…") and run.name[-8:] in row for row in tmux.rows())
    tmux.type("l")
    tmux.shows("the program has begun")
    tmux.type("Escape")
    (run / "end").touch()
    tmux.shows("COMPLETED")
    tmux.type("q")
    tmux.shows("ended 0")
    assert not any("[active]" in row for row in tmux.rows()), "what was on the window before is there again"
    tmux.type(f"{sys.executable} -m hpclaunch watch", "Enter")
    tmux.shows("[active]")
    watching = tmux.ask("list-panes", "-F", "#{pane_pid}").strip()
    children = Path(f"/proc/{watching}/task/{watching}/children")
    wait_for(lambda: children.read_text().split(), "hpclaunch runs in the window")
    (process,) = children.read_text().split()
    tmux.ask("kill-pane")  # the window closes, as it does when a connection is lost
    wait_for(lambda: not Path(f"/proc/{process}").exists(), "it ends")
