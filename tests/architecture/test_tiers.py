"""The long tier runs every test that has more cases there than in `make test`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "tools" / "long_tier.py").exists():
    pytest.skip("group checkout: an sdist holds no tools", allow_module_level=True)

from tools import long_tier  # noqa: E402
from tools.long_tier import PARTS  # noqa: E402

_DIVIDED = re.compile(r"^from tests\.tiers import|(^@|[^@])pytest\.mark\.long_tier", re.MULTILINE)


def test_every_divided_test_is_one_of_make_long_or_make_once() -> None:
    command = ["make", "--silent", "--eval", "listed: ; @echo $(ONCE)", "listed"]
    once = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    listed = [*once, *" ".join(PARTS.values()).split()]
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    divided = [path for path in files if _DIVIDED.search((ROOT / path).read_text(encoding="utf-8"))]
    assert len(divided) > 20
    listed = [word for word in listed if word.startswith("tests/")]
    assert [str(path) for path in divided if not any(path.is_relative_to(place) for place in listed)] == []


def test_every_file_of_the_bed_of_faults_is_a_part() -> None:
    named = re.findall(r"make faults BED=(\S+)", "\n".join(PARTS.values()))
    assert sorted(named) == sorted(path.name for path in (ROOT / "tests" / "faults" / "bed").glob("test_*.py"))


def test_every_target_that_a_part_names_is_one_of_make() -> None:
    targets = {command.split()[1] for command in PARTS.values() if command.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text()
    assert targets and [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with an empty table."""
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- long tier -->\n<!-- end of long tier -->\nafter\n")
    return path


def test_a_part_without_a_run_a_failure_and_an_old_run_are_missing(page: Path) -> None:
    assert long_tier.missing("2026-11-27", page) == [f"{name} (not run yet)" for name in PARTS]
    for name in PARTS:
        long_tier.write_row((name, "passed", "3", "1", "2026-11-13", "abc1234"), page)
    assert long_tier.missing("2026-11-27", page) == []
    assert long_tier.missing("2026-11-28", page) == [f"{name} (last on 2026-11-13)" for name in PARTS]
    long_tier.write_row(("once", "failed (1)", "2", "1", "2026-11-27", "abc1234"), page)
    assert long_tier.missing("2026-11-27", page) == ["once (failed (1) on 2026-11-27)"]


@pytest.mark.parametrize(
    ("command", "outcome", "tests"),
    [
        ("echo '3 passed, 2 skipped in 1 s'", "passed", "3 (2 skipped)"),
        ("echo '12 passed in 1 s'", "passed", "12"),
        ("echo '1 failed, 2 passed'; exit 1", "failed (1)", "2"),
        ("echo '4 skipped in 1 s'", "failed (no test ran)", "-"),
    ],
)
def test_the_row_of_a_part_says_how_it_ended(
    page: Path, monkeypatch: pytest.MonkeyPatch, command: str, outcome: str, tests: str
) -> None:
    monkeypatch.setitem(PARTS, "once", command)
    monkeypatch.setattr(long_tier.write_row, "__defaults__", (page,))
    assert long_tier.run_part("once", "abc1234") == (outcome == "passed")
    (row,) = (line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| once"))
    assert row[1:3] == [outcome, tests] and row[5] == "abc1234 |"


def test_the_table_has_every_part_once() -> None:
    rows = [line.split(" | ")[0].strip("| ") for line in long_tier.read_part("long tier").splitlines()[2:]]
    assert rows == list(PARTS)
