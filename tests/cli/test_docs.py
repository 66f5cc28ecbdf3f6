"""The verb docs: its list, a page as text, in a pager on a terminal, and what is refused."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

from tests.cli.conftest import Desk, desk  # noqa: F401

PAGER = """#!/bin/bash
cat > {spool}/paged
printf %s "$LESS" > {spool}/less
"""


def test_without_a_topic_the_pages_are_listed(desk: Desk) -> None:  # noqa: F811
    done = desk.type("docs")
    rows = dict(line.split("\t") for line in done.out.splitlines())
    assert (done.code, rows["topic"], rows["settings"]) == (0, "page", "Settings")
    assert done.err == "to read one: hpclaunch docs TOPIC\n"
    listed = desk.type("docs", "--json").json["pages"]
    assert [page["topic"] for page in listed] == list(rows)[1:]


def test_a_page_in_a_pipe_is_markdown_without_escapes(desk: Desk) -> None:  # noqa: F811
    done = desk.type("docs", "settings")
    assert done.out.startswith("# Settings\n") and "\x1b" not in done.out
    assert "(`hpclaunch docs job-files`)" in done.out
    found = desk.type("docs", "settings", "--json").json
    assert (found["topic"], found["title"], found["text"]) == ("settings", "Settings", done.out)
    path = Path(desk.type("docs", "settings", "--path").out.strip())
    assert path.read_text(encoding="utf-8").startswith("# Settings\n")


def test_an_unknown_topic_gives_the_nearest(desk: Desk) -> None:  # noqa: F811
    done = desk.type("docs", "setings")
    assert (done.code, done.out) == (1, "")
    assert "did you mean 'settings'?" in done.err and "next: hpclaunch docs" in done.err


def test_a_long_page_on_a_terminal_goes_to_the_pager(desk: Desk) -> None:  # noqa: F811
    desk.program("turn-pages", PAGER.format(spool=desk.spool))
    shown = on_a_terminal(desk, "docs", "settings", PAGER="turn-pages")
    paged = re.sub("\x1b\\[[0-9;]*m", "", (desk.spool / "paged").read_text(encoding="utf-8"))
    assert shown == ""
    assert "hpclaunch.yaml in the folder in which you type" in paged and "## " not in paged
    assert (desk.spool / "less").read_text() == "FRX"


def test_without_a_pager_the_page_is_written(desk: Desk) -> None:  # noqa: F811
    for pager in ("", "no-such-pager"):
        assert "hpclaunch.yaml in the folder" in on_a_terminal(desk, "docs", "settings", PAGER=pager)


def on_a_terminal(desk: Desk, *words: str, **variables: str) -> str:  # noqa: F811
    """Type a command on a terminal of its own; return what it showed there."""
    child, ours = pty.fork()
    if child == 0:
        os.chdir(desk.project)
        environment = {**desk.environment, "TERM": "xterm", "NO_COLOR": "1", **variables}
        os.execve(sys.executable, [sys.executable, "-m", "hpclaunch", *words], environment)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return re.sub("\x1b\\[[0-9;]*m", "", shown.decode("utf-8"))
