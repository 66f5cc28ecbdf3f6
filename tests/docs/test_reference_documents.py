"""The page about the reference documents: written from committed results, and no row has an empty cell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRITER = ROOT / "benchmarks" / "reference" / "page.py"
if not WRITER.exists():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
PAGE = (ROOT / "docs" / "reference-documents.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_results_give() -> None:
    done = subprocess.run([sys.executable, str(WRITER), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_writer_imports_nothing_heavy() -> None:
    code = "import sys, page; print({'tensorflow', 'matplotlib', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=WRITER.parent, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def tables() -> list[str]:
    """The documents' tables of elements, without further ones of a document, which have headings of their own."""
    return [part.split("\n### ")[0] for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]]


def rows() -> list[list[str]]:
    lines = [
        line for line in "\n".join(tables()).splitlines() if line.startswith("| ") and not line.startswith("| ---")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_no_cell_is_empty_and_every_figure_is_measured() -> None:
    found = rows()
    assert [row for row in found if len(row) != 5 or not all(row)] == []
    assert re.findall(r"\{[\w-]+/[\w.-]+:\w+", PAGE) == []
    missing = subprocess.run([sys.executable, str(WRITER), "--missing"], capture_output=True, text=True)
    assert (missing.returncode, missing.stdout) == (0, "\n"), missing.stdout + missing.stderr
    assert "not measured yet" not in PAGE


def test_every_figure_is_the_median_of_three_seeds() -> None:
    assert re.findall(r"[^|]*\b[12] runs?\)[^|]*", PAGE) == []


def test_the_guidelines_have_their_tables_with_the_projects_own_jobs() -> None:
    """Written anew by test_the_page_is_what_the_results_give; here: that they are there, with every job that trains."""
    titles = ("Data sets", "Verdicts at perlmutter")
    data, verdicts = (PAGE.split(f"\n### {title}\n\n")[1].split("\n\n")[0] for title in titles)
    for job in ("chips", "cifar", "cosmoflow", "ddp", "jax", "mnist", "resnet50", "transformer"):
        assert f"\n| {job} | " in data and f" | {job} |" in verdicts.splitlines()[0]
    assert len(verdicts.splitlines()) > 10


def test_every_document_has_its_rows() -> None:
    """As many as the documents have elements, counted by hand: a row that is lost is noticed."""
    found = {table.splitlines()[0]: re.findall(r"^\| (?!element |---)", table, re.MULTILINE) for table in tables()}
    counted = {title: len(elements) for title, elements in found.items()}
    assert counted == {
        "Notebook 4: convergence with large batches": 12,
        "Notebook 3: strategies of TensorFlow, and Horovod": 8,
        "Article: training time from hours to minutes": 15,
        "Article: why parallelized training might not be working for you": 7,
        "Guidelines: distributed training (NERSC, Intel)": 15,
        "A science case: CosmoFlow on universes that were computed": 5,
    }


def test_every_study_takes_the_words_of_its_command() -> None:
    """--help ends a program before it runs anything. Choices before it are checked; options stand in the help."""
    commands = sorted(set(re.findall(r"`python (benchmarks/\S+\.py[^`]*)`", PAGE)))
    assert len(commands) > 25
    for command in commands:
        words = command.split()
        done = subprocess.run([sys.executable, *words, "--help"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        assert {word for word in words if word.startswith("--")} <= {*re.findall(r"--[\w-]+", done.stdout)}, command


PLACES = {"JOB": "cifar", "SITE": "perlmutter", "NAME": "m1234", "N": "2"}
"""What is typed for the words in capitals."""


def test_every_command_of_hpclaunch_works_as_it_stands(tmp_path: Path) -> None:
    commands = sorted(set(re.findall(r"`(hpclaunch [^`]*)`", PAGE)))
    typed = [command.split() for command in commands if " RUN " not in command and " FILE" not in command]
    assert len(typed) >= 5
    warned: list[str] = []
    for words in typed:
        more = [] if "--site" in words else ["--site", "perlmutter"]
        more += ["--account", "m1234"] if words[1] == "submit" and "--account" not in words else []
        filled = [PLACES.get(word, word) for word in words[1:]]
        done = subprocess.run(
            [sys.executable, "-m", "hpclaunch", *filled, *more],
            cwd=WRITER.parent,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (words, done.stderr)
        if "are predicted to be slower than one process" in done.stderr:
            warned.append(words[2])
    assert warned == ["small_cnn"]


def test_a_figure_of_a_case_that_no_study_has_is_refused(tmp_path: Path) -> None:
    elements = WRITER.with_name("elements.yaml").read_text(encoding="utf-8")
    wrong = elements.replace("{critical_batch/batch-64:", "{critical_batch/64:")
    assert wrong != elements
    (tmp_path / "elements.yaml").write_text(wrong, encoding="utf-8")
    code = f"import page, pathlib; page.ELEMENTS = pathlib.Path({str(tmp_path / 'elements.yaml')!r}); page.page()"
    done = subprocess.run([sys.executable, "-c", code], cwd=WRITER.parent, capture_output=True, text=True)
    assert done.returncode == 1 and "{critical_batch/64:steps.0f}: the study has no such case" in done.stderr


def test_the_table_of_large_batches_is_what_the_results_give() -> None:
    report = ROOT / "benchmarks" / "large_batch" / "report.py"
    done = subprocess.run([sys.executable, str(report), "--markdown"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout in (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
