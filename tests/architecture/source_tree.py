"""What a tree of Python sources consists of: modules, imports, circles, functions, parameters, names of launchers.

The tests of this folder hold hpclaunch to it, and ``python tools/structure.py`` prints it beside the bars.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hpclaunch
from hpclaunch.config.catalog import bundled
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.launchers import LAUNCHERS

PACKAGE = Path(hpclaunch.__file__).parent
CHECKOUT = PACKAGE.parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_bundled" not in path.parts)
LAUNCHER = [path for path in MODULES if "training" not in path.parts]
TESTS = CHECKOUT / "tests"
TEMPLATES = sorted(path for path in bundled("templates").rglob("*") if path.is_file())
Function = ast.FunctionDef | ast.AsyncFunctionDef

SYSTEMS = {*SCHEDULERS, *LAUNCHERS, *RUNTIMES}
SYSTEM_HOMES = ("launchers.py", "core/scheduler_rows.py", "core/runtime_rows.py", "core/starter_rows.py", "schedulers/")
"""Where launchers, schedulers and container runtimes may be named."""
SYSTEM_EXCEPTIONS = {
    ("config/catalog.py", "local"): "the name of the bundled site of this machine, not of a scheduler",
    ("sites/describe/draft.py", "slurm"): "writes the site files of Slurm clusters",
    ("training/optimization/batch_norm.py", "local"): "a kind of batch normalization",
}


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path) -> str:
    """A module's place below the package: ``cli/show/console.py``."""
    return path.relative_to(PACKAGE).as_posix()


def root_names() -> list[str]:
    """The modules and folders at the package's root, without ``__init__`` and ``__main__``."""
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    return sorted(names - {"__init__", "__main__"})


def module_name(path: Path) -> str:
    """A module's name as an import spells it."""
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {module_name(path) for path in MODULES}


def targets(module: str, tree: ast.Module, names: set[str] = NAMES) -> set[str]:
    """The modules of the package, among ``names``, that a module imports, by any form of import and at any place in it.

    ``from package import module`` means the module, and ``import package.module`` means it as well. A dot at the
    beginning means the folder of the module.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = _absolute(module, node, names)
            found |= {inner if (inner := f"{origin}.{alias.name}") in names else origin for alias in node.names}
    return found & names


def _absolute(module: str, node: ast.ImportFrom, names: set[str]) -> str:
    """The full name of what ``from … import`` names, in this module; each dot after the first goes one folder up."""
    if not node.level:
        return node.module or ""
    is_folder = any(name.startswith(f"{module}.") for name in names)
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + is_folder]
    return ".".join([*parts, *([node.module] if node.module else [])])


def import_circles() -> list[list[str]]:
    """Groups of modules that import each other; imports inside functions and under TYPE_CHECKING count."""
    graph = {name: sorted(targets(name, parsed(path)) - {name}) for path in MODULES for name in [module_name(path)]}
    return circles(graph)


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


def functions(tree: ast.Module) -> list[Function]:
    """Every ``def`` of a module: methods and nested functions too."""
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def parameters(node: Function) -> int:
    """How many a caller of the function gives, without the object of a method."""
    found = node.args
    names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(found.vararg) + bool(found.kwarg)


def is_command(node: Function) -> bool:
    """Whether Typer calls it: its signature is the command line."""
    return any("app.command" in ast.unparse(decorator) for decorator in node.decorator_list)


def parameters_of_launcher() -> dict[str, int]:
    """The parameters of each function of the launcher, but of Typer's commands, by place and name."""
    return {
        f"{place(path)}:{node.lineno} {node.name}": parameters(node)
        for path in LAUNCHER
        for node in functions(parsed(path))
        if not is_command(node)
    }


def modules_without_test() -> list[str]:
    """The modules without ``test_NAME.py`` in the same folder of tests/unit or tests/processes.

    Tests of other modules, of the command line and of Slurm may run their lines. Folders without code are left out.
    """
    tests = {path.relative_to(TESTS / home) for home in ("unit", "processes") for path in (TESTS / home).rglob("*.py")}
    found = []
    for path in MODULES:
        relative = path.relative_to(PACKAGE)
        name = relative.parent.name if path.stem == "__init__" else path.stem
        # The test of a folder's __init__ may stand in the folder or beside it.
        homes = {relative.parent, relative.parent.parent if path.stem == "__init__" else relative.parent}
        has_code = any(isinstance(node, Function | ast.ClassDef) for node in ast.walk(parsed(path)))
        if has_code and not tests & {home / f"test_{name}.py" for home in homes}:
            found.append(place(path))
    return found


def systems_named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Schedulers and launchers that a module names in a text of their own, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in SYSTEMS:
            yield str(node.value), node.lineno


def systems_quoted(text: str) -> list[str]:
    """Schedulers and launchers that a template names in quotation marks."""
    return [name for _, name in re.findall(r"""(["'])([a-z]+)\1""", text) if name in SYSTEMS]


def systems_named_elsewhere() -> dict[str, list[str]]:
    """The modules and templates that name a scheduler or a launcher and are neither their home nor an exception."""
    found = {
        path.relative_to(bundled("templates")).as_posix(): systems_quoted(path.read_text(encoding="utf-8"))
        for path in TEMPLATES
    }
    for path in MODULES:
        home = place(path)
        if not home.startswith(SYSTEM_HOMES):
            named = systems_named(parsed(path))
            found[home] = [f"{name} in line {line}" for name, line in named if (home, name) not in SYSTEM_EXCEPTIONS]
    return {home: named for home, named in found.items() if named}
