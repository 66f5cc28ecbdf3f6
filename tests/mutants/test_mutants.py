"""The study's own tools, on a toy package: what is killed, what survives, and what the page says of them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.mutants.copies import FAILED, PASSED, TOO_SLOW, Copy
from tests.mutants.listing import Change, Mutant, changed_lines
from tests.mutants.page import EQUIVALENT, named_equivalent, page_part
from tests.mutants.reach import Reach, function_around, note_calls
from tests.mutants.running_part import is_counted
from tests.mutants.study import Bench, judge, recorded, run_study

TOY = "hpclaunch/runs/toy.py"
SOURCE = """LIMIT = 3


def is_full(count):
    return count >= LIMIT


def message(count):
    return "full" if is_full(count) else "free"
"""
TESTS = """import subprocess, sys

import pytest
import time

from hpclaunch.runs.toy import is_full


@pytest.fixture(scope="module")
def full():
    return is_full(9)


def test_here():
    assert is_full(4)


def test_with_the_fixture(full):
    assert full


def test_in_a_program():
    command = [sys.executable, "-c", "from hpclaunch.runs.toy import message; print(message(2))"]
    assert subprocess.run(command, env={}, cwd="/", stdout=subprocess.PIPE, text=True).stdout == "free\\n"
"""
HERE, FIXTURE, PROGRAM = (
    f"tests/unit/test_toy.py::{name}" for name in ("test_here", "test_with_the_fixture", "test_in_a_program")
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("study") / "0")
    files = {"hpclaunch/__init__.py": "", TOY: SOURCE, "tests/unit/test_toy.py": TESTS, "pytest.ini": "[pytest]\n"}
    for name, text in files.items():
        (copy.code / name).parent.mkdir(parents=True, exist_ok=True)
        (copy.code / name).write_text(text)
    (copy.code / "tests/mutants").mkdir()
    shutil.copy(Path(__file__).with_name("plugin.py"), copy.code / "tests/mutants")
    copy.compile()
    return copy


def mutant(before: str, after: str) -> Mutant:
    line = 1 + SOURCE[: SOURCE.index(before)].count("\n")
    return Mutant(Change(TOY, "by hand", 0, line, f"{TOY}: {line}"), before, after, SOURCE.replace(before, after))


def test_a_mutant_is_killed_by_a_test_or_by_a_program_that_a_test_starts(copy: Copy) -> None:
    verdict = judge(copy, mutant("count >= LIMIT", "count <= LIMIT"), [HERE, PROGRAM], 300)
    assert (verdict.outcome, verdict.test) == (FAILED, HERE)
    verdict = judge(copy, mutant('"free"', '"none"'), [HERE, PROGRAM], 300)
    assert (verdict.outcome, verdict.test) == (FAILED, PROGRAM)


def test_a_mutant_that_no_test_sees_survives_and_the_file_is_as_before(copy: Copy) -> None:
    verdict = judge(copy, mutant("count >= LIMIT", "count > LIMIT"), [HERE, PROGRAM], 300)
    assert (verdict.outcome, verdict.test) == (PASSED, "")
    assert (copy.code / TOY).read_text() == SOURCE
    assert copy.run([HERE, FIXTURE, PROGRAM], 300).outcome == PASSED


def test_a_test_that_fails_without_the_mutant_too_kills_none(copy: Copy) -> None:
    (copy.code / "tests/unit/test_broken.py").write_text("def test_broken():\n    assert False\n")
    broken = "tests/unit/test_broken.py::test_broken"
    verdict = judge(copy, mutant("count >= LIMIT", "count > LIMIT"), [broken, HERE], 300)
    assert (verdict.outcome, verdict.test) == (PASSED, "")
    verdict = judge(copy, mutant("count >= LIMIT", "count <= LIMIT"), [broken, HERE], 300)
    assert (verdict.outcome, verdict.test) == (FAILED, HERE)


def test_a_module_that_cannot_be_imported_is_killed(copy: Copy) -> None:
    assert judge(copy, mutant("LIMIT = 3", "LIMIT = 3 / 0"), [HERE], 300).outcome == FAILED


def test_a_mutant_that_never_ends_is_too_slow_and_nothing_of_it_is_left(copy: Copy) -> None:
    endless = mutant('"free"', "min(iter(int, 1))")
    assert judge(copy, endless, [PROGRAM], 3).outcome == TOO_SLOW
    assert (copy.code / TOY).read_text() == SOURCE
    deadline = time.monotonic() + 100  # a process that was killed is still there for a moment
    while left := [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if str(copy.folder) in _text(entry)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_the_tests_of_a_mutant_are_those_that_call_its_function(copy: Copy) -> None:
    reach = Reach()
    reach.add(note_calls(copy, ["tests/unit/test_toy.py"])["tests/unit/test_toy.py"])
    assert set(reach.seconds) == {HERE, FIXTURE, PROGRAM}
    assert set(reach.tests_for(mutant("count >= LIMIT", "count"), SOURCE, 60)) == {HERE, FIXTURE, PROGRAM}
    assert reach.tests_for(mutant('"free"', '"none"'), SOURCE, 60) == [PROGRAM]
    assert set(reach.tests_for(mutant("LIMIT = 3", "LIMIT = 4"), SOURCE, 60)) == {HERE, FIXTURE, PROGRAM}
    assert len(reach.tests_for(mutant("LIMIT = 3", "LIMIT = 4"), SOURCE, 0)) == 1


def test_calls_are_noted_also_after_a_test_in_which_python_dropped_the_notes(copy: Copy) -> None:
    deep = "import sys\n\n\ndef test_without_trace():\n    sys.settrace(None)\n\n\n"
    calls = "def test_later():\n    from hpclaunch.runs.toy import is_full\n\n    is_full(1)\n"
    (copy.code / "tests/unit/test_deep.py").write_text(deep + calls)
    notes = note_calls(copy, ["tests/unit/test_deep.py"])["tests/unit/test_deep.py"]
    assert notes["calls"] == [("tests/unit/test_deep.py::test_later", TOY, "is_full")]


def test_each_outcome_is_written_at_once_and_a_later_one_takes_its_place(copy: Copy, tmp_path: Path) -> None:
    reach = Reach(seconds={HERE: 0.1})
    reach.calls[TOY]["is_full"].add(HERE)
    results = tmp_path / "results.jsonl"
    for after in ("count < LIMIT", "count > LIMIT", "count > LIMIT"):
        run_study(Bench([copy]), [mutant("count >= LIMIT", after)], reach, {"measured": "now"}, results)
    run_study(Bench([copy]), [mutant('"free"', '"none"')], reach, {"measured": "now"}, results)
    lines = recorded(results).values()
    assert [(line["outcome"], line["by"]) for line in lines] == [
        ("killed", HERE),
        ("survived", ""),
        ("not reached", ""),
    ]
    assert {line["measured"] for line in lines} == {"now"}


def test_what_never_runs_and_what_the_compiler_reports_does_not_count() -> None:
    head = 'from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"""text"""\n'
    code = head + "if TYPE_CHECKING:\n    x = 1\n"
    code += "def f(a: int | None = 1) -> int | str:\n    b: int | str = 2\n    return b == 2\n"
    assert not is_counted(code, code.replace("x = 1", "x = 2"))
    assert not is_counted(code, code.replace("int | None", "int + None"))
    assert not is_counted(code, code.replace("-> int | str", "-> int & str"))
    assert not is_counted(code, code.replace("b: int | str", "b: int & str"))
    assert not is_counted(code, code.replace("text", "TEXT"))
    assert not is_counted(code, code.replace("== 2", "is 2"))
    assert not is_counted(code, code.replace("return b", "return return b"))
    assert is_counted(code, code.replace("= 1)", "= 2)")) and is_counted(code, code.replace("== 2", "!= 2"))
    evaluated = "class A:\n    b: int | None\n"
    assert is_counted(evaluated, evaluated.replace("|", "+"))


def test_what_runs_at_import_or_is_kept_belongs_to_no_function() -> None:
    source = "A = 1\n@keep\ndef f(a=1):\n    def g():\n        return 2\n    return g\n"
    source += "@lru_cache(1)\ndef h():\n    return 3\n"
    assert [function_around(line, source) for line in (1, 2, 3, 9)] == [None, None, None, None]
    assert function_around(5, source) == "f"


def test_changed_lines_are_told_without_their_indentation() -> None:
    assert changed_lines(["a", "  b", "c"], ["a", "  d", "c"]) == ("b", "d")
    assert changed_lines(["", "@b", "c"], ["c"]) == ("@b", "")


def test_the_page_counts_every_mutant_once() -> None:
    def result(outcome: str, after: str) -> dict[str, str | int]:
        about = {"file": TOY, "line": 5, "before": "x", "after": after, "outcome": outcome}
        return {**about, "at": after, "measured": f"day {after}", "drawn_from": "9 changes"}

    results = [result("killed", "1"), result("timed out", "2"), result("survived", "3"), result("not reached", "4")]
    text = page_part(results, {(TOY, "x", "4"): "the same", (TOY, "x", "1"): "not so"})
    assert "4 mutants, drawn from 9 changes; the last one ran on day 4.\n" in text
    assert "1 are equivalent. Of the other 3, 2 were killed or timed out: 66.7 %." in text
    assert "| `runs/` | 4 | 1 | 1 | 1 | 1 |" in text
    assert text.endswith(f"- `{TOY}`, line 5: `x` becomes `3`\n")


def test_every_equivalent_mutant_is_in_the_results_file_and_has_a_reason() -> None:
    drawn = {(line["file"], line["before"], line["after"]) for line in recorded().values()}
    for key, why in named_equivalent().items():
        assert key in drawn, f"{EQUIVALENT}: {key} was not drawn"
        assert len(why) > 20
