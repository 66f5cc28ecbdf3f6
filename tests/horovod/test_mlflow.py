"""A run that is logged with MLflow too: into files, by rank 0, in one MLflow run across restarts, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests import downloaded
from tests.horovod.conftest import PROGRAMS, ROOT, Ended
from tests.tiers import LONG

HOUSES = Path(__file__).parent / "strangers" / "houses.py"
# Notes every connection that Python opens in a process that has imported MLflow.
NOTES_CONNECTIONS = """\
import os, sys

def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo") and "mlflow" in sys.modules:
        with open(os.path.join(os.environ["HPCLAUNCH_RUN_DIR"], "connections"), "a") as file:
            print(event, arguments, file=file)

sys.addaudithook(note)
"""
READ = """\
import json, os, pathlib, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
client = mlflow.MlflowClient(tracking_uri=pathlib.Path(sys.argv[1]).as_uri())
runs = client.search_runs([client.get_experiment_by_name("houses").experiment_id])
print(json.dumps([
    {"status": run.info.status, "params": run.data.params, "tags": run.data.tags, "last": run.data.metrics,
     "losses": [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "loss")]}
    for run in runs
]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.RandomState(3)
    features = random.normal(size=(44, 6)).astype("float32")
    path = tmp_path_factory.mktemp("mlflow") / "houses.npz"
    np.savez(path, features=features, price=features.sum(1))
    return f"--data-dir={path}"


@pytest.fixture(scope="module")
def mlflow() -> str:
    """A folder with MLflow."""
    return downloaded.folder_of("mlflow", "mlflow-skinny>=2.8,<4")


def test_a_missing_package_ends_the_run_before_the_training(
    data: str, ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "mlflow.py").write_text("raise ImportError('No module named mlflow')\n")
    ended = ranks(HOUSES, data, "--mlflow=true", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert ended.code == 1
    assert len(ended.speakers("--mlflow=true needs MLflow")) == 1 and "pip install 'hpclaunch[mlflow]'" in ended.text
    assert not ended.speakers("Traceback")
    assert not ended.events("start") and not (ended.run_dir / "checkpoints").exists()


@pytest.mark.long_tier
def test_a_run_is_one_run_of_mlflow_with_parameters_metrics_and_the_model(
    data: str, mlflow: str, ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    """Continued in the long tier."""
    (tmp_path / "sitecustomize.py").write_text(NOTES_CONNECTIONS)
    own = {"PYTHONPATH": f"{tmp_path}:{ROOT}:{mlflow}"}
    program, options = PROGRAMS / "step_losses.py", (str(HOUSES), data, "--mlflow=true")
    begun = ranks(program, *options, *(["--preempted-after=7"] if LONG else []), **own)
    run_dir = begun.run_dir
    if LONG:
        assert "asked to stop; saved" in begun.text, begun.text
        begun = ranks(program, *options, **own, HPCLAUNCH_RUN_DIR=str(run_dir))
    assert begun.code == 0, begun.text
    assert not (run_dir / "connections").exists(), (run_dir / "connections").read_text()

    done = subprocess.run(
        [sys.executable, "-c", READ, str(run_dir / "mlruns")],
        env={**os.environ, "PYTHONPATH": mlflow},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout.splitlines()[-1])
    events = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    epochs = [event for event in events if event["event"] == "epoch"]
    assert found["losses"] == [[event["epoch"], pytest.approx(event["loss"])] for event in epochs] and len(epochs) == 4
    assert found["status"] == "FINISHED"
    assert found["params"]["batch_size_per_rank"] == "4" and found["params"]["world_size"] == "2"
    assert found["tags"]["model"] == str(run_dir / "model")
    assert found["last"]["test_mae"] == pytest.approx(events[-1]["test_mae"])
