"""How PyTorch computes a step: in 16 bits, with its channels last; and how batches reach a device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.environments import ROOT, torch_environment
from tests.frameworks.test_continuing import finals, houses
from tests.frameworks.test_jobs import PROGRAMS, Started, start_program

pytestmark = pytest.mark.timeout(900)
PROGRAM = PROGRAMS / "computing_torch.py"


def started(run_dir: Path, *arguments: str, size: int = 2, **extra: str) -> Started:
    """The program, which ends with an error where PyTorch would warn."""
    words = (houses(run_dir, size), *arguments)
    return start_program("ddp", PROGRAM, run_dir, *words, size=size, PYTHONWARNINGS="error::UserWarning", **extra)


def losses(run: Started) -> list[Any]:
    return [(line["loss"], line["val_loss"]) for line in run.events("epoch")]


@pytest.mark.parametrize("setting", ["--precision=float32", "--precision=bfloat16", "--channels-last=true"])
def test_a_step_is_computed_as_the_settings_say_and_resumed_to_the_last_bit(setting: str, tmp_path: Path) -> None:
    words = (setting, "--validation-part=0.2", "--accumulation=2")
    whole = started(tmp_path / "whole", *words)
    codes, text = whole.ended()
    assert codes == [0, 0], text
    for epochs in ("--epochs=1", "--epochs=3"):
        parts = started(tmp_path / "parts", *words, epochs)
        codes, text = parts.ended()
        assert codes == [0, 0], text
    assert text.count("resuming from") == 1
    expected, found = finals(tmp_path / "whole", 2), finals(tmp_path / "parts", 2)
    assert [float(abs(one - other).max()) for one, other in zip(expected, found, strict=True)] == [0.0] * len(found)
    assert losses(parts) == losses(whole)
    assert parts.events("end")[0]["test_mse"] == whole.events("end")[0]["test_mse"]


def test_gradients_that_a_program_adds_before_a_step_count_in_it_from_the_first_step_on(tmp_path: Path) -> None:
    for way in ("apart", "together"):
        codes, text = started(tmp_path / way, size=1, PENALTY=way).ended()
        assert codes == [0], text
    apart, together = (finals(tmp_path / way, 1) for way in ("apart", "together"))
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "model", "words"),
    [
        ("--precision=tf32", "", "--precision=tf32 has an effect on NVIDIA's GPUs from Ampere (A100) on"),
        ("--channels-last=true", "LINEAR", "--channels-last=true has no effect: the model has no convolution"),
        ("--compile=true", "", "--compile=true needs PyTorch 2.2 or newer, and this is 1.13"),
    ],
)
def test_a_setting_without_effect_is_refused_before_the_first_step(
    setting: str, model: str, words: str, tmp_path: Path
) -> None:
    run = started(tmp_path, setting, size=1, **({model: "1"} if model else {}))
    codes, text = run.ended()
    assert codes == [1] and words in text and "Traceback" not in text, text
    assert not (tmp_path / "metrics.jsonl").exists() or not run.events("epoch")


def test_an_optimizer_that_needs_a_closure_is_refused(tmp_path: Path) -> None:
    codes, text = start_program("ddp", PROGRAMS / "closure_torch.py", tmp_path, houses(tmp_path, 2), size=2).ended()
    assert codes == [1, 1] and "error: the optimizer LBFGS computes the loss several times" in text, text
    assert "Traceback" not in text


def test_the_next_batch_is_read_and_its_copy_begun_before_one_is_given() -> None:
    python = torch_environment() / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [python, PROGRAMS / "device_batches.py"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
