"""Keras's own optimizers on real ranks: like one process, resumed on another number of ranks, with every technique."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.horovod.conftest import PROGRAMS, Ended
from tests.tiers import LONG

PROGRAM = (PROGRAMS / "step_losses.py", str(PROGRAMS / "own_optimizer.py"))
STEPS = 20  # 4 epochs of 5 steps of 8 samples: 2 ranks x 4, or 1 x 8
AT = 7  # the step after which a run continues, in the second epoch
SAVED = (f"--checkpoint-steps={AT}", "--keep-checkpoints=30")  # the checkpoint of step AT stays


def losses(ended: Ended) -> list[float]:
    """The losses of all steps, of a run that has ended well."""
    assert ended.code == 0, ended.text
    found: list[float] = json.loads((ended.run_dir / "losses-0.json").read_text())
    return found


def as_stopped(whole: Ended, folder: Path) -> str:
    """A folder with the checkpoint of step AT alone, as a run leaves it that was stopped there."""
    name = f"step-{AT:08}"
    shutil.copytree(whole.run_dir / "checkpoints" / name, folder / name)
    return str(folder)


@functools.cache
def alone_with(kind: str, data: str, ranks: Callable[..., Ended]) -> Ended:
    """One process on the batches of two ranks put together; once for all tests that compare with it."""
    return ranks(*PROGRAM, data, f"--kind={kind}", *SAVED, "--alone=2", size=0)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"] if LONG else ["adamw"])
def test_two_ranks_are_like_one_process_and_continue_its_run(kind: str, data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    alone = alone_with(kind, data, ranks)
    both = ranks(*PROGRAM, data, f"--kind={kind}")
    resumed = ranks(*PROGRAM, data, f"--kind={kind}", HPCLAUNCH_CHECKPOINT_DIR=as_stopped(alone, tmp_path))
    assert len(losses(alone)) == STEPS
    assert losses(both) == pytest.approx(losses(alone), rel=1e-6)
    assert losses(resumed) == pytest.approx(losses(alone)[AT:], rel=1e-6)
    (line,) = resumed.events("resume")
    assert (line["world_size"], line["world_size_before"], line["epoch"], line["step"]) == (2, 1, 1, 2)
    (start,) = resumed.events("start")
    assert start["options"]["optimizer"].lower() == f"tf.keras.optimizers.{kind}"
    assert (start["options"]["learning_rate"], start["scaled_learning_rate"]) == (0.01, 0.01)


def test_one_process_continues_the_run_of_two_ranks_in_a_loop_of_its_own(data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    options = (data, "--kind=adamw", "--own-loop=true")
    both = ranks(*PROGRAM, *options, *SAVED)
    assert len(losses(both)) == STEPS
    stopped = as_stopped(both, tmp_path)
    resumed = ranks(*PROGRAM, *options, "--alone=2", size=0, HPCLAUNCH_CHECKPOINT_DIR=stopped)
    assert losses(resumed) == pytest.approx(losses(both)[AT:], rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ("--kind=sgd", "--scale-learning-rate=adascale", "--compression=fp16", "--xla=true"),
        # test_sharding.py has the last options with sharded state.
        *(
            [("--kind=older",), ("--kind=adam", "--precision=float16", "--batch-size-per-rank=2", "--accumulation=2")]
            if LONG
            else []
        ),
    ],
    ids=lambda options: options[0],
)
def test_it_works_with_other_techniques(options: tuple[str, ...], data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    found = losses(ranks(*PROGRAM, data, *options))  # the program checks that all ranks have the same weights
    assert len(found) == STEPS and sum(found[-5:]) < sum(found[:5])


def test_what_cannot_be_resumed_or_has_no_effect_is_refused_before_the_first_step(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    nadam = ranks(*PROGRAM, data, "--kind=nadam")
    assert nadam.speakers("Nadam keeps _u_product outside its `variables`") == ["0"], nadam.text
    assert nadam.code != 0 and not Path(nadam.run_dir / "metrics.jsonl").exists()
    if LONG:  # tests/unit/training/optimization/test_given.py has every such option
        typed = ranks(*PROGRAM, data, "--kind=sgd", "--optimizer=lamb", size=0)
        assert "--optimizer cannot change the optimizer that the program gives (tf.keras.optimizers.SGD)" in typed.text
        assert typed.code == 1 and not Path(typed.run_dir / "metrics.jsonl").exists()
