"""Ended runs as files of other tools, read by these tools: TensorBoard, MLflow, a validator of RO-Crates."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpclaunch.runs.training_library import write_library
from tests import downloaded
from tests.cli.conftest import Desk

VALIDATOR = "roc-validator==0.13.0"
"""The version whose findings are named below."""
JOB = """
summary: writes the events of a training
script: train.py
resources: {nodes: 1}
parameters:
  learning_rate: 0.1
  epochs: 2
  augment: true
"""
PROGRAM = """
import json, os
from pathlib import Path

run = Path(os.environ["HPCLAUNCH_RUN_DIR"])
print("trains in", run)
lines = [{"event": "start", "time": 1800000000.0, "data": {"fingerprint": "random-64"}}]
# The first epoch is repeated after a restart; a number that is none stays out.
lines += [
    {"event": "epoch", "time": 1800000000.5 + n, "epoch": n, "loss": loss, "val_loss": 2 / n, "gain": float("nan")}
    for n, loss in ((1, 9.0), (1, 0.5), (2, 0.25))
]
lines += [{"event": "end", "time": 1800000003.0, "epochs": 2, "test_accuracy": 0.5, "synthetic": False}]
(run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
(run / "model").mkdir()
(run / "model/weights.bin").write_bytes(bytes(range(256)))
"""


@pytest.fixture
def run(desk: Desk) -> Path:
    """A completed run of a job that writes what a training writes."""
    desk.write("jobs/tune/job.yaml", JOB)
    desk.write("jobs/tune/train.py", PROGRAM)
    desk.write("jobs/tune/net/model.py", "x = 1\n")
    done = desk.type("submit", "tune", "--site", "local", "--wait")
    assert done.code == 0, done.err
    return Path(done.out.strip())


def exported(desk: Desk, run: Path, form: str, *words: str) -> Path:
    done = desk.type("runs", "export", run.name, "--to", form, "-o", f"out/{form}", *words)
    assert done.code == 0, done.err
    return desk.project / done.out.strip()


def in_python(code: str, *arguments: object, path: str = "") -> str:
    """What a program prints that uses another tool's own reader."""
    environment = {**os.environ, "PYTHONPATH": path, "MLFLOW_ALLOW_FILE_STORE": "true", "DO_NOT_TRACK": "true"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

found = {}
for name in ("train", "validation", "result"):
    events = EventAccumulator(f"{sys.argv[1]}/{name}").Reload()
    tags = events.Tags()["scalars"]
    found[name] = {tag: [[one.step, one.value, one.wall_time] for one in events.Scalars(tag)] for tag in tags}
print(json.dumps(found))
"""


def test_tensorboard_reads_its_event_files(desk: Desk, run: Path) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("group horovod: tensorboard is not installed (the extra `train` brings it)")
    found = json.loads(in_python(READ_EVENTS, exported(desk, run, "tensorboard") / run.name))
    assert found["train"] == {"epoch_loss": [[1, 0.5, 1800000001.5], [2, 0.25, 1800000002.5]]}
    assert found["validation"] == {"epoch_loss": [[1, 2.0, 1800000001.5], [2, 1.0, 1800000002.5]]}
    assert found["result"] == {"test_accuracy": [[2, 0.5, 1800000003.0]]}


READ_STORE = """
import json, sys
from pathlib import Path
import mlflow

client = mlflow.MlflowClient(tracking_uri=Path(sys.argv[1]).absolute().as_uri())
experiment = client.get_experiment_by_name("tune")
(run,) = client.search_runs([experiment.experiment_id])
history = [[one.step, one.value, one.timestamp] for one in client.get_metric_history(run.info.run_id, "loss")]
facts = [run.info.status, run.info.run_name, run.data.params, run.data.metrics, run.data.tags["state"], history]
print(json.dumps([*facts, [one.name for one in client.search_experiments()]]))
"""


def test_mlflow_reads_its_file_store(desk: Desk, run: Path) -> None:
    path = downloaded.folder_of("mlflow", "mlflow-skinny>=2.8,<4")
    status, name, parameters, metrics, state, history, experiments = json.loads(
        in_python(READ_STORE, exported(desk, run, "mlflow"), path=path)
    )
    assert (status, name, state) == ("FINISHED", run.name, "COMPLETED")
    assert parameters == {"learning_rate": "0.1", "epochs": "2", "augment": "true"}
    assert metrics == {"loss": 0.25, "val_loss": 1.0, "test_accuracy": 0.5}
    assert history == [[1, 0.5, 1800000001500], [2, 0.25, 1800000002500]]
    assert set(experiments) == {"tune", "Default"}


NOT_RECORDED = {
    "process-run-crate-0.5_3.2": "addresses of hpclaunch and of the script",
    "process-run-crate-0.5_5.1": "the same",
    "ro-crate-1.1_22.3": "a publisher",
    "ro-crate-1.1_30.2": "the author's affiliation",
    "ro-crate-1.1_30.3": "the same",
}
"""The recommendations that a crate does not follow, because no record has what they ask for."""


def findings(crate: Path, path: str) -> list[str]:
    command = [sys.executable, str(Path(__file__).with_name("crate_validator.py")), str(crate)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *found, last = done.stdout.splitlines()
    assert int(last.split()[0]) > 100, last
    return found


def test_a_public_validator_accepts_the_crate_and_refuses_a_damaged_one(desk: Desk, run: Path) -> None:
    path = downloaded.folder_of("rocrate", VALIDATOR, apart=True)
    crate = exported(desk, run, "ro-crate", "--license", "CC-BY-4.0")
    found = findings(crate, path)
    others = [line for line in found if not any(f"RECOMMENDED {name}:" in line for name in NOT_RECORDED)]
    assert others == []
    metadata = json.loads((crate / "ro-crate-metadata.json").read_text())
    for entity in metadata["@graph"]:
        entity.pop("instrument", None)
    (crate / "ro-crate-metadata.json").write_text(json.dumps(metadata))
    assert [line for line in findings(crate, path) if line.startswith("REQUIRED")]


def test_a_crate_holds_the_run_with_sums_and_no_folder_of_the_machine(desk: Desk, run: Path) -> None:
    write_library(run / "code")
    crate = exported(desk, run, "ro-crate")
    graph = {entity["@id"]: entity for entity in json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]}
    files = {path.relative_to(crate).as_posix() for path in crate.rglob("*") if path.is_file()}
    described = {name for name, entity in graph.items() if "File" in str(entity["@type"])}
    assert described == files - {"ro-crate-metadata.json"}
    assert {"job.sh", "hpclaunch.sh", "metrics.jsonl", "code/net/model.py", "model/weights.bin"} <= files
    assert not any(name.startswith("code/hpclaunch/") for name in files)
    for name in described:
        content = (crate / name).read_bytes()
        assert graph[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert graph[name]["contentSize"] == str(len(content))
        if not name.startswith(("code/", "model/", "hpclaunch.sh", "sampler.py")):
            assert str(desk.root).encode() not in content, name
    assert str(desk.root) not in (crate / "ro-crate-metadata.json").read_text()
    assert b"trains in RUN" in next((crate / "logs").iterdir()).read_bytes()
    action, script = graph["#run"], graph["job.sh"]
    assert action["instrument"] == {"@id": "job.sh"} and action["actionStatus"].endswith("CompletedActionStatus")
    assert {"@id": "#value-learning_rate"} in action["object"] and {"@id": "code/"} in action["object"]
    assert action["result"] == [{"@id": "metrics.jsonl"}, {"@id": "model/"}]
    assert graph["#value-augment"]["value"] == "true" and graph["#parameter-augment"]["additionalType"] == "Boolean"
    assert graph["#data"]["description"].endswith("fingerprint random-64")
    assert "ComputationalWorkflow" in script["@type"] and "folders are replaced by names" in script["description"]
    assert graph["./"]["license"] == {"@id": "#license"} and "no license was named" in graph["#license"]["name"]


def test_a_crate_has_the_same_bytes_whenever_it_is_written(desk: Desk, run: Path) -> None:
    first = exported(desk, run, "ro-crate")
    other = desk.type("runs", "export", run.name, "--to", "ro-crate", "-o", "other", "--json")
    written = {"format": "ro-crate", "folder": "other", "runs": [run.name]}
    assert other.json == {"schema_version": 1, "document": "export", **written}
    again = desk.project / "other"
    names = sorted(path.relative_to(first) for path in first.rglob("*"))
    assert names == sorted(path.relative_to(again) for path in again.rglob("*"))
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in names if (first / name).is_file())


def test_the_machines_folders_stay_if_one_asks_for_them(desk: Desk, run: Path) -> None:
    crate = exported(desk, run, "ro-crate", "--with-paths", "--license", "https://example.org/terms")
    assert (crate / "job.sh").read_bytes() == (run / "job.sh").read_bytes()
    assert (crate / "environment.json").read_bytes() == (run / "environment.json").read_bytes()
    assert "https://example.org/terms" in (crate / "ro-crate-metadata.json").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--to", "tensorbord", "-o", "new"), 2, "unknown format 'tensorbord'; did you mean 'tensorboard'?"),
        (("--to", "mlflow", "-o", "jobs"), 1, "exists already"),
        (("--to", "mlflow", "-o", "jobs/tune/job.yaml"), 1, "exists already, and is no folder"),
        (("--to", "mlflow", "-o", "new", "--license", "MIT"), 2, "--license: belongs to an RO-Crate"),
        (("--to", "mlflow", "-o", "new", "--with-paths"), 2, "--with-paths: belongs to an RO-Crate"),
        (
            ("--to", "ro-crate", "-o", "new", "--license", "as you like"),
            2,
            "'as you like' is neither; allowed: an ident",
        ),
    ],
    ids=["format", "folder", "file", "license", "paths", "words"],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    desk: Desk, run: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    before = desk.listing()
    done = desk.type("runs", "export", run.name, *words)
    assert done.code == code and message in done.err, done.err
    assert desk.listing() == before


def test_what_a_damaged_record_holds_is_left_out(desk: Desk, run: Path) -> None:
    lines = [
        {"event": "epoch", "epoch": 10**30, "time": 1e300, "loss": 1.0},
        {"event": "end", "epochs": "x", "time": "y"},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n[1]\n")
    (run / "environment.json").write_text("{")
    for form in ("tensorboard", "mlflow", "ro-crate"):
        assert exported(desk, run, form).is_dir()


def test_runs_that_are_open_silent_or_several_are_refused(cluster: Desk) -> None:
    array = Path(cluster.type("submit", "./train.py", "--sweep", "lr=1,2").out.strip()).name
    cluster.fake("squeue", out="4711_[0-1]|PENDING|Priority\n")
    done = cluster.type("runs", "export", array, "--to", "tensorboard", "-o", "new")
    assert done.code == 1 and f"{array}/0000 has not ended" in done.err
    cluster.fake("squeue")
    cluster.fake("sacct", out="4711_0|COMPLETED|0:0\n4711_1|COMPLETED|0:0\n")
    done = cluster.type("runs", "export", array, "--to", "ro-crate", "-o", "new")
    assert done.code == 1 and f"name one run, such as {array}/0000" in done.err
    done = cluster.type("runs", "export", array, "--to", "tensorboard", "-o", "new")
    assert done.code == 1 and "wrote no numbers" in done.err
    assert not (cluster.project / "new").exists()
