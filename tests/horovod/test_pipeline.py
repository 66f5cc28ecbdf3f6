"""Models in stages and models that compute again, on real ranks: like the whole model in one process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, Ended
from tests.horovod.test_own_optimizer import AT, SAVED, as_stopped, losses
from tests.horovod.test_sharding import facts_of
from tests.horovod.test_tensor_parallel import EPOCHS, NO_MODEL, PRECISIONS, PROGRAM, STEPS, cases, steps_of
from tests.tiers import LONG

KINDS = ["sgd", "adam", "lamb"]
SHARDED = ["sharded-adam", "sharded-lamb"]
# ranks; ranks that share each layer x stages; the model; what it is trained with
# Clipping in one process is left out: Keras takes the norm of an embedding's gradient before it adds equal rows up.
# Two blocks make two stages, and are half as much to trace as the four of the long tier. A model that computes again
# without stages is one of the long tier; `staged` below has stages that do.
LAYOUTS = [(2, "1x2", "short-chain", ["adam"])]
if LONG:
    LAYOUTS = [
        *((ranks, layout, "chain", KINDS) for ranks, layout in [(2, "1x2"), (4, "1x4"), (4, "2x2"), (8, "2x4")]),
        *((ranks, layout, "chain", KINDS + SHARDED) for ranks, layout in [(4, "1x2"), (8, "2x2")]),
        *((ranks, layout, "recomputed", KINDS) for ranks, layout in [(2, "1x2"), (2, "2x1")]),
        (1, "1x1", "recomputed", ["decay", "lamb"]),
    ]


@pytest.mark.long_tier
@pytest.mark.parametrize("kind", list(PRECISIONS))
@pytest.mark.parametrize(
    ("size", "layout", "model", "optimizers"), LAYOUTS, ids=[f"{one[0]}-ranks-{one[1]}-{one[2]}" for one in LAYOUTS]
)
def test_stages_follow_the_whole_model(  # type: ignore[no-untyped-def]
    size: int, layout: str, model: str, optimizers: list[str], kind: str, ranks
) -> None:
    """The losses are equal, with clipping and dropout; ranks with the same part have the same weights, to the bit."""
    steps, most = steps_of(kind, size)
    trained = cases(model, *optimizers)
    found = facts_of(ranks(PROGRAM, layout, kind, str(steps), *trained, size=size))
    assert list(found) == trained
    for facts in found.values():
        assert facts["difference"] <= most, facts  # type: ignore[operator]
        assert facts["same"], facts
        assert facts["falls"] or steps < 100, facts
        if layout.endswith("x2"):  # half of the blocks, with one of the ends
            shares = [one[0] * int(layout[0]) for one in facts["shares"]]  # type: ignore[attr-defined]
            assert all(0.45 < share < 0.55 for share in shares), facts


FIT = (PROGRAMS / "step_losses.py", str(PROGRAMS / "pipeline_fit.py"), f"--epochs={EPOCHS}")
STAGES = "--pipeline-stages=2"
WITH_DROPOUT = ("--rate=0.2", *SAVED, *(() if LONG else (NO_MODEL,)))


@pytest.fixture(scope="module")
def alone(data: str, ranks) -> Ended:  # type: ignore[no-untyped-def]
    """The whole model in one process, with dropout, in micro-batches."""
    found: Ended = ranks(*FIT, data, *WITH_DROPOUT, size=0)
    assert len(losses(found)) == STEPS
    return found


@pytest.fixture(scope="module")
def staged(data: str, ranks) -> Ended:  # type: ignore[no-untyped-def]
    """The same on two ranks, of which each has a stage and computes its blocks again."""
    found: Ended = ranks(*FIT, data, *WITH_DROPOUT, STAGES, "--recompute=true")
    return found


def test_fit_and_evaluate_are_those_of_the_whole_model(alone: Ended, staged: Ended) -> None:
    assert losses(staged) == pytest.approx(losses(alone), rel=1e-6)
    (expected,), (found,) = alone.events("end"), staged.events("end")
    assert found["test_samples"] == expected["test_samples"]
    assert found["test_mae"] == pytest.approx(expected["test_mae"], rel=1e-5)
    for name in ("loss", "mae"):
        of_epochs = [[epoch[name] for epoch in ended.events("epoch")] for ended in (alone, staged)]
        assert of_epochs[1] == pytest.approx(of_epochs[0], rel=1e-5), name
    starts = [ended.events("start")[0] for ended in (alone, staged)]
    assert [(one["world_size"], one["replicas"], one["global_batch_size"]) for one in starts] == [(1, 1, 8), (2, 1, 8)]
    assert starts[0]["parameters"] == starts[1]["parameters"]


@pytest.mark.long_tier
def test_the_trained_model_is_whole(alone: Ended, staged: Ended) -> None:
    assert sorted(os.listdir(staged.run_dir / "model")) == sorted(os.listdir(alone.run_dir / "model"))
    with (
        np.load(alone.run_dir / "model/weights.npz") as expected,
        np.load(staged.run_dir / "model/weights.npz") as found,
    ):
        assert len(found) == len(expected)
        for name, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(found[other], expected[name], rtol=1e-4, atol=1e-5)


def test_a_run_continues_on_another_layout(alone: Ended, staged: Ended, data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """From stages to the whole model, to shared layers and back, also with random numbers of dropout."""
    rest, options = losses(alone)[AT:], (data, *WITH_DROPOUT, NO_MODEL)
    stopped = as_stopped(staged, tmp_path / "stages")
    assert sorted(path.name for path in Path(stopped).glob("*/part-*")) == ["part-0001.npz"]
    whole = ranks(*FIT, *options, size=0, HPCLAUNCH_CHECKPOINT_DIR=stopped)
    assert losses(whole) == pytest.approx(rest, rel=1e-6)
    if LONG:
        begun = as_stopped(alone, tmp_path / "whole")
        stages = ranks(*FIT, *options, STAGES, HPCLAUNCH_CHECKPOINT_DIR=begun)
        assert losses(stages) == pytest.approx(rest, rel=1e-6)
        parts = as_stopped(staged, tmp_path / "2")
        shared = ranks(*FIT, *options, "--tensor-parallel=2", HPCLAUNCH_CHECKPOINT_DIR=parts)
        # Normalization over two samples enlarges what float32 rounds in another order.
        assert losses(shared) == pytest.approx(rest, rel=1e-4)


if LONG:

    @pytest.mark.parametrize("options", [(), ("--shard-optimizer=true",)])
    def test_two_copies_in_stages_of_shared_layers_continue_the_run_of_two_ranks(  # type: ignore[no-untyped-def]
        options: tuple[str, ...],
        data: str,
        ranks,
        tmp_path: Path,
    ) -> None:
        """Without dropout, whose masks differ from copy to copy; 8 ranks: 2 copies x 2 stages x 2 that share layers."""
        both = ranks(*FIT, data, *options, "--accumulation=2", *SAVED, size=2)
        divided = (STAGES, "--tensor-parallel=2", "--accumulation=2")
        found = ranks(*FIT, data, *options, *divided, *SAVED, size=8)
        assert losses(found) == pytest.approx(losses(both), rel=1e-5)
        resumed = ranks(*FIT, data, *options, *divided, size=8, HPCLAUNCH_CHECKPOINT_DIR=as_stopped(both, tmp_path))
        assert losses(resumed) == pytest.approx(losses(both)[AT:], rel=1e-5)
        back = as_stopped(found, tmp_path / "back")
        resumed = ranks(*FIT, data, *options, "--accumulation=2", size=2, HPCLAUNCH_CHECKPOINT_DIR=back)
        assert losses(resumed) == pytest.approx(losses(both)[AT:], rel=1e-5)

    @pytest.mark.parametrize(
        ("both", "most"),
        [
            (("--precision=bfloat16", "--optimizer=adam"), 1e-6),
            (("--precision=float16", "--optimizer=adam", "--compression=fp16"), 1e-6),
            (("--accumulation=9", "--batch-size-per-rank=8"), 1e-5),  # of 40 samples: the last micro-batch is empty
            (("--shard-optimizer=true", "--steps-per-execution=2"), 1e-5),
        ],
        ids=lambda value: value[0] if isinstance(value, tuple) else "",
    )
    def test_stages_work_with_other_techniques(both: tuple[str, ...], most: float, data: str, ranks) -> None:  # type: ignore[no-untyped-def]
        whole = losses(ranks(*FIT, data, "--rate=0.2", "--recompute=true", *both, size=0))
        found = losses(ranks(*FIT, data, "--rate=0.2", "--recompute=true", STAGES, *both))
        assert found == pytest.approx(whole, rel=most)


if LONG:

    def test_the_documented_program_runs(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
        ended = ranks(PROGRAMS / "stages.py", data, "--epochs=1", NO_MODEL)
        assert ended.code == 0, ended.text
        (start,) = ended.events("start")
        assert (start["replicas"], start["options"]["pipeline_stages"]) == (1, 2)


REFUSED = [
    ((STAGES, "--blocks=1"), "--pipeline-stages=2: the model model has only 1 blocks between the first and the last")
]
if LONG:  # tests/unit/training/model_parallel/test_mesh.py has this one too
    REFUSED += [(("--pipeline-stages=3",), "--pipeline-stages=3 does not divide the 2 ranks")]


@pytest.mark.parametrize(
    ("options", "words"),
    REFUSED,
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_staged_is_refused_once(options: tuple[str, ...], words: str, data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(*FIT, data, *options)
    assert ended.speakers(words) == ["0"], ended.text
    assert ended.code == 1
