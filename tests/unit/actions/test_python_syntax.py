from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.preparing.python_syntax import python_version, syntax_faults
from tests.builders import a_desk, planned


def told(text: str, interpreter: str) -> str:
    spec = replace(planned(a_desk()), interpreter=interpreter)
    return "\n".join(map(str, syntax_faults("./t.py", text, spec)))


@pytest.mark.parametrize(
    "row",
    [
        'print "epoch", 1',
        "exec 'x = 1'",
        "raise ValueError, 'x'",
        "x = 0777",
        "x = 10L",
        "x = `y`",
        "x = 1 <> 2",
        "x = ur'a'",
    ],
)
def test_python_2_is_told_whatever_python_runs_it(row: str) -> None:
    assert told(f"import sys\n{row}\n", "python3").startswith("./t.py, line 2: it is written for Python 2")


def test_an_except_clause_of_python_2_is_told() -> None:
    assert "line 3: it is written for Python 2" in told("try:\n    pass\nexcept ValueError, e:\n    pass\n", "python3")


@pytest.mark.parametrize("text", ["x = 1\n", "print('a')\n", "# print 'a'\n", '"""print "a\n"""\n', "\ufeffx = 1\n"])
def test_what_every_python_3_reads_is_no_fault(text: str) -> None:
    assert told(text, sys.executable) == "" == told(text, "python3")


def test_an_error_counts_only_for_a_python_that_is_known_not_to_be_newer(tmp_path: Path) -> None:
    assert "which cannot read it" in told("def f(:\n", sys.executable)
    assert told("def f(:\n", "python3") == ""
    assert told("def f(:\n", a_venv(tmp_path, "3.99.1")) == ""


def test_syntax_that_is_too_new_for_a_known_python_is_told(tmp_path: Path) -> None:
    text = "match 1:\n    case 1:\n        pass\n"
    older = a_venv(tmp_path, "3.8.10")
    assert f"{older} is Python 3.8, which cannot read it" in told(text, older)
    assert told(text, sys.executable) == ""


def a_venv(folder: Path, version: str) -> str:
    (folder / version / "bin").mkdir(parents=True)
    (folder / version / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    (folder / version / "bin/python").write_text("")
    return str(folder / version / "bin/python")


def test_a_version_is_read_from_names_alone(tmp_path: Path) -> None:
    (tmp_path / "python3.9").write_text("")
    (tmp_path / "python3").symlink_to("python3.9")
    (tmp_path / "python").write_text("")
    assert python_version(str(tmp_path / "python3")) == (3, 9)
    assert python_version(str(tmp_path / "python")) is None
    assert python_version("python3.9") is None
    assert python_version(sys.executable) == sys.version_info[:2]
