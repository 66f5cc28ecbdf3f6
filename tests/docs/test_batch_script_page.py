"""The page on batch scripts shows what hpclaunch prints about its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.actions.requesting.from_script import request_from_script
from hpclaunch.actions.system import System
from hpclaunch.core.spec import Request
from tests.docs.page_commands import blocks_of

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/batch-script.md"


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {block.kind: block for block in blocks_of(PAGE)}
    (tmp_path / "train.slurm").write_text(blocks["file"].text)
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    request = request_from_script(System(tell=told.append), Request(target=""), "train.slurm")
    assert told == blocks["output"].text.splitlines()
    assert (request.nodes, request.target, request.arguments) == (2, "python", ("train.py", "--lr", "0.1"))
