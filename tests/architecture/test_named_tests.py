"""tests/names.txt has every test: what ``tools/named_tests.py`` says of a tree from which something vanished."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "tools" / "named_tests.py").exists():
    pytest.skip("group checkout: an sdist holds no tools", allow_module_level=True)

from tools import named_tests  # noqa: E402

FILES = {
    "tests/unit/test_a.py": "def test_one(): ...\n\ndef helper(): ...\n\nclass TestB:\n    def test_two(self): ...\n",
    "tests/unit/part/test_c.py": "import pytest\n\n@pytest.mark.long_tier\ndef test_three(): ...\n",
    "tests/faults/bed/test_d.py": "def test_four(): ...\n",
    "tests/golden/script.sh": "true\n",
    "tests/conftest.py": "def test_no_test_of_pytest(): ...\n",
}
LISTED = f"""{named_tests.HEAD}
tests: 0 tests, 1 files

tests/faults: 1 tests, 1 files
  tests/faults/bed/test_d.py
    test_four (make faults)

tests/golden: 0 tests, 1 files

tests/unit: 3 tests, 2 files
  tests/unit/part/test_c.py
    test_three (make long)
  tests/unit/test_a.py
    test_one
    TestB::test_two
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a few tests, and their list."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    monkeypatch.setattr(named_tests, "ROOT", tmp_path)
    monkeypatch.setattr(named_tests, "NAMES", tmp_path / "tests" / "names.txt")
    monkeypatch.setattr(named_tests.text_of, "__defaults__", (tmp_path,))
    assert named_tests.main(["--write"]) == 0
    return tmp_path


def test_the_list_has_every_test_with_the_command_that_runs_it(tree: Path) -> None:
    assert (tree / "tests" / "names.txt").read_text() == LISTED
    assert named_tests.main([]) == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tree: (tree / "tests/unit/test_a.py").write_text("def test_one(): ...\n"), "::TestB::test_two is gone"),
        (lambda tree: (tree / "tests/unit/test_a.py").unlink(), "tests/unit/test_a.py::test_one is gone"),
        (lambda tree: (tree / "tests/golden/script.sh").unlink(), "tests/golden is gone"),
        (lambda tree: (tree / "tests/unit/test_e.py").write_text("def test_five(): ...\n"), "test_five is not in"),
        (lambda tree: (tree / "tests/unit/data").write_text(""), "tests/unit has 3 tests, 3 files, and"),
        (
            lambda tree: (tree / "tests/unit/part/test_c.py").write_text("def test_three(): ...\n"),
            "test_c.py::test_three has , and tests/names.txt says (make long)",
        ),
    ],
    ids=["test", "file", "folder", "new test", "new file", "no longer marked"],
)
def test_a_difference_is_told(
    tree: Path, change: Callable[[Path], object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(tree)
    assert named_tests.main([]) == 1
    assert told in capsys.readouterr().err


def test_a_test_that_passed_in_no_run_of_ci_is_told(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newcomer, root = tree / "newcomer", tree / "root"
    newcomer.write_text("tests/unit/test_a.py::test_one\n")
    root.write_text("")
    assert named_tests.main(["--passed", str(newcomer), str(root)]) == 1
    assert capsys.readouterr().err == "tests: tests/unit/test_a.py::TestB::test_two passed in no run\n"
    root.write_text("tests/unit/test_a.py::TestB::test_two\n")
    assert named_tests.main(["--passed", str(newcomer), str(root)]) == 0


def test_ci_checks_the_list_before_and_what_passed_after_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    before, _, after = script.partition("make test'")
    assert "\npython3 tools/named_tests.py\n" in before
    assert '\npython3 tools/named_tests.py --passed "$home/passed" "$home/passed-as-root"\n' in after
