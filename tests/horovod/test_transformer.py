"""The GPT on real docstrings with two ranks: it learns more than the frequency of tokens, and goes on where it was."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import ROOT, Ended
from tests.tiers import LONG

JOB = ROOT / "jobs" / "transformer"
SMALL = (
    *("--layers=1", "--hidden=64", "--heads=2", "--context=32", "--vocabulary=512", "--batch-size-per-rank=16"),
    *("--train-samples=2500", "--learning-rate=0.004", "--noise-scale=false", "--export-model=false"),
)
EXACT = {"TF_DETERMINISTIC_OPS": "1"}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The docstrings of this Python's standard library, packed as `hpclaunch data fetch transformer` does it."""
    folder = tmp_path_factory.mktemp("text")
    subprocess.run(
        [sys.executable, "-B", str(JOB / "pack.py"), str(folder), "--vocabulary=512"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    return folder


def unigram(folder: Path) -> float:
    """Nats for a token of the test if only its frequency in the training text is known (each counts once more)."""
    train, test = (np.load(folder / f"{split}.npy") for split in ("train", "test"))
    counts = np.bincount(train, minlength=512) + 1.0
    return float(-np.mean(np.log(counts / counts.sum())[test]))


def test_two_ranks_learn_more_than_the_frequency_of_tokens_and_go_on_where_they_were(
    text: Path, ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    train = JOB / "train.py"
    words = (f"--data-dir={text}", *SMALL)
    whole = ranks(train, *words, "--epochs=2", **EXACT)
    assert whole.code == 0, whole.text
    record = json.loads((text / "tokens.json").read_text())
    (start,) = whole.events("start")
    assert start["data"]["fingerprint"] == f"sha256-{record['sha256']}"
    assert start["data"]["samples"]["train"] == (record["splits"]["train"]["tokens"] - 1) // 32
    assert not any("step_seconds" in line for line in whole.events("epoch"))  # no time stamps with EXACT
    (told,) = whole.events("shards")
    first, second = told["shards"]
    assert first["samples"] == second["samples"] == 1250 and first["sha256"] != second["sha256"]
    check_results(whole, record, unigram(text))
    if LONG:
        check_that_it_goes_on(whole, words, ranks, tmp_path)


def check_that_it_goes_on(whole: Ended, words: tuple[str, ...], ranks: Callable[..., Ended], tmp_path: Path) -> None:
    after_one, _ = sorted((whole.run_dir / "checkpoints").iterdir())
    shutil.copytree(after_one, tmp_path / after_one.name)
    rest = ranks(JOB / "train.py", *words, "--epochs=2", **EXACT, HPCLAUNCH_CHECKPOINT_DIR=str(tmp_path))
    assert rest.code == 0, rest.text
    assert [line["epoch"] for line in rest.events("epoch")] == [2]
    for name in ("loss", "val_loss"):
        assert rest.events("epoch")[0][name] == pytest.approx(whole.events("epoch")[1][name], rel=1e-4), name


def check_results(ended: Ended, record: dict[str, Any], frequencies: float) -> None:
    (end,) = ended.events("end")
    loss = end["test_loss"]
    assert loss < frequencies - 0.5, frequencies
    assert end["test_perplexity"] == pytest.approx(math.exp(loss))
    facts = record["splits"]["test"]
    assert end["test_bits_per_byte"] == pytest.approx(loss / math.log(2) * facts["tokens"] / facts["bytes"])
    assert end["test_tokens"] == end["test_samples"] * 32 == (facts["tokens"] - 1) // 32 * 32
    (line,) = ended.events("sample")
    assert len(line["text"]) > 40
    assert f"{end['test_bits_per_byte']:.4f} bits per byte" in ended.text


def test_a_model_with_fewer_tokens_than_the_data_ends_before_the_training(
    text: Path, ranks: Callable[..., Ended]
) -> None:
    ended = ranks(JOB / "train.py", f"--data-dir={text}", *SMALL, "--vocabulary=300")
    assert ended.code != 0 and ended.events("epoch") == []
    assert ended.speakers("has 512 different tokens, and the model has 300 (vocabulary)") == ["0"], ended.text


@pytest.mark.long_tier  # test_tensor_parallel.py shares a smaller one in every run
def test_ranks_that_share_the_model_train_and_continue_the_text_as_one(
    ranks: Callable[..., Ended], tmp_path: Path
) -> None:
    words = ("--synthetic=true", "--synthetic-samples=128", "--context=16", "--hidden=32", "--vocabulary=258")
    words += ("--batch-size-per-rank=16", "--epochs=1", "--noise-scale=false", "--layers=1")
    alone = ranks(JOB / "train.py", *words, size=0)
    shared = ranks(JOB / "train.py", *words, "--tensor-parallel=2")
    assert (alone.code, shared.code) == (0, 0), shared.text
    for ended in (alone, shared):
        assert (ended.run_dir / "model" / "weights.npz").exists(), ended.text
    (one,), (two,) = alone.events("end"), shared.events("end")
    for name in ("validation_loss", "test_loss", "test_tokens"):
        assert two[name] == pytest.approx(one[name], rel=1e-5), name
    assert shared.events("sample")[0]["text"] == alone.events("sample")[0]["text"]
