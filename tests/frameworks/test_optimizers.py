"""The optimizers of the settings have the same steps under PyTorch as under TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.frameworks.environments import ROOT, torch_environment
from tests.frameworks.test_jobs import PROGRAMS

SHAPES = {
    "conv.weight": (5, 4, 3, 3),
    "conv.bias": (5,),
    "dense.weight": (7, 6),
    "dense.bias": (7,),
    "norm.weight": (7,),
    "norm.bias": (7,),
}
COMMON = {
    "learning_rate": 2**-6,
    "weight_decay": 0.0,
    "momentum": 0.9,
    "exclude_vectors": True,
    "momentum_correction": True,
}
MUON = {"muon_momentum": 0.95, "muon_weights": "matrices", "muon_exclude": ""}
DECAYED = {"weight_decay": 0.125}
CASES = {
    "sgd": {},
    "adamw": DECAYED,
    "adamw-vectors": {**DECAYED, "exclude_vectors": False},
    "lamb": DECAYED,
    "lamb-vectors": {**DECAYED, "exclude_vectors": False},
    "larc": DECAYED,
    "lars": DECAYED,
    "lars-vectors": {**DECAYED, "exclude_vectors": False},
    "muon": DECAYED,
}


def keras_layout(name: str, value: np.ndarray) -> np.ndarray:
    """PyTorch's [out, in, height, width] and [out, in] as Keras's [height, width, in, out] and [in, out]."""
    return value.transpose(2, 3, 1, 0) if name.startswith("conv.w") else value.T


def test_ten_steps_are_those_of_the_tensorflow_side(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow", reason="group horovod: tensorflow is not installed (the extra `train`)")
    from hpclaunch.training.optimization import optimizers

    draws = np.random.default_rng(7)
    given = {name: draws.normal(size=shape) for name, shape in SHAPES.items()}
    given["dense.bias"][:] = 0.0  # a norm of zero
    given.update({f"{name} {step}": draws.normal(size=shape) for step in range(10) for name, shape in SHAPES.items()})
    np.savez(tmp_path / "given.npz", **given)
    cases = {case: {**COMMON, **MUON, "optimizer": case.split("-")[0], **own} for case, own in CASES.items()}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    python = torch_environment() / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [python, PROGRAMS / "optimizers_torch.py", tmp_path]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    told = json.loads(done.stdout)
    assert told["refusals"] == {
        "another": "the setting optimizer is lamb, but the program gives SGD",
        "same": "",
        "decay": "the setting weight_decay is 0.1, but SGD of the program has 0.01",
        "alike": "the setting optimizer is adam, but the program gives NAdam",
    }
    assert told["muon"] == {
        "hidden": ["first.weight", "conv.weight", "router.weight"],
        "matrices": ["embedding.weight", "first.weight", "conv.weight", "router.weight", "last.weight"],
        "without": ["first.weight", "conv.weight"],
        "tied": ["embedding.weight"],
        "unknown": "no weight with two dimensions is called rooter.*; there are conv.weight, depthwise.weight, "
        "embedding.weight, first.weight, last.weight, router.weight",
    }
    for case, asked in cases.items():
        optimizer = optimizers.from_options(SimpleNamespace(**asked), asked["learning_rate"])
        weights = {name: tf.Variable(keras_layout(name, given[name])) for name in SHAPES}
        for step in range(10):
            slopes = {name: tf.constant(keras_layout(name, given[f"{name} {step}"])) for name in SHAPES}
            optimizer.apply_gradients([(slopes[name], weights[name]) for name in SHAPES])
        for name, weight in weights.items():
            value = keras_layout(name, found[f"{case} {name}"])
            # The TensorFlow side rounds 0.999 to float32, so that Adam's correction has an error of 1e-5.
            np.testing.assert_allclose(value, weight.numpy(), rtol=1e-6, atol=1e-6, err_msg=f"{case} {name}")
            assert abs(value - keras_layout(name, given[name])).max() > 1e-4
