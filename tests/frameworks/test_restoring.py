"""A checkpoint of PyTorch or JAX that does not fit is refused with one error, and stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import ROOT
from tests.frameworks.test_jobs import MAKERS, PROGRAMS

pytestmark = pytest.mark.timeout(900)
OTHER = "belongs to another model or optimizer: "
NEWER = "has format 99, of a newer version of hpclaunch; this one reads formats up to 2. Nothing was changed"


def outcomes(job: str, program: str, folder: Path) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HPCLAUNCH_")}
    done = subprocess.run(
        [str(MAKERS[job]() / "bin" / "python"), str(PROGRAMS / program), str(folder)],
        env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_checkpoints_of_pytorch(tmp_path: Path) -> None:
    found = outcomes("ddp", "restoring_torch.py", tmp_path)
    assert (found.pop("same"), found.pop("without a number")) == (24, 24)
    assert NEWER in found.pop("newer")
    assert "cannot be read: " in found["truncated"] and "It was left as it is" in found.pop("truncated")
    assert OTHER + "it was saved with Adam, not SGD" in found.pop("another optimizer")
    assert OTHER in found["another model"] and "size mismatch" in found.pop("another model")
    assert not found


def test_checkpoints_of_jax(tmp_path: Path) -> None:
    found = outcomes("jax", "restoring_jax.py", tmp_path)
    assert (found.pop("same"), found.pop("older")) == (24, 24)
    assert NEWER in found.pop("newer")
    assert "cannot be read: " in found["truncated"] and "It was left as it is" in found.pop("truncated")
    assert "it has ['kernel'] float32 [3, 2], but the state has ['low'] bfloat16 [2]" in found.pop("another name")
    assert "it has ['bias'] float32 [2], but the state has ['bias'] float32 [3]" in found.pop("another shape")
    assert "it has ['low'] bfloat16 [2], but the state has ['low'] float16 [2]" in found.pop("another type")
    assert OTHER + "it has 3 arrays, but the state has 4" in found.pop("one more")
    assert not found
