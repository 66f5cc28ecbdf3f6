"""``import hpclaunch`` and the command line offer the same: names, and a keyword for every flag."""

from __future__ import annotations

import ast
from typing import Any, get_type_hints

import pytest
import typer.main

import hpclaunch
from hpclaunch.actions import api
from hpclaunch.actions.api.options import PlanOptions
from hpclaunch.cli import app
from hpclaunch.core.spec import SubmitOptions
from tests.architecture.source_tree import PACKAGE

RENAMED = {
    "set": "settings",
    "env": "environment",
    "environment": "environment_name",
    "module": "modules",
    "from": "from_trial",
}
"""Flag -> keyword, where they differ."""
NO_KEYWORD = {
    "submit": {
        "dry_run": "a parameter of its own, as it decides what is returned",
        "wait": "a method of the run",
        "json": "the objects have the values",
        "full": "DryRun.library is what it adds",
        "test_only": "a question to the scheduler that no object stands for",
        "here": "a run in the allocation of a shell",
        "help": "",
    },
    "plan": {"explain": "the plan has all sections", "plot": "", "plot_kind": "", "json": "", "help": ""},
}


def flags_of(verb: str) -> set[str]:
    """The long flags of a command, as keywords."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    flags = [option for parameter in commands[verb].params for option in parameter.opts if option.startswith("--")]
    words = {flag.removeprefix("--").replace("-", "_") for flag in flags}
    return {RENAMED.get(word, word) for word in words}


@pytest.mark.parametrize(("verb", "options"), [("submit", SubmitOptions), ("plan", PlanOptions)])
def test_every_flag_has_a_keyword_and_every_keyword_a_flag(verb: str, options: type) -> None:
    keywords = set(get_type_hints(options, vars(api.options)))
    expected = flags_of(verb) - NO_KEYWORD[verb].keys()
    assert keywords - {"arguments"} == expected


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == sorted(hpclaunch.__all__)
    assert sorted([*api.__all__, "__version__"]) == sorted(hpclaunch.__all__)
    assert set(hpclaunch.__all__) <= set(dir(hpclaunch))
    assert all(getattr(hpclaunch, name) is not None for name in hpclaunch.__all__)


def test_no_name_is_that_of_a_module_which_an_import_would_put_in_its_place() -> None:
    modules = {path.stem for path in PACKAGE.iterdir()}
    assert not modules & set(api.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'hpclaunch' has no attribute 'sbumit'"):
        hpclaunch.sbumit  # type: ignore[attr-defined]  # noqa: B018
