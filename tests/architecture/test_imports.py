"""Who imports what: the contracts of pyproject.toml, one door for each library, and what a first import costs."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.core.spec import SAMPLER
from tests.architecture.source_tree import (
    CHECKOUT,
    LAUNCHER,
    MODULES,
    PACKAGE,
    circles,
    parsed,
    place,
    targets,
)

DOORS: dict[str, set[str]] = {
    "typer": set(),
    "rich": {"cli/show/console.py"},
    "jinja2": {"render.py", "reports/page/html.py"},
    "pathspec": {"runs/code_files.py"},
    "submitit": {"schedulers/slurm/executor.py", "schedulers/local.py"},
    "yaml": {"config/documents.py"},
    "matplotlib": {"reports/charts/canvas.py"},
}


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(parsed(path)):
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


def test_circles_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []}) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("module", "text", "imported_modules"),
    [
        ("p.a", "import p.b.c", {"p.b.c"}),
        ("p.a", "import p.b.c as c", {"p.b.c"}),
        ("p.a", "import os, p.b", {"p.b"}),
        ("p.a", "from p.b import c", {"p.b.c"}),
        ("p.a", "from p.b import name", {"p.b"}),
        ("p.a", "def f():\n    import p.d", {"p.d"}),
        ("p.a", "if TYPE_CHECKING:\n    from p import d", {"p.d"}),
        ("p.b.c", "from . import e", {"p.b.e"}),
        ("p.b.c", "from .e import name", {"p.b.e"}),
        ("p.b.c", "from .. import d", {"p.d"}),
        ("p.b.c", "from ..d import name", {"p.d"}),
        ("p.b", "from . import e", {"p.b.e"}),
        ("p.b", "from .e import name", {"p.b.e"}),
        ("p.a", "import os", set()),
    ],
)
def test_every_form_of_import_is_seen(module: str, text: str, imported_modules: set[str]) -> None:
    names = {"p", "p.a", "p.b", "p.b.c", "p.b.e", "p.d"}
    assert targets(module, ast.parse(text), names) == imported_modules


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
def test_a_module_says_what_it_does(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "helpers", "common", "base", "manager", "data", "misc"}
    assert not [path for path in MODULES if path.stem in empty]


def in_a_sites_own_environment() -> list[Path]:
    beside = [CHECKOUT / "templates" / SAMPLER]
    return sorted([*(PACKAGE / "training").rglob("*.py"), *(CHECKOUT / "jobs").rglob("*.py"), *beside])


@pytest.mark.parametrize("path", in_a_sites_own_environment(), ids=lambda path: path.stem)
def test_what_runs_in_a_sites_own_environment_has_the_syntax_of_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_what_runs_in_a_sites_own_environment_uses_what_python_3_8_has() -> None:
    if shutil.which("vermin", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("group vermin: install vermin (the dependency group 'dev')")
    command = [Path(sys.executable).with_name("vermin"), "--no-tips", "--violations", "--no-parse-comments", "-t=3.8-"]
    done = subprocess.run([*command, *in_a_sites_own_environment()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", in_a_sites_own_environment(), ids=lambda path: path.stem)
def test_what_runs_in_a_sites_own_environment_subscripts_no_builtin_class_but_in_annotations(path: Path) -> None:
    """``list[int]()`` needs Python 3.9; vermin takes it for an annotation."""
    nodes = list(ast.walk(parsed(path)))
    noted = [getattr(node, field, None) for node in nodes for field in ("annotation", "returns")]
    unread = {id(part) for one in noted if one is not None for part in ast.walk(one)}
    found = [node for node in nodes if isinstance(node, ast.Subscript) and id(node) not in unread]
    names = {node.value.id for node in found if isinstance(node.value, ast.Name)}
    assert names & {"dict", "frozenset", "list", "set", "tuple", "type"} == set()


def test_type_checkers_see_in_the_room_of_runs_what_python_finds_there() -> None:
    tree = ast.parse((PACKAGE / "runs/__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    found = {name: f"hpclaunch.runs.{home}" for name, home in runs._HOMES.items()}
    assert seen == found
    assert all(getattr(runs, name) is getattr(import_module(home), name) for name, home in found.items())
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        runs.lode  # type: ignore[attr-defined]  # noqa: B018
