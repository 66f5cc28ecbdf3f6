"""docs/reliability.md is written by the bed of faults: it tells of every fault there, and of no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.parts import page_part, recorded
from tests.mutants import page as mutants
from tests.mutants import study
from tests.reliability import read_part, table, with_rows, write_part

BED = Path(__file__).resolve().parents[1] / "faults" / "bed"
HEADER = ("fault", "outcome")


def faults() -> Iterator[str]:
    """What the tests of the bed call their faults: the first text that they hand to judge(), tell() or disturbed()."""
    for file in sorted(BED.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                texts = [str(word.value) for word in node.args if isinstance(word, ast.Constant)]
                if name in ("judge", "tell", "disturbed") and texts:
                    yield texts[0]


def test_every_fault_of_the_bed_is_in_the_table() -> None:
    rows = [line.strip("| ").split(" | ")[0] for line in read_part("faults").splitlines() if line.startswith("| ")]
    assert sorted(rows[2:]) == sorted(faults())
    assert len(rows) > 15


def test_the_page_says_how_long_its_rows_took() -> None:
    lines = [line.strip("| ").split(" | ") for line in read_part("faults").splitlines() if line.startswith("| ")]
    seconds = lines[0].index("seconds")
    total = sum(int(row[seconds]) for row in lines[2:])
    assert f"All rows together: {round(total / 60)} minutes." in read_part("faults")


def test_the_table_of_the_fuzzing_is_the_sum_of_the_results_file() -> None:
    assert read_part("fuzzing").strip() == page_part(recorded()).strip()
    assert "Tracebacks: 0. Too slow: 0. Crashes: 0." in read_part("fuzzing")


def test_the_figures_of_the_mutants_are_counted_from_the_results_file() -> None:
    part = mutants.page_part([*study.recorded().values()], mutants.named_equivalent())
    assert read_part("mutants").strip() == part.strip()


def test_a_row_takes_the_place_of_an_older_one_of_the_same_fault(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\nNot run yet.\n<!-- end of x -->\nafter\n")
    for rows in ([("a", "1"), ("b", "2")], [("a", "3"), ("c", "4")]):
        write_part("x", table(HEADER, with_rows(read_part("x", page), HEADER, rows)), page)
    assert with_rows(read_part("x", page), HEADER, []) == [["a", "3"], ["b", "2"], ["c", "4"]]
    assert page.read_text().startswith("before\n") and page.read_text().endswith("after\n")


def test_rows_under_other_headings_are_not_kept() -> None:
    assert with_rows(table(("fault", "else"), [("a", "1")]), HEADER, [("b", "2")]) == [("b", "2")]
