"""The parameters of a job file: groups of the training techniques, a JSON file of the job, and its own over them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.config.fileformat import read
from hpclaunch.config.job import Job
from hpclaunch.config.parameter_files import TRAINING_PARAMETERS
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.folders import PACKAGE

GROUPS: dict[str, Any] = json.loads((PACKAGE / TRAINING_PARAMETERS).read_text())["groups"]


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


def test_training_parameters_are_written_as_a_job_file_would_be(tmp_path: Path) -> None:
    for name, rows in GROUPS.items():
        if isinstance(rows, dict):
            assert list(parameters_of(tmp_path, rows)) == list(parameters_of(tmp_path, {"from": name}))


def test_training_parameters_of_another_version_are_refused_where_it_cannot_be_understood(tmp_path: Path) -> None:
    other = {"groups": {"training": {"epochs": {"type": "int", "default": 5, "unit": "passes"}}}}
    (tmp_path / "hpclaunch" / "training").mkdir(parents=True)
    (tmp_path / "hpclaunch" / TRAINING_PARAMETERS).write_text(json.dumps(other))
    (fault,) = faults_of(tmp_path, {"from": "training"})
    assert fault.startswith("hpclaunch/training/parameters.json: groups.training.epochs: ") and "unit" in fault


def test_a_group_and_the_jobs_own_defaults(tmp_path: Path) -> None:
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


def test_a_job_changes_what_a_parameter_must_fit(tmp_path: Path) -> None:
    file = {"part": {"default": 0, "less_than": "parts", "divides": "parts"}, "parts": {"default": 4}}
    kept = parameters_of(tmp_path, {"from": "mine.json", "part": 1}, mine=file)["part"]
    assert (kept.default, kept.less_than, kept.divides) == (1, ("parts",), ("parts",))
    changed = {"from": "mine.json", "part": {"less_than": ["parts", "size"]}, "size": {"default": 9, "help": "of all"}}
    found = parameters_of(tmp_path, changed, mine=file)["part"]
    assert (found.less_than, found.divides) == (("parts", "size"), ("parts",))


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


def test_training_parameters_of_a_run_are_those_beside_its_code(tmp_path: Path) -> None:
    older = {"groups": {"training": {"epochs": {"type": "int", "default": 5}}}}
    (tmp_path / "hpclaunch" / "training").mkdir(parents=True)
    (tmp_path / "hpclaunch" / TRAINING_PARAMETERS).write_text(json.dumps(older))
    assert parameters_of(tmp_path, {"from": "training"})["epochs"].builtin == 5
    assert "epochs" not in parameters_of(tmp_path, {"from": "mine.json"}, mine={"lr": 0.1})
    shutil.rmtree(tmp_path / "hpclaunch")
    assert parameters_of(tmp_path, {"from": "training"})["epochs"].builtin == 10


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            {"from": "image"},
            "job.yaml: parameters.from: no group of parameters is called 'image'; did you mean 'images'?",
        ),
        ({"from": ["images", "colour", "x"]}, "job.yaml: parameters.from.2: no group of parameters is called 'x'"),
        ({"from": {"a": 1}}, "job.yaml: parameters.from: a mapping is not a list"),
        ({"from": [1]}, "job.yaml: parameters.from.0: 1 is not text"),
        ({"from": "/etc/x.json"}, "job.yaml: parameters.from: '/etc/x.json' is not a file in the job's folder"),
        ({"from": "../x.json"}, "job.yaml: parameters.from: '../x.json' is not a file in the job's folder"),
        ({"from": "none.json"}, "none.json: cannot be read: No such file"),
        ({"from": "a\0b.json"}, "cannot be read: "),
        (
            {"from": "training", "epoch": 3},
            "parameters.epoch: 'from' contains no parameter of this name; did you mean 'epochs'?; allowed: epochs, ",
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
            "optimizer: 'adamm' is not one of adam, adamw, lamb, larc, lars, muon, sgd; did you mean 'adam'?",
        ),
        (
            {"from": "learning_rate", "decay_epochs": "3,1"},
            "parameters.decay_epochs: '3,1' is not epochs above 0 in ",
        ),
        ({"from": "learning_rate", "decay_epochs": 3}, "parameters.decay_epochs: 3 is not epochs above 0 in ascending"),
        ({"from": "training", "Size": {"default": 1}}, "parameters.Size: 'Size' is not allowed here; allowed: small"),
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
        ({"from": "image"}, "mine.json: from: no group of parameters is called 'image'; did you mean 'images'?"),
        ({"from": "other.json"}, "mine.json: from: names another JSON file; allowed: groups of parameters"),
        ({"from": "training", "epochs": 0}, "mine.json: epochs: 0 is not a number that is at least 1"),
        ({"size": {"default": 0, "above": 0}}, "mine.json: size: 0, the default or one of the choices, is not above 0"),
        ('{"from": "training", "from": "images"}', "mine.json: is not valid JSON: the key 'from' is given twice"),
        ("[]", "mine.json: must be a mapping of keys to values"),
    ],
)
def test_a_fault_in_a_json_file_names_that_file(tmp_path: Path, content: Any, message: str) -> None:
    (fault,) = faults_of(tmp_path, {"from": "mine.json"}, mine=content)
    assert fault.startswith(message)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    assert len(faults_of(tmp_path, {"from": "training", "epochs": 0, "sed": 1, "seed": "x"})) == 3
