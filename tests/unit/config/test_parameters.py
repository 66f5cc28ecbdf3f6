"""The parameters of a job: values and bounds, the catalogue's groups, and a job's own over them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.fileformat import read
from hpclaunch.config.job import Job
from hpclaunch.config.parameters import CATALOGUE, Parameter, Value, spell
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.folders import PACKAGE

GROUPS: dict[str, Any] = json.loads((PACKAGE / CATALOGUE).read_text())["groups"]


def parameters_of(folder: Path, written: Any, **files: Any) -> dict[str, Parameter]:
    """The parameters of a job file that says ``written``, with JSON files beside it."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    path = folder / "job.yaml"
    path.write_text(json.dumps({"summary": "x", "script": "a.py", "parameters": written}))
    return read(path, Job, name="mine", folder=str(folder)).parameters


def faults_of(folder: Path, written: Any, **files: Any) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parameters_of(folder, written, **files)
    return [str(fault).replace(f"{folder}/", "") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (Parameter(default=1), "12", 12),
        (Parameter(default=1.0), "12", 12.0),
        (Parameter(default=1.0), "1e-3", 0.001),
        (Parameter(default=True), "FALSE", False),
        (Parameter(default="a"), "12", "12"),
        (Parameter(default="a"), "", ""),
        (Parameter(default="a", choices=("a", "b")), "b", "b"),
        (Parameter(default=1, at_least=1), "1", 1),
        (Parameter(default=0.5, at_least=0, below=1), "0", 0.0),
        (Parameter(default=1, at_least=1), "1" + 400 * "0", 10**400),
        (Parameter(default=1, at_most=5), "5", 5),
    ],
)
def test_a_parameters_default_fixes_its_type(parameter: Parameter, text: str, value: Value) -> None:
    parsed = parameter.parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("parameter", "text", "message"),
    [
        (Parameter(default=1), "1.5", "'1.5' is not a whole number"),
        (Parameter(default=1), "", "'' is not a whole number"),
        (Parameter(default=1.0), "fast", "'fast' is not a number"),
        (Parameter(default=True), "1", "'1' is not true or false"),
        (Parameter(default="a", choices=("a", "b")), "c", "'c' is not one of a, b"),
        (Parameter(default=1, at_least=1), "0", "'0' is not a number that is at least 1"),
        (Parameter(default=0.1, above=0), "0", "'0' is not a number that is above 0"),
        (Parameter(default=1, at_most=5), "6", "'6' is not a number that is at most 5"),
        (Parameter(default=2**54, at_least=2**53 + 1), str(2**53), "that is at least 9007199254740993"),
        (Parameter(default=0.1, above=0), "inf", "'inf' is not a number that is above 0"),
        (Parameter(default=0.1, at_least=0), "nan", "'nan' is not a number that is at least 0"),
        (Parameter(default=0.5, at_least=0, below=1), "1", "'1' is not a number that is at least 0 and below 1"),
    ],
)
def test_other_text_is_refused_with_what_is_allowed(parameter: Parameter, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parameter.parse(text)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (1, "1"), (0.001, "0.001"), ("a", "a")])
def test_a_value_is_spelled_as_it_is_parsed(value: Value, text: str) -> None:
    assert spell(value) == text
    assert Parameter(default=value).parse(text) == value


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (Parameter(default=1, type="float"), "2", 2.0),
        (Parameter(default="", type="epochs"), "30.0, 60,80.5", "30,60,80.5"),
        (Parameter(default="3", type="epochs"), "", ""),
    ],
)
def test_a_type_may_be_said(parameter: Parameter, text: str, value: Value) -> None:
    assert repr(parameter.parse(text)) == repr(value)


@pytest.mark.parametrize("text", ["60,30", "30,30", "0,1", "x", "1,,2", "inf", "nan"])
def test_epochs_ascend(text: str) -> None:
    with pytest.raises(ValueError, match="is not epochs above 0 in ascending order, such as 30,60,80"):
        Parameter(default="", type="epochs").parse(text)


def test_a_typed_choice_that_is_nearly_one_is_guessed() -> None:
    with pytest.raises(ValueError, match=r"'adamm' is not one of adam, sgd; did you mean 'adam'\?"):
        Parameter(default="adam", choices=("adam", "sgd")).parse("adamm")


# --- from a job file


def test_the_catalogue_is_written_as_a_job_file_would_be(tmp_path: Path) -> None:
    for name, rows in GROUPS.items():
        if isinstance(rows, dict):
            assert list(parameters_of(tmp_path, rows)) == list(parameters_of(tmp_path, {"from": name}))


def test_a_catalogue_of_another_version_is_refused_where_it_cannot_be_understood(tmp_path: Path) -> None:
    other = {"groups": {"training": {"epochs": {"type": "int", "default": 5, "unit": "passes"}}}}
    (tmp_path / "hpclaunch" / "training").mkdir(parents=True)
    (tmp_path / "hpclaunch" / CATALOGUE).write_text(json.dumps(other))
    (fault,) = faults_of(tmp_path, {"from": "training"})
    assert fault.startswith("hpclaunch/training/parameters.json: groups.training.epochs: ") and "unit" in fault


def test_a_group_of_the_catalogue_and_the_jobs_own_defaults(tmp_path: Path) -> None:
    found = parameters_of(tmp_path, {"from": "images", "epochs": 12, "learning_rate": 1})
    assert {name for group in ("training", "colour") for name in GROUPS[group]} < set(found)
    assert "batch_norm" not in found
    epochs, rate, crop = found["epochs"], found["learning_rate"], found["crop"]
    assert (epochs.default, epochs.builtin, epochs.at_least, epochs.group) == (12, 10, 1, "training")
    assert (repr(rate.default), rate.builtin) == ("1.0", 0.001)
    assert (crop.default, crop.builtin, crop.help) == (0, 0, GROUPS["augmentation"]["crop"]["help"])


def test_several_groups_and_parameters_of_the_jobs_own(tmp_path: Path) -> None:
    own = {"default": 64, "at_least": 8, "help": "pixels of a side", "group": "images"}
    found = parameters_of(tmp_path, {"from": ["training", "colour"], "size": own, "seed": {"help": "of all"}})
    assert list(found) == [*GROUPS["training"], "saturation", "size"]
    assert (found["size"].builtin, found["size"].bounds, found["size"].group) == (None, "at least 8", "images")
    assert (found["seed"].help, found["seed"].default, found["seed"].at_least) == ("of all", 1, 0)


def test_what_a_json_file_says_the_program_takes_by_itself(tmp_path: Path) -> None:
    file = {"from": "training", "epochs": 3, "size": {"default": 64}}
    found = parameters_of(tmp_path, {"from": "mine.json", "size": 32}, mine=file)
    assert (found["epochs"].default, found["epochs"].builtin) == (3, 3)
    assert (found["size"].default, found["size"].builtin) == (32, 64)


def test_a_json_file_needs_no_group(tmp_path: Path) -> None:
    found = parameters_of(tmp_path, {"from": "mine.json"}, mine={"lr": 0.1, "n": {"default": 2}})
    assert [(name, one.default, one.builtin) for name, one in found.items()] == [("lr", 0.1, 0.1), ("n", 2, 2)]


def test_without_from_nobody_knows_what_the_program_takes(tmp_path: Path) -> None:
    found = parameters_of(tmp_path, {"epochs": 3, "lr": {"default": 0.1}})
    assert [one.builtin for one in found.values()] == [None, None]


def test_the_catalogue_of_a_run_is_the_one_beside_its_code(tmp_path: Path) -> None:
    older = {"groups": {"training": {"epochs": {"type": "int", "default": 5}}}}
    (tmp_path / "hpclaunch" / "training").mkdir(parents=True)
    (tmp_path / "hpclaunch" / CATALOGUE).write_text(json.dumps(older))
    assert parameters_of(tmp_path, {"from": "training"})["epochs"].builtin == 5
    assert "epochs" not in parameters_of(tmp_path, {"from": "mine.json"}, mine={"lr": 0.1})
    shutil.rmtree(tmp_path / "hpclaunch")
    assert parameters_of(tmp_path, {"from": "training"})["epochs"].builtin == 10


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"from": "image"}, "job.yaml: parameters.from: the catalogue has no group 'image'; did you mean 'images'?; a"),
        ({"from": ["images", "colour", "x"]}, "job.yaml: parameters.from.2: the catalogue has no group 'x'"),
        ({"from": {"a": 1}}, "job.yaml: parameters.from: a mapping is not a list"),
        ({"from": [1]}, "job.yaml: parameters.from.0: 1 is not text"),
        ({"from": "/etc/x.json"}, "job.yaml: parameters.from: '/etc/x.json' is not a file in the job's folder"),
        ({"from": "../x.json"}, "job.yaml: parameters.from: '../x.json' is not a file in the job's folder"),
        ({"from": "none.json"}, "none.json: cannot be read: No such file"),
        ({"from": "a\0b.json"}, "cannot be read: "),
        (
            {"from": "training", "epoch": 3},
            "parameters.epoch: 'from' brings no parameter of this name; did you mean 'epochs'?; allowed: epochs, ",
        ),
        ({"from": "training", "epochs": 0}, "job.yaml: parameters.epochs: 0 is not a number that is at least 1"),
        ({"from": "training", "epochs": "12"}, "job.yaml: parameters.epochs: '12' is not a whole number"),
        ({"from": "training", "epochs": 1.5}, "job.yaml: parameters.epochs: 1.5 is not a whole number"),
        ({"from": "training", "noise_scale": 1}, "job.yaml: parameters.noise_scale: 1 is not true or false"),
        ({"from": "training", "epochs": None}, "job.yaml: parameters.epochs.default: nothing is not "),
        ({"from": "training", "epochs": {"default": 1, "at_least": 0}}, "epochs.at_least: unknown key; allowed: "),
        ({"from": "training", "epochs": {"builtin": 1}}, "parameters.epochs.builtin: unknown key; allowed: default, "),
        (
            {"from": "optimizer", "optimizer": "adamm"},
            "parameters.optimizer: 'adamm' is not one of adam, adamw, lamb, larc, lars, sgd; did you mean 'adam'?",
        ),
        (
            {"from": "learning_rate", "decay_epochs": "3,1"},
            "parameters.decay_epochs: '3,1' is not epochs above 0 in ",
        ),
        ({"from": "learning_rate", "decay_epochs": 3}, "parameters.decay_epochs: 3 is not epochs above 0 in ascending"),
        ({"from": "training", "Size": {"default": 1}}, "parameters.Size: 'Size' may not stand here; allowed: small"),
        (
            {"from": "training", "size": {"defalt": 1}},
            "size.defalt: unknown key; did you mean 'default'?; allowed: above, ",
        ),
        ({"from": "training", "size": {"default": 1, "builtin": 2}}, "parameters.size.builtin: unknown key; allowed: "),
        ({"from": "training", "size": {"default": "x", "type": "int"}}, "parameters.size: 'x' is not a whole number"),
        ({"a": {"default": 1, "type": "integer"}}, "parameters.a.type: 'integer' is not allowed; did you mean 'int'?"),
    ],
)
def test_a_fault_names_the_key_and_what_is_allowed(tmp_path: Path, written: dict[str, Any], message: str) -> None:
    assert any(message in fault for fault in faults_of(tmp_path, written))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"from": "image"}, "mine.json: from: the catalogue has no group 'image'; did you mean 'images'?"),
        ({"from": "other.json"}, "mine.json: from: names another file; allowed: groups of the catalogue"),
        ({"from": "training", "epochs": 0}, "mine.json: epochs: 0 is not a number that is at least 1"),
        ({"size": {"default": 0, "above": 0}}, "mine.json: size: 0, the default or a choice, is not above 0"),
        ('{"from": "training", "from": "images"}', "mine.json: is not valid JSON: the key 'from' is said twice"),
        ("[]", "mine.json: must be a mapping of keys to values"),
    ],
)
def test_a_fault_in_a_json_file_names_that_file(tmp_path: Path, content: Any, message: str) -> None:
    (fault,) = faults_of(tmp_path, {"from": "mine.json"}, mine=content)
    assert fault.startswith(message)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    assert len(faults_of(tmp_path, {"from": "training", "epochs": 0, "sed": 1, "seed": "x"})) == 3
