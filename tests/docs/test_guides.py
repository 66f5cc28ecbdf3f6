"""Every command of the tutorial, the how-to pages and the centres' pages is typed, rendered or looked up."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import this_checkout
from tests.docs.page_commands import KINDS, blocks_of, for_site, give_site, is_rendered, prepare
from tests.docs.typed import fault_of, unknown_in

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = [DOCS / name for name in ("index.md", "tutorial.md", "coming-from.md")]
GUIDES += sorted((DOCS / "how-to").glob("*.md"))
PAGES = [*GUIDES, *sorted((DOCS / "centres").glob("*.md"))]
LOCAL = [page for page in PAGES if any(block.kind == "here" for block in blocks_of(page))]
# The tutorial is one of the long tier: test_tutorial.py types it in every run, and compares what it prints.
LATER = {DOCS / "tutorial.md": [pytest.mark.long_tier]}
LOCAL_PAGES = [pytest.param(page, marks=LATER.get(page, []), id=page.stem) for page in LOCAL]

PICTURES = {"plan.svg": "plan-cosmoflow.svg"}
"""Pictures that a page's commands draw, and the name by which the page shows them on the site."""


def test_every_block_says_what_a_test_does_with_it() -> None:
    wrong = [
        f"{page.name}: {block.kind or 'no comment'}: {block.text[:60]}"
        for page in PAGES
        for block in blocks_of(page)
        if block.kind not in KINDS or (block.kind in ("elsewhere", "output") and block.commands)
    ]
    assert wrong == []


def on_clusters() -> list[tuple[Path, str, list[str]]]:
    """Every command for a cluster: its page, the site, its words."""
    blocks = [(page, block) for page in PAGES for block in blocks_of(page) if block.kind == "on"]
    return [(page, block.detail, words) for page, block in blocks for words in block.commands]


def test_every_script_for_a_cluster_is_rendered(tmp_path: Path) -> None:
    prepare(tmp_path, [block for page in PAGES for block in blocks_of(page)])
    made = [(page, for_site(words, site, tmp_path)) for page, site, words in on_clusters() if is_rendered(words)]
    cases = {tuple(words): page.name for page, words in made}  # the same command of several pages once
    folders = {"SCRATCH": str(tmp_path / "scratch"), "WORK": str(tmp_path / "work")}  # render ./train.py writes a run
    tried = []
    for words, page in cases.items():
        give_site(tmp_path, words[words.index("--site") + 1])
        tried.append((page, words, fault_of(words, tmp_path, **folders)))
    assert [f"{page}: {shlex.join(words)}: {fault}" for page, words, fault in tried if fault] == []
    assert len(cases) > 100


def test_every_other_verb_and_option_exists() -> None:
    others = [(page, words) for page, _, words in on_clusters() if not is_rendered(words)]
    others += [(page, words) for page in GUIDES for words in commands_in_text(page)]
    faults = [f"{page.name}: {' '.join(words)}: {unknown_in(words)}" for page, words in others if unknown_in(words)]
    assert faults == []


def test_the_commands_of_all_other_pages_exist() -> None:
    others = [page for page in DOCS.glob("*.md") if page not in PAGES]
    shown = [(page, words) for page in others for block in blocks_of(page) for words in block.commands]
    typed = [(page, [word.strip("[]") for word in words]) for page, words in shown]  # [RUN] may be left out
    assert [f"{page.name}: {words}: {unknown_in(words)}" for page, words in typed if unknown_in(words)] == []
    assert len(typed) > 50


def commands_in_text(page: Path) -> list[list[str]]:
    """Commands that stand in backticks, in a sentence or a table."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [shlex.split(found)[1:] for found in re.findall(r"`(hpclaunch [^`]+)`", text)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", LOCAL_PAGES)
def test_every_command_for_this_machine_runs(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    with_horovod = importlib.util.find_spec("horovod") is not None
    prepare(tmp_path, blocks)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hpclaunch"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hpclaunch "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8", **this_checkout()}
    skipped = False
    if "--plot" in page.read_text(encoding="utf-8") and importlib.util.find_spec("matplotlib") is None:
        pytest.skip("group plot: needs matplotlib (the extra plot)")
    for block in blocks:
        if block.kind == "here" and (with_horovod or block.detail != "horovod"):
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, block.text + done.stdout + done.stderr
        skipped |= block.kind == "here" and block.detail == "horovod" and not with_horovod
    for drawn in tmp_path.glob("*.svg"):
        assert b"<svg" in drawn.read_bytes()
        assert f"`docs/pictures/{PICTURES[drawn.name]}`" in page.read_text(encoding="utf-8")
    if skipped:
        pytest.skip("group horovod: TensorFlow and Horovod are not installed")


def test_the_sites_plan_is_that_of_the_command_on_its_page() -> None:
    drawer = DOCS.parent / "tools" / "docs_pictures.py"
    if not drawer.exists():
        pytest.skip("group checkout: an sdist holds no tools")
    words = ast.literal_eval(re.findall(r"^PLAN = (\(.*\))$", drawer.read_text(encoding="utf-8"), re.MULTILINE)[0])
    page = (DOCS / "how-to" / "how-many-nodes.md").read_text(encoding="utf-8")
    assert f"\nhpclaunch {shlex.join(words)} plan.svg\n" in page


def test_a_page_names_the_files_that_it_shows() -> None:
    files = [(page, block.detail) for page in PAGES for block in blocks_of(page) if block.kind == "file"]
    texts = {page: re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page, _ in files}
    assert [f"{page.name}: {name}" for page, name in files if f"`{name}`" not in texts[page]] == []
