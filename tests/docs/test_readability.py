"""README, tutorial and guides are easy to read: short sentences, plain words, lines that fit a screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.readability import mean_words, reading_ease, sentences_of
from tests.docs.test_site import docs_packages

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ["README.md", "docs/index.md", "docs/tutorial.md", "docs/coming-from.md", "docs/glossary.md"]
GUIDES += [
    str(path.relative_to(ROOT)) for name in ("how-to", "centres") for path in (ROOT / "docs" / name).glob("*.md")
]
PAGES = sorted(name for name in GUIDES if (ROOT / name).exists())


@pytest.mark.parametrize("name", PAGES)
def test_sentences_have_18_words_at_most_on_average_and_lines_120_characters(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 120] == []
    assert mean_words(text) <= 18


def test_the_words_are_plain() -> None:
    environment = {**os.environ, "PYTHONPATH": docs_packages()}
    command = [sys.executable, "-m", "tests.docs.readability", *PAGES]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    hard = {name: ease for name, (_, ease) in json.loads(done.stdout).items() if ease < 55}
    assert hard == {}


def test_code_tables_and_headings_are_no_prose() -> None:
    page = "# Title\n\nOne `x --y z` [two](a.md). Three\nfour:\n\n```\ncode. code\n```\n\n"
    page += "| a | b |\n|---|---|\n\n- five\n- six.\n"
    assert sentences_of(page) == ["One command two.", "Three four:", "five", "six."]
    assert mean_words(page) == 7 / 4
    assert reading_ease(page, lambda word: 1) == pytest.approx(206.835 - 1.015 * 7 / 4 - 84.6)
