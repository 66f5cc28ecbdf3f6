"""The command that makes a request again has every flag of it."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import Any

import pytest
import typer

from hpclaunch.cli.submit import app
from hpclaunch.core.spec import Request
from hpclaunch.runs.typed_command import typed_command


def test_every_field_of_a_request_is_repeated_by_a_flag_of_submit() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {word for one in commands["submit"].params for word in (*one.opts, *one.secondary_opts)}
    values = {"int | None": 7, "bool": True, "bool | None": False, "tuple[str, ...]": ("x",), "Pairs": (("x", "7"),)}
    for field in fields(Request):
        if field.name in ("target", "is_command", "arguments", "search"):  # no flags
            continue
        request = replace(Request(target="cifar"), **{field.name: values.get(str(field.type), "x")})  # type: ignore[arg-type]
        words = shlex.split(typed_command(replace(request, nodes=1) if field.name == "further_nodes" else request))
        typed = [word.partition("=")[0] for word in words if word.startswith("--")]
        assert len(typed) == 1 and typed[0] in known, (field.name, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"nodes": 4, "node_type": "gpu"}, ["--node-type", "gpu", "--nodes", "4"]),
        ({"nodes": 1, "node_type": "cpu", "further_nodes": (("gpu", "2"),)}, ["--node-type", "cpu:1,gpu:2"]),
        ({"walltime": 5400, "memory": 16384}, ["--walltime", "01:30:00", "--memory", "16G"]),
        ({"gpus_per_node": 0, "restarts": 0}, ["--gpus-per-node", "0", "--restarts", "0"]),
        ({"settings": (("lr", "0.1"), ("name", "a b"))}, ["--set", "lr=0.1", "--set", "name=a b"]),
        ({"sweep": (("lr", "1,2"),), "at_once": 2}, ["--sweep", "lr=1,2", "--at-once", "2"]),
        ({"sbatch": ("--exclusive",)}, ["--sbatch=--exclusive"]),
        ({"data_dir": "-odd"}, ["--data-dir=-odd"]),
        ({"broadcast": False}, ["--no-broadcast"]),
        ({"broadcast": True, "samples": False, "synthetic": True}, ["--synthetic", "--broadcast", "--no-samples"]),
        ({"arguments": ("--epochs", "3")}, ["--", "--epochs", "3"]),
        ({"modules": ("a", "b"), "variables": (("X", "1"),)}, ["--module", "a", "--module", "b", "--env", "X=1"]),
    ],
)
def test_flags(changes: dict[str, object], words: list[str]) -> None:
    request = replace(Request(target="cifar"), **changes)  # type: ignore[arg-type]
    assert shlex.split(typed_command(request)) == ["hpclaunch", "submit", "cifar", *words]


def test_a_command_stands_after_the_dashes() -> None:
    request = Request(target="python", is_command=True, arguments=("x.py", "a b"), nodes=2)
    assert typed_command(request) == "hpclaunch submit --nodes 2 -- python x.py 'a b'"
