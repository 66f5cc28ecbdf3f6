"""model/ of PyTorch's and JAX's programs: every array is in it, and model.json says only what is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.input.source import ImageSet
from hpclaunch.training.input.synthetic import Synthetic
from hpclaunch.training.metrics import metrics_log
from hpclaunch.training.program import plain_model
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.settings import plain_settings
from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.world import World


def written(folder: Path, names: list[str], sample_type: Any = np.uint8) -> dict[str, Any]:
    """What model.json says of a model with one number for each name."""
    world = World(rank=0, size=1, local_rank=0, local_size=1, host="", device="", threads=1, run_dir=str(folder))
    run = Run("houses", plain_settings(words=[]), world, metrics_log(str(folder), True, False))
    run.made = {"epochs": 1}
    source = Synthetic(ImageSet("small", (4, 4, 3), classes=2, job=""), 8, 1)
    source.sample_type = sample_type
    plain_model.write(run, source, lambda: [(name, np.ones(1)) for name in names], {}, {})
    about: dict[str, Any] = json.loads((folder / "model/model.json").read_text())
    return about


def test_two_arrays_with_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AgreedError, match=r"has two arrays named 'a/b', so weights\.npz cannot hold both"):
        written(tmp_path, ["a/b", "c", "a/b"])
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("sample_type", "said"), [(np.uint8, "uint8"), (np.dtype("float32"), "float32"), ("bfloat16", "bfloat16")]
)
def test_the_inputs_are_told(sample_type: Any, said: str, tmp_path: Path) -> None:
    assert written(tmp_path, ["a"], sample_type)["inputs"] == {"shape": [None, 4, 4, 3], "type": said}


def test_inputs_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    assert "inputs" not in written(tmp_path, ["a"], None)
