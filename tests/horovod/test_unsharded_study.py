"""The study's own program of the cifar job: it takes the settings of the optimizer as the job itself does."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from tests.horovod.conftest import ROOT, Ended

if importlib.util.find_spec("horovod") is None:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

PROGRAM = ROOT / "benchmarks" / "large_batch" / "unsharded.py"
OPTIONS = ("--synthetic=true", "--synthetic-samples=32", "--batch-size-per-rank=8", "--epochs=1", "--optimizer=sgd")


def test_momentum_is_that_of_the_command_line(ranks: Callable[..., Ended]) -> None:
    if not PROGRAM.exists():
        pytest.skip("group checkout: an sdist holds no benchmarks")
    losses = []
    for momentum in (0.9, 0.0):
        ended = ranks(PROGRAM, *OPTIONS, f"--momentum={momentum}", size=0)
        assert ended.code == 0, ended.text
        losses.append(ended.events("epoch")[0]["loss"])
    assert losses[0] != losses[1]
