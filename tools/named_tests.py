"""The names of all tests, as tests/names.txt has them: so that no test vanishes without a line of a diff.

    python tools/named_tests.py                check that the file names exactly the tests of this tree
    python tools/named_tests.py --write        write it anew (make test-names), after a test was added or taken away
    python tools/named_tests.py --passed FILE  check that every test that CI runs has passed in one of its runs

A test is a function of a file ``test_*.py``; its cases are not named. Beside the tests of a folder the file counts the
files of the folder that git has, so that data of tests cannot vanish either. What a command outside CI runs
(``make long``, ``make faults``) is marked with that command. Needs only the standard library and git.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ROOT / "tests" / "names.txt"
HEAD = "# Every test by folder and file, written by make test-names (tools/named_tests.py). CI fails if one is gone\n"
BED = "tests/faults/bed/"
GPU = "tests/gpu/"
LATER = ("make faults", "make gpu", "make long")
"""The commands that run what CI leaves out."""
MOST_SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """Check or write the names; 1 with every difference if they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write tests/names.txt anew")
    parser.add_argument("--passed", nargs="+", type=Path, metavar="FILE", help="what runs of pytest wrote (CI)")
    options = parser.parse_args(arguments)
    if options.write:
        NAMES.write_text(text_of(), encoding="utf-8")
        return 0
    if options.passed:
        problems = list(not_passed(options.passed))
    else:
        problems = list(differences(NAMES.read_text(encoding="utf-8"), text_of()))
    for problem in problems[:MOST_SHOWN]:
        print(f"tests: {problem}", file=sys.stderr)
    if len(problems) > MOST_SHOWN:
        print(f"tests: and {len(problems) - MOST_SHOWN} more", file=sys.stderr)
    return 1 if problems else 0


def text_of(root: Path = ROOT) -> str:
    """Return what the file should hold: a line for each folder with its counts, then its files with their tests."""
    files = tracked(root)
    tests = {name: names for name in files if (names := tests_in(root, name))}
    lines = [HEAD]
    for folder in sorted({folder_of(name) for name in files}):
        own = [name for name in files if folder_of(name) == folder]
        number = sum(len(tests.get(name, ())) for name in own)
        lines.append(f"\n{folder}: {number} tests, {len(own)} files\n")
        for name in own:
            if name in tests:
                lines += [f"  {name}\n", *(f"    {test}\n" for test in tests[name])]
    return "".join(lines)


def tracked(root: Path) -> list[str]:
    """Return the files of tests/ that git has and that are there, but for the list itself."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "tests"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({name for name in listed if name and (root / name).is_file()} - {"tests/names.txt"})


def folder_of(name: str) -> str:
    """Return the folder that a file is counted in: the one directly below tests/, or tests itself."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else "tests"


def tests_in(root: Path, name: str) -> list[str]:
    """Return the tests of a file in their order, each with the command that runs it if CI does not."""
    path = root / name
    if not (path.name.startswith("test_") and path.suffix == ".py"):
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [test + later(name, node) for test, node in functions(tree.body)]


def functions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the test functions of a module or of a class Test…, with pytest's names."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from functions(node.body, f"{prefix}{node.name}::")


def later(name: str, node: ast.FunctionDef) -> str:
    """Return the command that runs this test, in brackets, if it is none of CI's."""
    if name.startswith(BED):
        return " (make faults)"
    if name.startswith(GPU):
        return " (make gpu)"
    marks = [ast.unparse(decorator) for decorator in node.decorator_list]
    return " (make long)" if "pytest.mark.long_tier" in marks else ""


def differences(recorded: str, present: str) -> Iterator[str]:
    """Yield what is gone, what is new, and each folder whose counts differ."""
    before, now = entries(recorded), entries(present)
    advice = "if that is meant: make test-names, and say why in the commit"
    for name in sorted(before.keys() - now.keys()):
        yield f"{name} is gone; {advice}"
    for name in sorted(now.keys() - before.keys()):
        yield f"{name} is not in tests/names.txt: make test-names"
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield f"{name} has {now[name]}, and tests/names.txt says {before[name]}; {advice}"


def entries(text: str) -> dict[str, str]:
    """Return folder -> its counts, and test -> the command that runs it if CI does not."""
    found: dict[str, str] = {}
    file = ""
    for line in text.splitlines():
        if line.startswith("    "):
            test, _, command = line.strip().partition(" ")
            found[f"{file}::{test}"] = command
        elif line.startswith("  "):
            file = line.strip()
        elif line and not line.startswith("#"):
            folder, _, counts = line.partition(": ")
            found[folder] = counts
    return found


def not_passed(files: Iterable[Path]) -> Iterator[str]:
    """Yield every test of CI that passed in none of the runs that wrote these files."""
    passed = {line for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    for name, command in entries(NAMES.read_text(encoding="utf-8")).items():
        if "::" in name and command not in [f"({one})" for one in LATER] and name not in passed:
            yield f"{name} passed in no run"


if __name__ == "__main__":
    sys.exit(main())
