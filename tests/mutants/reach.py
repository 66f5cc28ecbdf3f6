"""Which tests call which functions of the watched files; noted once by a run of all of them. See `Reach`."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.copies import Copy
from tests.mutants.listing import Mutant, watched_files

FOLDERS = (
    *("unit/actions", "unit/cli", "unit/config", "unit/core", "unit/runs", "unit/schedulers", "unit/sites", "property"),
    *("processes/actions", "processes/core", "processes/runs", "processes/schedulers", "cli"),
)
"""The tests of the study: those of the rooms that use the watched files, without root, Slurm and ranks."""
LEFT_OUT = re.compile(r"tests/cli/test_(plan\w*|plot|profile|recipe|jobs_and_data|failing_io)\.py")
"""Tests of planning, and one of minutes."""
SLOWEST = 30.0
"""Seconds of a test; slower ones are left out."""
HOOK = Path(__file__).with_name("reach_hook.py")


@dataclass
class Reach:
    """``seconds`` of every test that passed; ``calls``: the tests that call a function, by its file and name."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def add(self, notes: dict[str, Any]) -> None:
        """Add the notes of a file of tests."""
        by_fixture: dict[str, set[str]] = defaultdict(set)
        for about in notes["tests"]:
            if about["passed"] and about["seconds"] <= SLOWEST:
                self.seconds[about["test"]] = about["seconds"]
                for name in (about["test"], *about["fixtures"]):
                    by_fixture[name].add(about["test"])
        for name, file, function in notes["calls"]:
            self.calls[file][function] |= by_fixture[name]

    def tests_for(self, mutant: Mutant, source: str, most_seconds: float) -> list[str]:
        """The tests that call the mutated function, or any of the file if the line runs at import or is kept.

        Those of the module's own test files come first, then the quicker files and the quicker tests, until they take
        ``most_seconds`` together.
        """
        calls = self.calls[mutant.change.file]
        function = function_around(mutant.change.line, source)
        found = {test for name in calls if function in (None, name) for test in calls[name]}
        return self._most_useful(found, Path(mutant.change.file), most_seconds)

    def _most_useful(self, found: Iterable[str], file: Path, most_seconds: float) -> list[str]:
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(found, key=lambda test: self.seconds[test]):
            by_file[test.partition("::")[0]].append(test)

        def rank(name: str) -> tuple[bool, float]:
            mean = sum(self.seconds[test] for test in by_file[name]) / len(by_file[name])
            return Path(name).stem != f"test_{file.stem}", mean

        chosen, total = [], 0.0
        for name in sorted(by_file, key=rank):
            for test in by_file[name]:
                total += self.seconds[test]
                if chosen and total > most_seconds:
                    return chosen
                chosen.append(test)
        return chosen


def function_around(line: int, source: str) -> str | None:
    """The name of the outermost function that runs ``line`` at each call; None for what runs at import.

    None too for a function whose results are kept (``lru_cache``): the first test that calls it is not the only one
    that depends on it.
    """
    for node in ast.walk(ast.parse(source)):
        for part in getattr(node, "body", []) if isinstance(node, ast.Module | ast.ClassDef) else []:
            if isinstance(part, ast.FunctionDef) and part.body[0].lineno <= line <= (part.end_lineno or line):
                kept = any("cache" in ast.unparse(decorator) for decorator in part.decorator_list)
                return None if kept else part.name
    return None


def files_of_tests(code: Path, below: Sequence[str] = ("tests",)) -> list[str]:
    """The test files of the study in the folders ``below``."""
    found = [path for folder in FOLDERS for path in sorted((code / "tests" / folder).rglob("test_*.py"))]
    names = [str(path.relative_to(code)) for path in found]
    return [name for name in names if not LEFT_OUT.fullmatch(name) and name.startswith(tuple(below))]


def note_calls(copy: Copy, files: Sequence[str], seconds: float = 1800) -> dict[str, Any]:
    """Run files of tests in a copy, and return for each file the notes of its tests and of their calls."""
    folder = copy.folder / "reach"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("current", "calls", "tests"):
        (folder / name).touch()
        (folder / name).chmod(0o666)  # tests play other users
    watched = {str(path): str(path.relative_to(copy.code)) for path in watched_files(copy.code)}
    shutil.copy(HOOK, copy.packages)
    settings = copy.packages / "reach_hook.json"
    settings.write_text(json.dumps({"folder": str(folder), "watched": list(watched)}))
    (copy.packages / "reach_hook.pth").write_text("import reach_hook\n")
    try:
        copy.pytest([f"--reach={folder}", *files], seconds)
    finally:
        settings.unlink()
        (copy.packages / "reach_hook.pth").unlink()
    tests = [json.loads(line) for line in (folder / "tests").read_text().splitlines()]
    calls = [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
    unique = sorted({(name, watched[path], function) for name, path, function in calls})
    return {file: _of_file(file, tests, unique, copy) for file in files}


def _of_file(file: str, tests: list[dict[str, Any]], calls: list[tuple[str, str, str]], copy: Copy) -> dict[str, Any]:
    own = [about for about in tests if about["test"].startswith(f"{file}::")]
    names = {about["test"] for about in own}.union(*(about["fixtures"] for about in own))
    return {"digest": digest(copy.code / file), "tests": own, "calls": [call for call in calls if call[0] in names]}


def digest(path: Path) -> str:
    """What tells whether the notes of a file are still good."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
