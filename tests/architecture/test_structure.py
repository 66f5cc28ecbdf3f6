"""The bars of the structure hold, and ``python tools/structure.py`` prints them; it counts a tree as it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.bars import Bar, bars
from tests.architecture.source_tree import CHECKOUT

COMMAND = CHECKOUT / "tools" / "structure.py"
BARS = {bar.title: bar for bar in bars()}
SOURCE = '''"""A module."""

# Two comments,
class Shape:
    """A shape."""

    def area(self, a, b, c, d, e, f, g):  # and a method of seven parameters
        if a and b:
            return 1
        return [c for c in d]

def _hidden(*args): return args

def seen(): return 0
'''


def structure(*arguments: str | Path) -> str:
    """What the command prints; it must succeed."""
    if not COMMAND.exists():
        pytest.skip("group checkout: an sdist holds no tools")
    done = subprocess.run([sys.executable, COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need_radon() -> None:
    if importlib.util.find_spec("radon") is None:
        pytest.skip("group radon: install radon (the dependency group 'dev')")


@pytest.mark.parametrize("title", BARS)
def test_a_bar_holds(title: str) -> None:
    bar = BARS[title]
    assert bar.figure <= bar.most, bar.names


def test_the_bars_are_the_circles_and_the_names_of_systems() -> None:
    assert list(BARS) == ["import circles", "other files that name a launcher, a scheduler or a container runtime"]


def test_a_bar_that_is_exceeded_ends_the_command_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    if not COMMAND.exists():
        pytest.skip("group checkout: an sdist holds no tools")
    from tools.structure import print_bars

    assert print_bars([Bar("layers", 9, 9)]) == 0
    assert print_bars([Bar("layers", 9, 9), Bar("import circles", 1, 0, ("a - b",))]) == 1
    told = capsys.readouterr()
    assert "      1     0  import circles: a - b\n" in told.out
    assert "EXCEEDED: import circles: 1, and at most 0 are allowed" in told.err


def test_the_command_prints_every_bar_and_the_table_of_the_project() -> None:
    need_radon()
    printed = structure()
    for bar in BARS.values():
        assert f"{bar.figure:7} {bar.most:5}  {bar.title}" in printed
    assert "\n| hpclaunch | " in printed and "\n| without training | " in printed
    assert "The 10 functions with the most branches:" in printed


def test_another_tree_is_counted_as_the_command_says(tmp_path: Path) -> None:
    need_radon()
    (tmp_path / "shape.py").write_text(SOURCE)
    (tmp_path / "test_shape.py").write_text("\n" * 28)
    printed = structure("--tree", tmp_path)
    assert "| 14/14/14 | 1/4/4 | 33.3 % | 4/4 | 30, 67 % | 20.0 | 50 % | 2.00 |" in printed
    assert "     6  shape.py\n" in printed and "     4  shape.py:7 Shape.area" in printed
