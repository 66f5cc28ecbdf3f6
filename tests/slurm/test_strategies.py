"""MultiWorkerMirroredStrategy on hosts of the real cluster, with the workers that the job's script lists."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.desk import Desk
from tests.tiers import LONG

ONE_PROCESS = Path(__file__).parents[1] / "horovod" / "programs" / "one_process.py"
RANKS, SAMPLES, BATCH, EPOCHS = 4 if LONG else 2, 64, 4, 2


@pytest.mark.timeout(600)
def test_several_hosts_without_horovod_have_the_losses_of_one_process(desk: Desk) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("group horovod: needs TensorFlow (the extra train)")
    missing = desk.folder / "missing" / "horovod" / "__init__.py"  # so `import horovod` fails in the ranks
    missing.parent.mkdir(parents=True)
    missing.write_text("raise ModuleNotFoundError('No module named horovod', name='horovod')\n")
    values = {"synthetic_samples": SAMPLES, "batch_size_per_rank": BATCH, "epochs": EPOCHS, "batch_norm": "none"}
    values |= {"optimizer": "sgd", "learning_rate": 0.01}
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    path = os.pathsep.join([str(missing.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    layout = ("--nodes", str(RANKS), "--tasks-per-node", "1", "--walltime", "20m", "--env", f"PYTHONPATH={path}")
    done = desk.run(
        "submit", "cifar", "--strategy", "multiworker", *layout, "--synthetic", *settings, "--wait", seconds=500
    )
    assert done.returncode == 0, done.stderr + desk.newest().log()
    run = desk.newest()
    (start,) = run.metrics("start")
    assert start["hosts"] == ["node1", "node2", "node3", "node4"][:RANKS]
    assert start["global_batch_size"] == RANKS * BATCH
    assert "horovod" not in start["versions"]
    assert "warning: multiworker's ranks communicate over gRPC" in run.log()
    assert "hpclaunch never chooses it" in done.stderr
    counts = map(str, (RANKS, SAMPLES, BATCH, EPOCHS))
    alone = subprocess.run([sys.executable, ONE_PROCESS, *counts], capture_output=True, text=True, timeout=300)
    assert alone.returncode == 0, alone.stderr
    expected = json.loads(alone.stdout.strip().splitlines()[-1])
    assert [line["loss"] for line in run.metrics("epoch")] == pytest.approx(expected, rel=1e-5)
