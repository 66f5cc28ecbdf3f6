"""Reading request.json: every value has the type of its field, or there is one clear error."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Request
from hpclaunch.runs.request_file import read_request

REQUEST = Request(target="cifar", nodes=2, settings=(("epochs", "3"),), sbatch=("--exclusive",), synthetic=True)


def write(folder: Path, **changes: Any) -> Path:
    (folder / "request.json").write_text(json.dumps({**asdict(REQUEST), "cwd": "/home/ada", **changes}))
    return folder


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    assert read_request(write(tmp_path)) == (REQUEST, Path("/home/ada"))
    (tmp_path / "request.json").write_text('{"target": "cifar", "cwd": "/x", "of_a_later_version": 1}')
    assert read_request(tmp_path) == (Request(target="cifar"), Path("/x"))


@pytest.mark.parametrize("name", [field.name for field in fields(Request)])
def test_a_value_of_another_type_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"the run's request is missing or damaged: '{name}' must be") as caught:
        read_request(write(tmp_path, **{name: {"a": 1}}))
    assert "resume it without --nodes" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": "2"},
        {"nodes": True},
        {"nodes": 2.5},
        {"settings": [["a"]]},
        {"settings": [["a", 1]]},
        {"sbatch": "--exclusive"},
        {"arguments": [None]},
        {"target": None},
        {"cwd": 3},
        {"synthetic": "yes"},
    ],
)
def test_values_that_look_alike_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"'{next(iter(changes))}' must be"):
        read_request(write(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cwd": "/x"}'])
def test_a_damaged_file_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "request.json").write_text(text)
    with pytest.raises(Refused, match="'target' is missing") as caught:
        read_request(tmp_path)
    assert len(caught.value.faults) == 1
