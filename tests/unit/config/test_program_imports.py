"""The modules that a program may import, as its source shows them, and what it does not show."""

from __future__ import annotations

import ast

import pytest

from hpclaunch.config.program_imports import modules_in


def read(text: str, *local: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return modules_in({"train.py": ast.parse(text)}, local)


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import os, sys, argparse\n", ()),
        ("import torch.distributed as dist\n", ("torch",)),
        ("def f():\n    from torch import nn\n", ("torch",)),
        ("try:\n    import jax\nexcept ImportError:\n    jax = None\n", ("jax",)),
        ('"""Use it so:\n\nimport torch\n"""\n', ()),
        ("import horovod.torch as hvd\n", ("horovod", "horovod.torch")),
        ("from hpclaunch.training import on_jax\n", ("hpclaunch", "hpclaunch.training", "hpclaunch.training.on_jax")),
        ("from . import model\nfrom .torch import net\n", ()),
        ("import lib.torch\n", ()),
        ('import importlib\nimportlib.import_module("torch")\n', ("torch",)),
        ('torch = __import__("torch.cuda")\n', ("torch",)),
        ('from importlib import import_module\nimport_module(".net", "lib")\n', ()),
    ],
)
def test_a_program_imports_what_any_of_its_lines_names(text: str, modules: tuple[str, ...]) -> None:
    assert read(text, "lib")[0] == modules


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("import numpy, h5py\n", ()),
        ("import importlib, sys\nimportlib.import_module(sys.argv[1])\n", "train.py:2 loads code whose name"),
        ("exec(open('settings.py').read())\n", "train.py:1 loads code whose name"),
        ("import runpy\nrunpy.run_path('other.py')\n", "train.py:2 loads code whose name"),
        ("import transformers\n", "what transformers imports is not known"),
        ("import a, b, c, d\n", "what a, b, c, … imports is not known"),
    ],
)
def test_what_the_source_does_not_show_is_said(text: str, reasons: str) -> None:
    told = read(text)[1]
    assert bool(told) is bool(reasons)
    assert not reasons or told[0].startswith(reasons)


def test_a_file_that_cannot_be_read_is_said() -> None:
    modules, reasons = modules_in({"train.py": ast.parse("import torch"), "old.py": None}, ())
    assert modules == ("torch",) and reasons[0].startswith("old.py cannot be read as Python 3.")
