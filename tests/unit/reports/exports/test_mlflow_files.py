"""The files of MLflow's store: which there are, and what each says. MLflow itself reads them in ``tests/cli``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.reports.exports.mlflow_files import LONGEST, LoggedRun, experiment_id, run_id, store_files

ROOT = Path("/store")
RUN = LoggedRun(
    label="mnist-1",
    experiment="mnist",
    state="COMPLETED",
    began=1000,
    ended=9000,
    user="ada",
    parameters={"epochs": "2", "../up": "x", ".hidden": "y", "": "z", "long": "w" * (LONGEST + 1)},
    tags={"site": "lab", "git": ""},
    events=[
        {"event": "epoch", "epoch": 1, "time": 2.0, "loss": 9.0},
        {"event": "epoch", "epoch": 1, "time": 2.5, "loss": 0.5},
        {"event": "epoch", "epoch": 2, "time": 3.0, "loss": 0.25},
        {"event": "end", "epochs": 2, "time": 4.0, "test_accuracy": 0.5},
    ],
)


def values_of(content: bytes) -> dict[str, Any]:
    """A file of YAML as it is written: a key a line, each value as JSON."""
    pairs = (line.partition(": ") for line in content.decode().splitlines())
    return {key: json.loads(value) for key, _, value in pairs}


def test_a_store_has_its_experiments_and_the_files_of_each_run() -> None:
    files = store_files([RUN], ROOT)
    group, number = experiment_id("mnist"), run_id(RUN)
    place = f"{group}/{number}"
    assert {name for name in files if not name.startswith(place)} == {"0/meta.yaml", f"{group}/meta.yaml"}
    own = {name.removeprefix(f"{place}/"): content for name, content in files.items() if name.startswith(place)}
    assert {name for name in own if name.startswith("tags/")} == {
        *("tags/", "tags/mlflow.runName", "tags/mlflow.user", "tags/state", "tags/site")
    }, "an empty tag has no file"
    assert {name: content for name, content in own.items() if name.startswith("params/") and content} == {
        "params/epochs": b"2",
        "params/_up": b"x",
        "params/hidden": b"y",
        "params/_": b"z",
        "params/long": b"w" * LONGEST,
    }, "a name is no path"
    assert own["metrics/loss"] == b"2500 0.5 1\n3000 0.25 2\n"
    assert own["metrics/test_accuracy"] == b"4000 0.5 2\n"
    assert own["artifacts/"] == own["metrics/"] == own["params/"] == b""
    meta = values_of(own["meta.yaml"])
    assert (meta["start_time"], meta["end_time"], meta["status"], meta["user_id"]) == (1000, 9000, 3, "ada")
    assert (meta["experiment_id"], meta["run_id"], meta["run_uuid"], meta["run_name"]) == (
        group,
        number,
        number,
        "mnist-1",
    )
    assert meta["artifact_uri"] == f"file:///store/{place}/artifacts"
    experiment = values_of(files[f"{group}/meta.yaml"])
    assert (experiment["name"], experiment["experiment_id"], experiment["creation_time"]) == ("mnist", group, 1000)
    assert experiment["artifact_location"] == f"file:///store/{group}"
    assert values_of(files["0/meta.yaml"])["name"] == "Default"


@pytest.mark.parametrize(
    ("state", "status"),
    [("COMPLETED", 3), ("CANCELLED", 5), ("FAILED", 4), ("TIMEOUT", 4), ("OUT_OF_MEMORY", 4)],
)
def test_the_state_is_one_of_mlflows(state: str, status: int) -> None:
    run = replace(RUN, state=state)
    files = store_files([run], ROOT)
    assert values_of(files[f"{experiment_id('mnist')}/{run_id(run)}/meta.yaml"])["status"] == status


def test_runs_of_one_job_are_one_experiment_which_began_with_its_first_run() -> None:
    second, other = replace(RUN, label="mnist-2", began=500), replace(RUN, label="cifar-1", experiment="cifar")
    files = store_files([RUN, second, other], ROOT)
    group = experiment_id("mnist")
    assert values_of(files[f"{group}/meta.yaml"])["creation_time"] == 500
    assert values_of(files[f"{experiment_id('cifar')}/meta.yaml"])["creation_time"] == 1000
    metas = [name for name in files if name.endswith("meta.yaml")]
    assert len(metas) == 3 + 3, "three experiments with the default one, and three runs"
    numbers = {run_id(one) for one in (RUN, second, replace(RUN, began=1001))}
    assert len(numbers) == 3 and all(re.fullmatch("[0-9a-f]{32}", number) for number in numbers)
    assert store_files([RUN], ROOT) == store_files([RUN], ROOT)


def test_an_experiment_has_the_same_id_in_every_export() -> None:
    """A second export into the store of the first must find its experiment."""
    assert experiment_id("mnist") == "183024382382445396"
    assert all(re.fullmatch("[0-9]{18}", experiment_id(name)) for name in ("", "a", "\udcff", "x" * 1000))
