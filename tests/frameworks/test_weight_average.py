"""The average of the weights with PyTorch and JAX: by hand, on two ranks, and after an attempt that failed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import weight_averages
from tests.frameworks.environments import ROOT, torch_environment
from tests.frameworks.test_jobs import PROGRAMS, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = {"ddp": "averaged_torch.py", "jax": "averaged_jax.py"}
BFLOAT16 = {"ddp": "bfloat16_torch.py", "jax": "bfloat16_jax.py"}


def run(
    job: str, folder: Path, *arguments: str, made: Path, size: int = 2
) -> tuple[list[int], str, list[dict[str, Any]]]:
    folder.mkdir(exist_ok=True)
    own = (f"--data-dir={made}", *weight_averages.ASKED, *weight_averages.IN_PARTS, *arguments)
    started = start_program(job, PROGRAMS / PROGRAM[job], folder, *own, size=size)
    codes, text = started.ended()
    return codes, text, [*started.events("epoch"), *started.events("end")]


def final_of(folder: Path, rank: int = 0) -> Any:
    with np.load(folder / f"final-{rank}.npz") as held:
        return held["final"]


@pytest.mark.parametrize("job", ["ddp", "jax"])
def test_the_average_is_validated_evaluated_exported_and_resumed(job: str, tmp_path: Path) -> None:
    arrays = weight_averages.write(tmp_path / "own.npz")
    means, losses = weight_averages.by_hand(arrays)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    codes, text, lines = run(job, whole, made=tmp_path / "own.npz")
    assert codes == [0, 0], text
    assert np.allclose(final_of(whole), means[-1], rtol=1e-12, atol=1e-13)
    assert [line["val_loss"] for line in lines[:-1]] == pytest.approx(losses, rel=1e-12)
    wrong = arrays["x_test"] @ means[-1][:3] + means[-1][3] - arrays["y_test"]
    assert lines[-1]["test_mse"] == pytest.approx((wrong**2).mean(), rel=1e-6)
    with np.load(whole / "model" / "weights.npz") as exported:
        assert np.array_equal(np.concatenate([exported[name].ravel() for name in exported]), final_of(whole))
    codes, text, _ = run(job, parts, "--stop-after=3", made=tmp_path / "own.npz")
    assert set(codes) != {0} and "the attempt ends here" in text
    codes, text, resumed = run(job, parts, made=tmp_path / "own.npz")
    assert codes == [0, 0] and [line["epoch"] for line in resumed if "epoch" in line] == [1, 2, 3, 4, 5], text
    for rank in (0, 1):
        assert np.array_equal(final_of(parts, rank), final_of(whole))
    assert [line.get("val_loss") for line in resumed] == [line.get("val_loss") for line in lines]


@pytest.mark.parametrize("job", ["ddp", "jax"])
def test_the_best_epoch_is_that_of_the_average(job: str, tmp_path: Path) -> None:
    means, losses = weight_averages.by_hand(weight_averages.write(tmp_path / "own.npz"))
    best = int(np.argmin(losses))
    assert best + 1 < weight_averages.EPOCHS
    own = ("--batch-size-per-rank=8", "--restore-best=true")
    codes, text, lines = run(job, tmp_path / "run", *own, made=tmp_path / "own.npz", size=1)
    assert codes == [0] and lines[-1]["best_epoch"] == best + 1, text
    assert np.allclose(final_of(tmp_path / "run"), means[best], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("job", "name"), [("ddp", "the average of weight"), ("jax", "the state's ['average'][0]")])
def test_another_average_on_one_rank_ends_the_run(job: str, name: str, tmp_path: Path) -> None:
    weight_averages.write(tmp_path / "own.npz")
    codes, text, _ = run(job, tmp_path / "run", "--astray=true", made=tmp_path / "own.npz")
    assert 0 not in codes and f"{name} is not the same on all ranks" in text, text


@pytest.mark.parametrize("job", ["ddp", "jax"])
def test_the_average_of_weights_of_bfloat16_is_float32_and_resumed_so(job: str, tmp_path: Path) -> None:
    arrays = weight_averages.write(tmp_path / "own.npz")
    decay = 0.99  # in bfloat16 it is 0.988, and most steps change nothing
    own = (f"--ema-decay={decay}", "--learning-rate=0.0625", "--epochs=5", "--batch-size-per-rank=4")
    made: dict[str, Any] = {}
    lines: dict[str, list[dict[str, Any]]] = {}
    for name, stops in (("whole", ()), ("parts", ("--stop-after=9",)), ("parts", ())):
        (tmp_path / name).mkdir(exist_ok=True)
        asked = (f"--data-dir={tmp_path / 'own.npz'}", *own, "--scale-learning-rate=none", *stops)
        started = start_program(job, PROGRAMS / BFLOAT16[job], tmp_path / name, *asked, size=1)
        codes, text = started.ended()
        assert codes == [int(bool(stops))] and ("the attempt ends here" in text) == bool(stops), text
        lines[name] = started.events("epoch")
        if not stops:
            with np.load(tmp_path / name / "made.npz") as held:
                made[name] = dict(held)
    weights, found = made["whole"]["weights"], made["whole"]
    mean = weights[0]
    for one in weights[1:]:
        mean = decay * mean + (1 - decay) * one
    assert len(weights) == 21 and np.abs(mean - weights[0]).min() > 0.005
    assert np.allclose(found["mean"], mean, rtol=1e-6, atol=0)
    assert np.allclose(found["final"], mean, rtol=2**-8, atol=0)
    other = np.column_stack([arrays["x_validation"], np.ones(5)])
    loss = ((other @ found["final"] - arrays["y_validation"]) ** 2).mean()
    assert lines["whole"][-1]["val_loss"] == pytest.approx(loss, rel=1e-12)
    assert [line["epoch"] for line in lines["parts"]] == [1, 2, 3, 4, 5]
    assert len(made["parts"]["weights"]) == 13  # from the end of the second epoch on
    assert np.array_equal(made["parts"]["mean"], found["mean"])
    assert np.array_equal(made["parts"]["final"], found["final"])


BEGINS = """
import torch
from hpclaunch.training.optimization.torch_average import TorchAverage

model = torch.nn.Linear(1, 1)
model.register_parameter("bound", torch.nn.Parameter(torch.tensor([float("-inf")]), requires_grad=False))
average = TorchAverage(model, 0.5)
with torch.no_grad():
    model.weight += 1
average.begin()
assert all(torch.equal(average.tensors[name], one) for name, one in model.named_parameters())
"""


def test_the_average_of_pytorch_begins_with_all_weights_as_they_are_then() -> None:
    """A frozen parameter may be infinite, as the bound of a mask is."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(torch_environment() / "bin" / "python"), "-c", BEGINS]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
