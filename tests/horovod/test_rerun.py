"""A run of two ranks that is made again from its record ends with the same weights, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.horovod.conftest import OWN, ROOT

SMALL = {"synthetic_samples": 64, "epochs": 1}
EXACT = ("TF_DETERMINISTIC_OPS=1", "OMP_NUM_THREADS=1", "TF_NUM_INTRAOP_THREADS=1", "TF_NUM_INTEROP_THREADS=1")


def completed(folder: Path, *words: str) -> Path:
    """The run directory of a command that submits one and waits for its end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    environment = {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-m", "hpclaunch", *words, "--wait", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["run_dir"])


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def weights(run: Path) -> dict[str, np.ndarray]:
    (newest,) = sorted((run / "checkpoints").glob("step-*"))[-1:]
    with np.load(newest / "shared.npz") as found:
        return {name: found[name] for name in found.files}


def test_the_same_run_again_ends_with_the_same_weights(tmp_path: Path) -> None:
    settings = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    exact = [word for pair in (*EXACT, "CUDA_VISIBLE_DEVICES=-1") for word in ("--env", pair)]
    size = ["--site", "local", "--tasks-per-node", "2", "--set", "batch_size_per_rank=8", "--set", "export_model=false"]
    first = completed(tmp_path, "submit", "mnist", "--synthetic", *size, *settings, *exact)
    second = completed(tmp_path, "rerun", first.name)
    assert json.loads((second / "rerun.json").read_text())["not_the_same"] == []
    starts = [events(run)[0] for run in (first, second)]
    assert [start["world_size"] for start in starts] == [2, 2]
    assert starts[0]["options"] == starts[1]["options"]
    (saved,) = [event for event in events(second) if event["event"] == "checkpoint"]  # of the only epoch
    (folder,) = (second / "checkpoints").glob("step-*")
    assert saved["seconds"] > 0 and saved["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert folder.name == f"step-{saved['step']:08d}-start-1"
    before, after = weights(first), weights(second)
    assert before.keys() == after.keys() and len(before) > 10
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name], err_msg=name)
