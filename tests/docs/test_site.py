"""The documentation site builds without a warning, has no dead link, and its search answers the commonest questions."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.site_pages import faults_of, pages_of
from tests.downloaded import folder_of

ROOT = Path(__file__).resolve().parents[2]
# What people type into the search, and the page that must come first.
QUESTIONS = {
    "getting started": "tutorial/",
    "install": "installing/",
    "run my own script": "how-to/own-script/",
    "virtual environment": "how-to/environment/",
    "conda": "how-to/environment/",
    "pytorch": "how-to/pytorch/",
    "how many nodes": "how-to/how-many-nodes/",
    "sweep": "how-to/many-runs/",
    "longer than the walltime": "how-to/long-runs/",
    "why did my run fail": "how-to/failed-run/",
    "cancel a run": "how-to/follow-a-run/",
    "compare results": "how-to/results/",
    "my cluster is not listed": "how-to/new-cluster/",
    "perlmutter": "centres/perlmutter/",
    "coming from submitit": "coming-from/",
    "glossary": "glossary/",
    "command reference": "reference/commands/",
}


def docs_packages() -> str:
    """A folder for PYTHONPATH with the packages of the extra `docs`."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return folder_of("docs-site", *extras["docs"], apart=True)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pictures, drawn as `make docs` draws them."""
    if not (ROOT / "benchmarks").is_dir():
        pytest.skip("group checkout: an sdist holds no benchmarks")
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("group plot: needs matplotlib (the extra plot)")
    folder = tmp_path_factory.mktemp("drawn")
    command = [sys.executable, str(ROOT / "tools" / "docs_pictures.py"), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def site(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    shutil.copytree(drawn, ROOT / "docs" / "pictures", dirs_exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": docs_packages(), "NO_MKDOCS_2_WARNING": "1"}
    target = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return target


def test_a_page_names_every_picture_and_each_has_its_content(drawn: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"`make docs` draws `docs/pictures/([^`]+)`", page)}
    assert {path.name for path in drawn.iterdir()} == named
    texts = {path.name: re.findall(r"<!-- (.+?) -->", path.read_text(encoding="utf-8")) for path in drawn.iterdir()}
    assert {name for name, found in texts.items() if len(found) < 10} == set()
    assert {"recommended", "lamb-ghost"} <= set(texts["large_batches.svg"])


def test_the_site_shows_the_pictures_that_pages_name(site: Path) -> None:
    text = (site / "reference-documents" / "index.html").read_text(encoding="utf-8")
    assert "in a checkout" not in text
    shown = re.findall(r'<img alt="([^"]+)" src="\.\./(pictures/[^"]+)"', text)
    assert len(shown) == 13 and ("the layers of the network", "pictures/chips-model.svg") in shown
    guide = (site / "how-to" / "how-many-nodes" / "index.html").read_text(encoding="utf-8")
    assert '<img alt="time and cost of 1 to 64 nodes" src="../../pictures/plan-cosmoflow.svg"' in guide


def test_every_document_is_a_page(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path.parent.relative_to(site) for path in pages_of(site)}
    assert {path.parent if path.name == "index" else path for path in documents} == pages


def test_no_link_is_dead_and_nothing_comes_from_another_host(site: Path) -> None:
    assert faults_of(site) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="other/">x</a><a href="#top">x</a><script src="https://cdn/x.js">')
    found = faults_of(tmp_path)
    assert [fault.split(" ", 1)[1] for fault in found] == [
        "links to #top, which has no such anchor",
        "links to other/, which is no file",
        "loads https://cdn/x.js",
    ]


def test_the_search_finds_the_commonest_questions_pages_first(site: Path) -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("group node: the site's search runs in JavaScript (apt-get install nodejs)")
    command = [node, str(Path(__file__).with_name("search_worker.js")), str(site), *QUESTIONS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {question: pages[:1] for question, pages in json.loads(done.stdout).items()}
    assert found == {question: [page] for question, page in QUESTIONS.items()}
