"""The bars of the project's structure, and how its code is written, beside any other project's by the same count.

    python tools/structure.py                                  the bars, and the table of hpclaunch
    python tools/structure.py --tree FOLDER [--tests FOLDER]   the table of another tree of Python sources

Ends with 1 if a bar does not hold (tests/architecture/bars.py has them; the table has none). Branches are counted by
radon (dependency group ``dev``); without it they are left out, and the bars hold or not all the same.

What the columns count, for the .py files of a tree that are no tests (a file below ``test`` or ``tests``, or named
``test_*.py`` or ``*_test.py``, is one):

- module: all lines of a file, p50/p90/max. A percentile p of n sorted values is the one at round((n - 1) * p).
- function: lines from ``def`` to the end, with the docstring; methods and nested functions are functions too.
- 7 and more parameters: the share of functions; ``self`` and ``cls`` do not count, ``*args`` and ``**kwargs`` one each.
- branches: cyclomatic complexity of each function and method by radon, nested functions within theirs; p90/max.
- branches per 100 lines: of those that are not blank; and the share of them that stand inside an expression (a
  conditional one, ``and``, ``or``, a comprehension), not in a statement (``if``, a loop, ``except``, ``case``).
- comments: ``#`` tokens for each 100 lines that are not blank.
- public docstrings: the share of modules, classes and functions with one, of those that no leading underscore hides.
- tests : source: all lines of the tests for each line of source. --tests adds a folder to the tests inside the tree.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.architecture import bars, source_tree  # noqa: E402

try:
    from radon.complexity import cc_visit
except ImportError:
    cc_visit = None

TOP = 10
COLUMNS = (
    "module",
    "function",
    "7 and more parameters",
    "branches p90/max",
    "branches per 100 lines, in expressions",
    "comments per 100 lines",
    "public docstrings",
    "tests : source",
)
STATEMENTS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
OF_TRAINING = ("tests/unit/training", "tests/processes/training", "tests/horovod", "tests/site_environment")
"""The tests that are left out where the launcher alone is counted."""


@dataclass(slots=True)
class Style:
    """What was counted in the modules of one tree."""

    modules: list[int] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    many_parameters: int = 0
    branches: dict[str, int] = field(default_factory=dict)
    in_statements: int = 0
    in_expressions: int = 0
    comments: int = 0
    written_lines: int = 0
    documented: list[bool] = field(default_factory=list)

    def row(self, tests: int) -> list[str]:
        """The cells of the table, for so many lines of tests."""
        share = 100 * self.many_parameters / max(1, len(self.functions))
        points = self.in_statements + self.in_expressions
        documented = 100 * sum(self.documented) / max(1, len(self.documented))
        return [
            "/".join(str(percentile(self.modules, part)) for part in (0.5, 0.9, 1)),
            "/".join(str(percentile(self.functions, part)) for part in (0.5, 0.9, 1)),
            f"{share:.1f} %",
            "/".join(str(percentile(self.branches.values(), part)) for part in (0.9, 1)) if cc_visit else "-",
            f"{self.per_100_lines(points):.0f}, {100 * self.in_expressions / max(1, points):.0f} %",
            f"{self.per_100_lines(self.comments):.1f}",
            f"{documented:.0f} %",
            f"{tests / max(1, sum(self.modules)):.2f}",
        ]

    def per_100_lines(self, number: int) -> float:
        return 100 * number / max(1, self.written_lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the bars and the table; 1 if a bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, help="the sources of another project")
    parser.add_argument("--tests", type=Path, help="its tests, where they are not inside the tree")
    options = parser.parse_args(arguments)
    if options.tests and not options.tree:
        parser.error("--tests needs --tree")
    if options.tree:
        if not any(options.tree.rglob("*.py")):
            parser.error(f"--tree {options.tree}: no Python file there")
        print_other(options.tree, options.tests)
        return 0
    code = print_bars(bars.bars())
    print()
    print_project()
    return code


def print_bars(found: Iterable[bars.Bar]) -> int:
    """Print each bar with its figure; 1 if one does not hold."""
    code = 0
    print(f"{'figure':>7} {'bar':>5}")
    for bar in found:
        names = bar.names if len(bar.names) == 1 or not bar.holds else ()
        print(f"{bar.figure:7} {bar.most:5}  {bar.title}" + (f": {', '.join(names)}" if names else ""))
        if not bar.holds:
            code = 1
            print(f"         EXCEEDED: {bar.title}: {bar.figure}, and at most {bar.most} are allowed", file=sys.stderr)
    return code


def print_project() -> None:
    """Print the launcher's parameters, and the tables of the whole package and of the launcher alone."""
    numbers = sorted(source_tree.parameters_of_launcher().values())
    spread = ", ".join(f"{number}: {numbers.count(number)}" for number in sorted(set(numbers)))
    print(f"the launcher's functions by number of parameters: {spread}")
    untested = source_tree.modules_without_test()
    print(f"modules without a unit test of their name: {len(untested)} of {len(source_tree.MODULES)}\n")
    whole, launcher = style_of(source_tree.MODULES, ROOT), style_of(source_tree.LAUNCHER, ROOT)
    tests = python_files(ROOT / "tests")
    of_launcher = [path for path in tests if not path.relative_to(ROOT).as_posix().startswith(OF_TRAINING)]
    print_table({"hpclaunch": whole.row(all_lines(tests)), "without training": launcher.row(all_lines(of_launcher))})
    print_most_branches(whole)


def print_other(tree: Path, more_tests: Path | None) -> None:
    """Print the table of another project."""
    files = python_files(tree)
    tests = [path for path in files if is_test(path.relative_to(tree))]
    style = style_of([path for path in files if path not in set(tests)], tree)
    outside = python_files(more_tests) if more_tests else []
    print_table({tree.resolve().name: style.row(all_lines({*tests, *outside}))})
    print_most_branches(style)


def print_table(rows: dict[str, list[str]]) -> None:
    """Print a table as Markdown has it."""
    print("| | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


def print_most_branches(style: Style) -> None:
    """Print the modules and functions with the most branches."""
    if not cc_visit:
        print("\nBranches were not counted: install radon (the dependency group 'dev').")
        return
    modules: dict[str, int] = {}
    for name, number in style.branches.items():
        module = name.partition(":")[0]
        modules[module] = modules.get(module, 0) + number
    for title, numbers in (("modules", modules), ("functions", style.branches)):
        print(f"\nThe {TOP} {title} with the most branches:")
        for name in sorted(numbers, key=lambda name: (-numbers[name], name))[:TOP]:
            print(f"{numbers[name]:6}  {name}")


def style_of(modules: Iterable[Path], root: Path) -> Style:
    """Count what the table shows; places are given below ``root``."""
    style = Style()
    for path in modules:
        text, tree = path.read_text(encoding="utf-8"), source_tree.parsed(path)
        found = source_tree.functions(tree)
        style.modules.append(len(text.splitlines()))
        style.functions += [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]
        style.many_parameters += sum(source_tree.parameters(node) >= 7 for node in found)
        style.branches |= {f"{path.relative_to(root)}:{place}": count for place, count in branches(path).items()}
        style.in_statements += sum(isinstance(node, STATEMENTS) for node in ast.walk(tree))
        style.in_expressions += sum(map(in_expression, ast.walk(tree)))
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        style.comments += sum(token.type == tokenize.COMMENT for token in tokens)
        style.written_lines += sum(bool(line.strip()) for line in text.splitlines())
        style.documented += documented(tree)
    return style


@cache
def branches(path: Path) -> dict[str, int]:
    """The cyclomatic complexity of each function and method, by line and name."""
    found = {}
    for block in cc_visit(path.read_text(encoding="utf-8")) if cc_visit else ():
        if block.letter != "C":  # a class is the sum of its methods, which are listed too
            found[f"{block.lineno} {block.fullname}"] = block.complexity
    return found


def in_expression(node: ast.AST) -> int:
    """How many branches an expression is, without those of the expressions in it."""
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(isinstance(node, ast.IfExp))


def documented(node: ast.Module | ast.ClassDef) -> list[bool]:
    """Whether the node, and each public class and function in it, has a docstring."""
    found = [ast.get_docstring(node) is not None]
    for inner in node.body:
        if isinstance(inner, ast.ClassDef) and not inner.name.startswith("_"):
            found += documented(inner)
        elif isinstance(inner, source_tree.Function) and not inner.name.startswith("_"):
            found.append(ast.get_docstring(inner) is not None)
    return found


def is_test(path: Path) -> bool:
    """Whether a file below a tree is a test, by its folder or its name."""
    named = path.name.startswith("test_") or path.stem.endswith("_test")
    return named or bool({"test", "tests"} & set(path.parts[:-1]))


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file())


def all_lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8", errors="replace").splitlines()) for path in paths)


def percentile(values: Iterable[int], part: float) -> int:
    """The value at round((n - 1) * part) of the n sorted ones."""
    ordered = sorted(values)
    return ordered[round((len(ordered) - 1) * part)] if ordered else 0


if __name__ == "__main__":
    sys.exit(main())
