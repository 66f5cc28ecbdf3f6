"""Who imports what: the contracts of pyproject.toml, one door for each library, and what a first import costs."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

import hpclaunch

PACKAGE = Path(hpclaunch.__file__).parent
CHECKOUT = PACKAGE.parent
DOORS: dict[str, set[str]] = {
    "typer": set(),
    "rich": {"cli/show/console"},
    "jinja2": {"render"},
    "submitit": {"schedulers/slurm/submit", "schedulers/local"},
    "yaml": {"config/documents"},
    "matplotlib": {"reports/plan_chart"},
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_bundled" not in path.parts)
LAUNCHER = [path for path in MODULES if "training" not in path.parts]


def place(path: Path) -> str:
    """A module's place below the package: ``cli/show/console``; Typer's door is the folder of the command line."""
    return str(path.relative_to(PACKAGE).with_suffix(""))


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_import_contracts_hold() -> None:
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("group import-linter: install import-linter (the dependency group 'dev')")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("library", "doors"), DOORS.items())
def test_each_library_has_one_door(library: str, doors: set[str]) -> None:
    users = {place(path) for path in LAUNCHER if any(name.split(".")[0] == library for name in imported(path))}
    assert {user for user in users if not (library == "typer" and user.startswith("cli/"))} == doors


def test_the_root_has_at_most_15_names_and_9_layers() -> None:
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert len(names - {"__init__", "__main__"}) <= 15
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    assert len(contracts[0]["layers"]) <= 9


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Counts imports inside functions and under TYPE_CHECKING too, also those within a folder."""
    graph = {module_name(path): sorted(targets(path) - {module_name(path)}) for path in MODULES}
    assert circles(graph) == []


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def targets(path: Path) -> set[str]:
    """The modules of the package that a file imports; ``from package import module`` means the module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hpclaunch":
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in NAMES else str(node.module) for name in inner}
    return found & NAMES


NAMES = {module_name(path) for path in MODULES}


def circles(graph: dict[str, list[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components of two and more)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for target in graph[module]:
            if target not in order:
                visit(target)
            if target in stack:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in order:
            visit(module)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []}) == [["a", "b", "c"]]


def test_pydantic_is_not_used() -> None:
    assert not [path for path in MODULES if any(name.split(".")[0] == "pydantic" for name in imported(path))]


def test_the_package_never_imports_jobs_templates_or_tests() -> None:
    names = {name.split(".")[0] for path in MODULES for name in imported(path)}
    assert not names & {"jobs", "templates", "tests", "site_configs"}


def test_importing_hpclaunch_imports_nothing() -> None:
    program = "import sys; before = set(sys.modules); import hpclaunch; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hpclaunch"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_at_most_400_lines_long_and_says_what_it_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "helpers", "common", "base", "manager", "data", "misc"}
    assert not [path for path in MODULES if path.stem in empty]


@pytest.mark.parametrize("path", LAUNCHER, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_function_of_the_launcher_is_longer_than_50_lines(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= 50, f"{node.name} has {lines} lines"


MOST_PARAMETERS, MANY = 6, 5
FUNCTIONS_WITH_MANY = 28
"""A bar that only falls: a function with five parameters is often one that wants a record."""


def parameters(node: ast.FunctionDef) -> int:
    """How many a caller of the function gives, without the object of a method."""
    found = node.args
    names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(found.vararg) + bool(found.kwarg)


def is_command(node: ast.FunctionDef) -> bool:
    """Whether Typer calls it."""
    return any("app.command" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_no_function_of_the_launcher_has_more_than_six_parameters_and_few_have_five() -> None:
    """A command of Typer's is not counted: its signature is the command line."""
    many = {}
    for path in LAUNCHER:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and parameters(node) >= MANY and not is_command(node):
                many[f"{place(path)}.{node.name}"] = parameters(node)
    assert not {name: number for name, number in many.items() if number > MOST_PARAMETERS}
    assert len(many) <= FUNCTIONS_WITH_MANY, "\n".join(many)


def in_a_sites_own_environment() -> list[Path]:
    return sorted([*(PACKAGE / "training").rglob("*.py"), *(CHECKOUT / "jobs").rglob("*.py")])


@pytest.mark.parametrize("path", in_a_sites_own_environment(), ids=lambda path: path.stem)
def test_what_runs_in_a_sites_own_environment_has_the_syntax_of_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_what_runs_in_a_sites_own_environment_uses_what_python_3_8_has() -> None:
    if shutil.which("vermin", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("group vermin: install vermin (the dependency group 'dev')")
    command = [Path(sys.executable).with_name("vermin"), "--no-tips", "--violations", "--no-parse-comments", "-t=3.8-"]
    done = subprocess.run([*command, *in_a_sites_own_environment()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
