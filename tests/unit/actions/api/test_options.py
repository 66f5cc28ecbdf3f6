"""Keywords of the Python interface become the request that the same words become on the command line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from hpclaunch.actions.api.options import PlanOptions, plan_request, refuse_unknown, submit_request
from hpclaunch.actions.system import System
from hpclaunch.core.errors import InvalidRequest
from hpclaunch.core.spec import Request, SubmitOptions


def request_of(program: Any = "train", **options: Any) -> Request:
    return submit_request(System(), program, options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({}, "nodes", None),
        ({"nodes": 4}, "nodes", 4),
        ({"nodes": None}, "nodes", None),
        ({"gpus_per_node": 0}, "gpus_per_node", 0),
        ({"walltime": 90}, "walltime", 90),
        ({"walltime": "30m"}, "walltime", 1800),
        ({"walltime": timedelta(hours=2)}, "walltime", 7200),
        ({"memory": 2048}, "memory", 2048),
        ({"memory": "2G"}, "memory", 2048),
        ({"settings": {"lr": 0.1, "augment": True}}, "settings", (("lr", "0.1"), ("augment", "true"))),
        ({"settings": {"milestones": [30, 60]}}, "settings", (("milestones", "30,60"),)),
        ({"sweep": {"lr": [0.1, 0.01], "seed": range(2)}}, "sweep", (("lr", "0.1,0.01"), ("seed", "0,1"))),
        ({"sweep": {"seed": "1..5"}}, "sweep", (("seed", "1..5"),)),
        ({"sweep": {"note": ["a,b", "1..5", 'say "x"', ""]}}, "sweep", (("note", '"a,b","1..5","say ""x""",""'),)),
        ({"environment": {"A": 1, "B": "x y"}}, "variables", (("A", "1"), ("B", "x y"))),
        ({"modules": "gcc/13"}, "modules", ("gcc/13",)),
        ({"modules": ["gcc/13", "cuda"]}, "modules", ("gcc/13", "cuda")),
        ({"data_dir": Path("/data")}, "data_dir", "/data"),
        ({"after": Path("/runs/a")}, "after", ("/runs/a",)),
        ({"sbatch": "--job-name=mine"}, "name", "mine"),
        ({"recipe": "job"}, "recipe", "job"),
        ({"arguments": ["--lr", "0.1"]}, "arguments", ("--lr", "0.1")),
        ({"broadcast": False}, "broadcast", False),
        ({"hosts": Path("hosts.txt")}, "hosts_file", "hosts.txt"),
    ],
)  # fmt: skip
def test_a_keyword_is_a_field_of_the_request(options: dict[str, Any], field: str, value: object) -> None:
    assert getattr(request_of(**options), field) == value


def test_a_list_is_a_command_and_a_path_is_a_program() -> None:
    command = request_of(["python", "train.py", Path("x")], arguments=["y"])
    assert (command.target, command.arguments, command.is_command) == ("python", ("train.py", "x", "y"), True)
    script = request_of(Path("train.py"))
    assert (script.target, script.is_command) == ("train.py", False)


def test_node_types_may_be_a_mapping() -> None:
    request = request_of(node_type={"cpu": 1, "gpu": 4})
    assert (request.node_type, request.nodes, request.further_nodes) == ("cpu", 1, (("gpu", "4"),))


@pytest.mark.parametrize(
    "options",
    [
        *({"nodes": value} for value in (0, -1, "4", 1.0, True)),
        *({"walltime": value} for value in (0, "soon", [1])),
        *({"site": value} for value in (1, b"x")),
        {"settings": {"epochs": None}},
        {"environment": {"HPCLAUNCH_X": "1"}},
        {"synthetic": "yes"},
        {"modules": 3},
        {"name": "no name"},
        {"venv": "a", "conda": "b"},
    ],
)
def test_a_value_that_no_command_line_could_have_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        request_of(**options)


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="what to run is missing"):
        request_of([])


def test_a_wrong_keyword_is_a_type_error_that_names_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"submit\(\) got an unexpected keyword argument 'node'; did you mean 'nodes'"):
        refuse_unknown("submit", {"node": 4}, SubmitOptions)
    with pytest.raises(TypeError, match="'launcher'"):
        refuse_unknown("plan", {"launcher": "srun"}, PlanOptions)
    refuse_unknown("submit", dict.fromkeys(get_type_hints(SubmitOptions)), SubmitOptions)


def test_the_request_of_a_plan() -> None:
    request = plan_request("cifar", {"nodes": 2, "node_type": "gpu", "settings": {"epochs": 3}, "memory": "1G"})
    assert request == Request(target="cifar", nodes=2, node_type="gpu", settings=(("epochs", "3"),), memory=1024)
