"""Ranks of TensorFlow that a program lets drift apart are found in the first epoch, and nothing of them is saved."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import pytest

from tests.horovod.conftest import PROGRAMS
from tests.tiers import LONG

PROGRAM = PROGRAMS / "drifting.py"
ALL = LONG or os.environ.get("HPCLAUNCH_TEST_DRIFT") == "all"
"""Whether all ways are tried; the fast tier has one of each cause."""
STEP, BESIDE = "the train_step of Own changes it", "the loop changes it beside loop.step"
CALLBACK, BEGUN = "the callback", "after the first step"
WAYS = {  # what is told; the first words: when it was found
    "step_without_ranks": (BEGUN, STEP),
    "half_of_the_gradients": (BEGUN, STEP),
    "sign_of_zero": ("at the end of epoch 1", "in the sign of zeros", CALLBACK),
    "moments_of_the_rank": ("before the checkpoint", "the optimizer's dense", CALLBACK),
    "rate_of_the_rank": (BEGUN, "the learning rate is 0.05 on one rank, but 0.5 on another"),
    "optimizer_of_the_rank": (BEGUN, "the optimizer __main__.Ranked changes it"),
    "weight_in_a_layer": (BEGUN, "the weight counting/mean", "a layer changes it when it is called"),
    "other_width": ("when it was made", "float32 [6, 4] on rank 0, but float32 [6, 5] on rank 1"),
    "loop_beside_step": (BEGUN, BESIDE),
}
MORE = {
    "second_optimizer": (BEGUN, STEP),
    "noise_in_the_step": (BEGUN, STEP),
    "clipped_on_one_rank": (BEGUN, STEP),
    "nudged_weight": ("at the end of epoch 1", "by up to", CALLBACK),
    "exchanged_weights": ("at the end of epoch 1", "by up to", CALLBACK),
    "own_weights_at_the_epoch": ("before the checkpoint", CALLBACK),
    "loop_without_average": (BEGUN, BESIDE),
    "loop_of_one_rank": (BEGUN, BESIDE),
}


def check(found: Mapping[str, str], ways: Mapping[str, tuple[str, ...]]) -> None:
    """Every way was found, when and with the words of `ways`, before a checkpoint was saved."""
    assert list(found) == list(ways)
    for way, words in ways.items():
        missing = [word for word in ("ranks hold different models", *words) if word not in found[way]]
        assert not missing and "SAVED" not in found[way], f"{way}: {missing} not in {found[way]!r}"


def test_every_way_is_found_in_the_first_epoch(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ways = {**WAYS, **MORE} if ALL else WAYS
    ended = ranks(PROGRAM, data, "--ways=" + ",".join(ways), "--export-model=false")
    assert ended.code == 0, ended.text
    for rank in range(2):
        check(json.loads((ended.run_dir / f"drift-{rank}.json").read_text()), ways)


@pytest.mark.long_tier
def test_a_difference_ends_all_ranks_with_one_error(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAM, data, "--ways=loop_of_one_rank", "--caught=false")
    of_ranks = [line for line in ended.text.splitlines() if line.startswith("[")]  # the launcher has a traceback
    assert ended.code == 1 and of_ranks and not any("Traceback" in line for line in of_ranks)
    assert ended.speakers("ranks hold different models: the weight dense_1/bias") == ["0"], ended.text
