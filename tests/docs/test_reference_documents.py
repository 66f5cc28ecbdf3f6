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


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_no_cell_is_empty_and_no_figure_is_left_as_a_name() -> None:
    found = rows()
    assert len(found) > 30
    assert [row for row in found if len(row) != 5 or not all(row)] == []
    assert re.findall(r"\{[\w-]+/[\w.-]+:\w+", PAGE) == []


def test_every_command_names_a_program_that_is_there() -> None:
    programs = re.findall(r"`python (benchmarks/\S+\.py)", PAGE)
    assert len(programs) > 20
    assert [program for program in programs if not (ROOT / program).is_file()] == []


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
