"""Optimizer state sharding on real ranks: like one process, saved whole, resumed with and without sharding."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.horovod.test_own_optimizer import AT, PROGRAM, SAVED, STEPS, alone_with, as_stopped, losses
from tests.tiers import LONG

SHARDED = "--shard-optimizer=true"
KINDS = ["adam", "older-sgd", "lamb"]
if LONG:
    KINDS += ["sgd", "momentum", "older-adam", "adamw", "rmsprop", "decay", "lars", "larc"]


def facts_of(ended: Ended) -> dict[str, dict[str, object]]:
    assert ended.code == 0, ended.text
    found = [json.loads(text) for text in re.findall(r"\{.*\}", ended.text)]
    return {facts["kind"]: facts for facts in found}


# A part that is wrong changes the losses from the second step on, by far more than 1e-12; 100 steps show rounding too.
@pytest.mark.parametrize("size", [2, 3, 4] if LONG else [3])
@pytest.mark.parametrize(
    ("kind", "steps", "most"), [("float64", 100, 1e-12), ("float32", 10, 1e-6)] if LONG else [("float64", 20, 1e-12)]
)
def test_every_optimizer_follows_one_process(kind: str, steps: int, most: float, size: int, ranks) -> None:  # type: ignore[no-untyped-def]
    """The losses are equal, every rank holds its part of the state (within 5 %), and all have the same weights."""
    found = facts_of(ranks(PROGRAMS / "sharded.py", kind, str(steps), *KINDS, size=size))
    assert list(found) == KINDS
    for facts in found.values():
        assert facts["difference"] <= most, facts  # type: ignore[operator]
        assert facts["shares"] == pytest.approx([1 / size] * size, rel=0.05), facts
        assert facts["same"], facts
        assert facts["falls"] or steps < 100, facts


@pytest.mark.parametrize("kind", ["adamw", "older"] if LONG else ["adamw"])
def test_a_run_continues_with_and_without_sharding(kind: str, data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A checkpoint has the whole state, so that another number of ranks can share it, or one process hold it."""
    alone = alone_with(kind, data, ranks)
    both = ranks(*PROGRAM, data, f"--kind={kind}", SHARDED, *SAVED)
    assert len(losses(alone)) == STEPS
    assert losses(both) == pytest.approx(losses(alone), rel=1e-6)

    sharded = ranks(
        *PROGRAM, data, f"--kind={kind}", SHARDED, HPCLAUNCH_CHECKPOINT_DIR=as_stopped(alone, tmp_path / "a")
    )
    assert losses(sharded) == pytest.approx(losses(alone)[AT:], rel=1e-6)
    stopped = as_stopped(both, tmp_path / "b")
    whole = ranks(*PROGRAM, data, f"--kind={kind}", "--alone=2", size=0, HPCLAUNCH_CHECKPOINT_DIR=stopped)
    assert losses(whole) == pytest.approx(losses(alone)[AT:], rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ("--kind=adamw", "--own-loop=true"),
        # test_own_optimizer.py has these options with whole state.
        *([("--kind=sgd", "--compression=fp16", "--xla=true")] if LONG else []),
        *([("--kind=adam", "--precision=float16", "--batch-size-per-rank=2", "--accumulation=2")] if LONG else []),
    ],
    ids=lambda options: options[-1],
)
def test_it_works_with_other_techniques(options: tuple[str, ...], data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    found = losses(ranks(*PROGRAM, data, SHARDED, *options))  # the program checks that all ranks have the same weights
    assert len(found) == STEPS and sum(found[-5:]) < sum(found[:5])


def test_an_optimizer_that_needs_whole_variables_is_refused(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(*PROGRAM, data, SHARDED, "--kind=adafactor")
    assert ended.speakers("--shard-optimizer=true needs one of the settings' optimizers or of Keras's Adadelta") == [
        "0"
    ]
    assert ended.code == 1 and not Path(ended.run_dir / "metrics.jsonl").exists()
