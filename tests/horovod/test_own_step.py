"""A Keras model with a train_step of its own: two ranks train what a formula gives, or end with one error."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

PROGRAM = PROGRAMS / "own_step.py"
RATE, MOMENTUM, EPOCHS = 0.05, 0.9, 5


def trained(ended: Ended) -> tuple[list[list[float]], np.ndarray, np.ndarray]:
    """The weights of each rank, and the samples of all."""
    assert ended.code == 0, ended.text
    found = [json.loads((ended.run_dir / f"own-step-{rank}.json").read_text()) for rank in range(2)]
    weights = [[*one["weights"][0], *one["weights"][1]] for one in found]
    return weights, np.array(found[0]["x"] + found[1]["x"]), np.array(found[0]["y"] + found[1]["y"])


def by_hand(x: np.ndarray, y: np.ndarray, optimizer: str, lag: int = 0) -> np.ndarray:
    """The weights after the steps, each by the gradient of the mean loss of all samples (of `lag` steps before)."""
    x = np.column_stack([x, np.ones(len(x))])
    weights, first, second = np.zeros(7), np.zeros(7), np.zeros(7)
    pending: list[np.ndarray] = []
    for _ in range(EPOCHS):
        pending.append(2 * x.T @ (x @ weights - y) / len(x))
        if len(pending) <= lag:
            continue
        gradient, step = pending[-1 - lag], len(pending) - lag
        if optimizer == "sgd":
            first = MOMENTUM * first - RATE * gradient
            weights = weights + first
        else:  # Kingma and Ba 2014, algorithm 1
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            weights = weights - rate * first / (np.sqrt(second) + 1e-7)
    return weights


CASES = [
    ("apply", "adam", ()),
    ("apply", "sgd", ("--gradient-lag=true",)),
    ("apply", "adam", ("--shard-optimizer=true",)),
    ("halves", "sgd", ()),
    ("scaled", "sgd", ("--precision=float16",)),
    ("minimize", "sgd", ("--gradient-lag=true",)),
]
MORE = [
    ("apply", "sgd", ()),
    ("minimize", "sgd", ()),
    ("minimize", "sgd", ("--precision=float16",)),
    ("minimize", "adam", ("--shard-optimizer=true",)),
    ("super", "sgd", ()),
    ("super", "sgd", ("--gradient-lag=true",)),
    ("apply", "sgd", ("--update-groups=2",)),
    ("scaled", "sgd", ("--precision=float16", "--shard-optimizer=true")),
]


@pytest.mark.parametrize(("step", "optimizer", "options"), CASES + MORE if LONG else CASES)
def test_two_ranks_train_one_model(step: str, optimizer: str, options: tuple[str, ...], data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAM, data, f"--step={step}", f"--optimizer={optimizer}", *options)
    weights, x, y = trained(ended)
    assert weights[0] == weights[1]
    expected = by_hand(x, y, optimizer, lag="--gradient-lag=true" in options)
    assert weights[0] == pytest.approx(list(expected), rel=2e-3 if "float16" in str(options) else 1e-5, abs=1e-6)


def test_a_step_that_leaves_out_the_other_ranks_ends_the_run(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAM, data, "--step=astray")
    assert ended.code != 0 and not ended.events("epoch"), ended.text
    assert ended.speakers("Likeliest cause: the train_step of Own changes it") == ["0"], ended.text


def test_an_optimizer_of_all_weights_refuses_some_of_them(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAM, data, "--step=halves", "--gradient-lag=true")
    assert ended.code != 0 and not ended.events("epoch"), ended.text
    assert "apply_gradients got 1 weights, but this optimizer" in ended.text
