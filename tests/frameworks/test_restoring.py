"""A checkpoint that is damaged gives way to the one before; one that does not fit is refused, and nothing changes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import ROOT
from tests.frameworks.test_jobs import MAKERS, PROGRAMS
from tests.tiers import LONG

pytestmark = pytest.mark.timeout(900)
OTHER = "belongs to another model or optimizer: "
NEWER = "has format 99, of a newer version of hpclaunch; this one reads formats up to 4. Nothing was changed"
DAMAGES = 190 if LONG else 24
"""Damages by chance; with the others, 200 of each framework in the long tier."""


def python_of(job: str) -> str:
    if job != "tensorflow":
        return str(MAKERS[job]() / "bin" / "python")
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)")
    return sys.executable


def outcomes(job: str, program: str, folder: Path) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HPCLAUNCH_")}
    done = subprocess.run(
        [python_of(job), str(PROGRAMS / program), str(folder), str(DAMAGES)],
        env={**kept, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    damaged = found.pop("damaged")
    wrong = [
        (damage, ended)
        for damage, ended in damaged
        if ended != "the one before" and not (damage == "flip checkpoint.json" and "of a newer version" in ended)
    ]
    assert len(damaged) == DAMAGES and not wrong, wrong
    assert (found.pop("same"), found.pop("older")) == ("the newest", "the newest")
    assert NEWER in found.pop("newer")
    if job == "tensorflow":  # whose programs know no other files
        del found["one file"], found["another framework"]
    assert not [text for text in found.values() if "CHANGED" in text or "WRONG" in text], found
    return found


def test_checkpoints_of_tensorflow(tmp_path: Path) -> None:
    found = outcomes("tensorflow", "restoring_tensorflow.py", tmp_path)
    assert "the checkpoint belongs to another model or optimizer: " in found.pop("another optimizer")
    assert "optimizer-001 is float32 [3, 5] here, but float32 [3, 2] there" in found.pop("another shape")
    assert "optimizer-001 is float64 [3, 2] here, but float32 [3, 2] there" in found.pop("another type")
    assert not found


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    found = outcomes("ddp", "restoring_torch.py", tmp_path)
    assert OTHER + "it was saved with Adam, not SGD" in found.pop("another optimizer")
    assert OTHER + "its optimizer has amsgrad False for scale, but here it is True" in found.pop("another option")
    told = "it has model.dense.weight float32 [2, 3], but the model has model."
    assert OTHER + told + "dense.weight float32 [5, 3]" in found.pop("another shape")
    assert OTHER + told + "other.weight float32 [2, 3]" in found.pop("another name")
    assert "it has model.low bfloat16 [2], but the model has model.low float16 [2]" in found.pop("another type")
    assert "was saved by a program of TensorFlow, not of PyTorch" in found.pop("another framework")
    assert "state-start-2.pt was written by an older version of hpclaunch" in found.pop("one file")
    assert not found


def test_checkpoints_of_jax(tmp_path: Path) -> None:
    found = outcomes("jax", "restoring_jax.py", tmp_path)
    assert OTHER + "it has a part of Adam, where the state has one of Lion" in found.pop("another optimizer")
    assert "it has ['kernel'] float32 [3, 2], but the state has ['weights'] float32 [3, 2]" in found.pop("another name")
    assert "it has ['bias'] float32 [2], but the state has ['bias'] float32 [3]" in found.pop("another shape")
    assert "it has ['low'] bfloat16 [2], but the state has ['low'] float16 [2]" in found.pop("another type")
    assert OTHER + "it has no ['zero'] float32 [3], but the state has it" in found.pop("one more")
    assert "was saved by a program of TensorFlow, not of JAX" in found.pop("another framework")
    assert "state-start-2.pt was written by an older version of hpclaunch" in found.pop("one file")
    assert not found
