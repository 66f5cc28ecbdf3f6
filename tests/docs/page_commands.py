"""The code blocks of the guides. A comment above each says what a test does with it.

| comment | the block |
|---|---|
| ``<!-- here -->`` | is typed on this machine, block by block in the order of the page |
| ``<!-- here: horovod -->`` | likewise, where TensorFlow and Horovod are installed |
| ``<!-- file: NAME -->`` | is written as a file before what follows is typed |
| ``<!-- on: SITE -->`` | is for a login node of this site: scripts are rendered, other verbs and options looked up |
| ``<!-- elsewhere: WHY -->`` | cannot be tried, and calls no hpclaunch |
| ``<!-- output -->`` | is what a program prints, shortened |
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("here", "file", "on", "elsewhere", "output")
RENDERED = ("submit", "render", "search")
OF_SEARCHES = ("status", "results", "resume", "cancel", "recipe")
ACCOUNT = "m1234"
_BLOCK = re.compile(r"(?:<!-- (?P<kind>\w+)(?:: (?P<detail>.+?))? -->\n)?```[a-z]*\n(?P<text>.*?)```\n", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block with its comment."""

    kind: str
    detail: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of every line that calls hpclaunch, without its remark."""
        whole = re.sub(r"\\\n\s*", " ", self.text)
        lines = [re.split(r"\s+# ", line.removeprefix("$ "))[0] for line in whole.splitlines()]
        return [shlex.split(line)[1:] for line in lines if line.startswith("hpclaunch ")]


def blocks_of(page: Path) -> list[Block]:
    """All code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(kind=found["kind"] or "", detail=found["detail"] or "", text=found["text"])
        for found in _BLOCK.finditer(text)
    ]


def is_rendered(words: list[str]) -> bool:
    """Whether a command for a cluster makes a script; of all others, verbs and options are looked up."""
    return words[0] in RENDERED and words[1] not in OF_SEARCHES


def for_site(words: list[str], site: str, home: Path) -> list[str]:
    """What to type here instead of a command that makes a script: the same for the site, and nothing is submitted."""
    words = [str(home / word[2:]) if word.startswith("~/") else word for word in words]
    cut = words.index("--") if "--" in words else len(words)
    mine = [word for word in words[:cut] if word not in ("--wait", "--dry-run", "--test-only")]
    added = [] if "--site" in mine else ["--site", site]
    added += [] if {"--account", "--as-is"} & {*mine} else ["--account", ACCOUNT]
    added += ["--dry-run"] if words[0] != "render" else []
    return [*mine, *added, *words[cut:]]


def prepare(folder: Path, blocks: list[Block]) -> None:
    """A home with what the pages' commands name: their files, and an environment."""
    for block in blocks:
        if block.kind == "file":
            (folder / block.detail).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.detail).write_text(block.text, encoding="utf-8")
    for name in ("train.py", "hello.py"):
        if not (folder / name).exists():
            (folder / name).write_text("print('hello')\n", encoding="utf-8")
    (folder / "envs/mine/bin").mkdir(parents=True, exist_ok=True)
    for name in ("activate", "python"):
        (folder / "envs/mine/bin" / name).write_text("", encoding="utf-8")
        os.chmod(folder / "envs/mine/bin" / name, 0o755)


def give_site(folder: Path, name: str) -> None:
    """Let the folder's only site be a bundled one that shares the folder: its nodes have a /tmp of their own."""
    text = (ROOT / "site_configs" / f"{name}.yaml").read_text(encoding="utf-8")
    shutil.rmtree(folder / "site_configs", ignore_errors=True)
    (folder / "site_configs").mkdir()
    shared = re.sub(r"node_private: \[.*?\]", "node_private: []", text)
    (folder / "site_configs" / f"{name}.yaml").write_text(shared, encoding="utf-8")
