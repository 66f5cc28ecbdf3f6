"""The rank program of the study of the critical batch, and a checkpoint of it as the study of sharpness reads it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.horovod.conftest import ROOT, Ended

if importlib.util.find_spec("horovod") is None:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

REFERENCE = ROOT / "benchmarks" / "reference"
OPTIONS = (
    "--synthetic=true",
    "--synthetic-samples=256",
    "--batch-size-per-rank=8",
    "--accumulation=2",
    "--batch-norm=none",
    "--every=64",
    "--target-loss=0.001",
    "--most-samples=320",
    "--validate-on=test",
    "--export-model=false",
)


def test_looks_at_the_loss_and_a_checkpoint_with_its_weights(
    ranks: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not REFERENCE.is_dir():
        pytest.skip("group checkout: an sdist holds no benchmarks")
    ended = ranks(REFERENCE / "until_target.py", *OPTIONS, size=0)
    assert ended.code == 0, ended.text
    looks, (epoch,) = ended.events("look"), ended.events("epoch")
    assert [look["samples"] for look in looks] == [64, 128, 192, 256, 320]  # it ends within the second epoch
    assert looks[0]["loss"] is None
    # Two looks, each a mean over half of the epoch.
    assert (looks[1]["loss"] + looks[3]["loss"]) / 2 == pytest.approx(epoch["loss"], rel=1e-5)
    assert sum(look["accuracy"] for look in looks[:4]) / 4 == pytest.approx(epoch["accuracy"], abs=1e-5)
    assert all("noise_scale" in look for look in looks)
    (crossing,) = ended.events("crossing")
    assert (crossing["samples"], crossing["seen"], crossing["diverged"]) == (None, 320, False)

    monkeypatch.syspath_prepend(str(REFERENCE))
    trained_network = importlib.import_module("trained_network")
    network = trained_network.TrainedNetwork()
    (start,) = ended.events("start")
    images = trained_network.images_of(start, "", sample=16)
    network.read(Path(ended.run_dir) / "checkpoints" / "step-00000016")
    loss, accuracy = network.evaluate(*images.test)
    assert (loss, accuracy) == (pytest.approx(epoch["val_loss"], rel=1e-4), pytest.approx(epoch["val_accuracy"]))
    (pair,) = network.sharpness(*images.sample, 1, 0.5, 3)
    assert pair.value != 0 and pair.products <= 3
    for name in ("trained_network", "hessian", "model"):
        sys.modules.pop(name, None)
