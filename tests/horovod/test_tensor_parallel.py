"""Models that several ranks share, on real ranks: like the whole model in one process, with a part of its memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group horovod: numpy is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import PROGRAMS, Ended
from tests.horovod.test_own_optimizer import AT, SAVED, as_stopped, losses
from tests.horovod.test_sharding import facts_of
from tests.tiers import LONG

PROGRAM = PROGRAMS / "tensor_parallel.py"


def cases(model: str, *kinds: str) -> list[str]:
    """A model with each of the optimizers, as the program takes it."""
    return [f"{model}:{kind}" for kind in kinds]


KINDS = ("sgd", "adam", "lamb")
ALL_KINDS = (*KINDS, "momentum", "adamw", "decay", "lars")
SHARDED = ("sharded-adam", "sharded-lamb")
PRECISIONS = {"float64": (100, 1e-12), "float32": (10, 1e-6)}
# copies of the model x ranks that share each; the models, and what they are trained with
LAYOUTS = [((2, 2), ["gpt:sharded-lamb"])]
if LONG:
    LAYOUTS = [
        *((layout, cases("gpt", *ALL_KINDS)) for layout in [(1, 2), (1, 4), (1, 8), (2, 1), (4, 1)]),
        *((layout, cases("gpt", *ALL_KINDS, *SHARDED)) for layout in [(2, 2), (4, 2), (2, 4)]),
        *((layout, cases(model, *KINDS)) for layout in [(1, 2), (2, 2)] for model in ("dense", "images")),
    ]


def steps_of(kind: str, ranks: int) -> tuple[int, float]:
    """How many steps, and the largest relative difference of the losses.

    In `make test` fewer than the bar's 100 in float64: a wrong gradient, mask or state changes the next losses by far
    more than 1e-12. What 100 show beside it, how rounding grows, the long tier has. More ranks than cores take long.
    """
    steps, most = PRECISIONS[kind]
    return steps if LONG else 20 if ranks <= 2 else 10, most


@pytest.mark.parametrize("kind", list(PRECISIONS) if LONG else ["float64"])
@pytest.mark.parametrize(
    ("layout", "trained"), LAYOUTS, ids=[f"{one[0]}x{one[1]}-{trained[0]}" for one, trained in LAYOUTS]
)
def test_shared_layers_follow_the_whole_model(  # type: ignore[no-untyped-def]
    layout: tuple[int, int], trained: list[str], kind: str, ranks
) -> None:
    """The losses are equal; ranks with the same part of a model have the same weights, to the last bit."""
    copies, shared = layout
    steps, most = steps_of(kind, copies * shared)
    found = facts_of(ranks(PROGRAM, str(shared), kind, str(steps), *trained, size=copies * shared))
    assert list(found) == trained
    for facts in found.values():
        assert facts["difference"] <= most, facts  # type: ignore[operator]
        assert facts["same"] and bool(facts["split"]) == (shared > 1), facts
        assert facts["falls"] or steps < 100, facts


@pytest.mark.long_tier
def test_four_ranks_have_little_more_than_a_quarter_of_a_transformer(ranks) -> None:  # type: ignore[no-untyped-def]
    """Of the bytes of variables, gradients and the state of Adam, as each rank counts them."""
    (facts,) = facts_of(ranks(PROGRAM, "4", "float32", "2", "wide:adam", size=4)).values()
    assert len(facts["shares"]) == 4  # type: ignore[arg-type]
    for shares in facts["shares"]:  # type: ignore[attr-defined]
        assert all(0.25 < share <= 0.30 for share in shares), facts


# Ten steps in `make test`, of which three follow the checkpoint: each depends on all that was restored.
EPOCHS = 4 if LONG else 2
STEPS = 5 * EPOCHS
FIT = (PROGRAMS / "step_losses.py", str(PROGRAMS / "tensor_fit.py"), f"--epochs={EPOCHS}")
TOGETHER = "--tensor-parallel=2"
WHOLE_BATCH = ("--batch-size-per-rank=8", *SAVED)
NO_MODEL = "--export-model=false"  # where no test reads the files of the trained model, which take seconds


@pytest.fixture(scope="module")
def alone(data: str, ranks) -> Ended:  # type: ignore[no-untyped-def]
    """The whole model in one process, with dropout."""
    found: Ended = ranks(*FIT, data, "--rate=0.2", *WHOLE_BATCH, size=0)
    assert len(losses(found)) == STEPS
    return found


@pytest.fixture(scope="module")
def shared(data: str, ranks) -> Ended:  # type: ignore[no-untyped-def]
    """The same on two ranks that share it."""
    found: Ended = ranks(*FIT, data, "--rate=0.2", *WHOLE_BATCH, TOGETHER)
    return found


def test_fit_and_evaluate_are_those_of_the_whole_model(alone: Ended, shared: Ended) -> None:
    assert losses(shared) == pytest.approx(losses(alone), rel=1e-6)
    (expected,), (found,) = alone.events("end"), shared.events("end")
    assert found["test_samples"] == expected["test_samples"]
    assert found["test_mae"] == pytest.approx(expected["test_mae"], rel=1e-5)
    (start,) = shared.events("start")
    assert (start["world_size"], start["replicas"], start["global_batch_size"]) == (2, 1, 8)


def test_the_trained_model_is_whole(alone: Ended, shared: Ended) -> None:
    assert sorted(os.listdir(shared.run_dir / "model")) == sorted(os.listdir(alone.run_dir / "model"))
    with (
        np.load(alone.run_dir / "model/weights.npz") as expected,
        np.load(shared.run_dir / "model/weights.npz") as found,
    ):
        assert list(found) == list(expected)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def test_a_run_continues_on_another_layout(alone: Ended, shared: Ended, data: str, ranks, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """From parts to the whole model and back, also with random numbers of dropout; but not from a damaged part."""
    rest, options = losses(alone)[AT:], (data, "--rate=0.2", *WHOLE_BATCH, NO_MODEL)
    stopped = as_stopped(shared, tmp_path / "parts")
    assert sorted(path.name for path in Path(stopped).glob("*/part-*")) == ["part-0000.npz", "part-0001.npz"]
    whole = ranks(*FIT, *options, size=0, HPCLAUNCH_CHECKPOINT_DIR=stopped)
    assert losses(whole) == pytest.approx(rest, rel=1e-6)

    begun = Path(as_stopped(alone, tmp_path / "whole"))
    damaged = begun / f"step-{AT + 3:08}"  # a newer one, at an epoch's end
    shutil.copytree(shared.run_dir / "checkpoints" / damaged.name, damaged)
    (damaged / "part-0001.npz").write_bytes(b"")
    parts = ranks(*FIT, *options, TOGETHER, HPCLAUNCH_CHECKPOINT_DIR=str(begun))
    assert parts.speakers(f"{damaged.name} is damaged (") == ["0"], parts.text
    assert "part-0001.npz has 0 bytes instead of" in parts.text
    assert losses(parts) == pytest.approx(rest, rel=1e-6)


@pytest.mark.long_tier
def test_the_documented_program_runs(data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(PROGRAMS / "shared_layers.py", data, "--epochs=1", NO_MODEL)
    assert ended.code == 0, ended.text
    (start,) = ended.events("start")
    assert (start["replicas"], start["options"]["tensor_parallel"]) == (1, 2)


if LONG:  # several copies of a model that ranks share

    @pytest.mark.parametrize(
        ("size", "options"), [(4, ()), (4, ("--shard-optimizer=true",)), (4, ("--own-loop=true",))]
    )
    def test_two_copies_of_a_shared_model_continue_the_run_of_one_process(  # type: ignore[no-untyped-def]
        size: int,
        options: tuple[str, ...],
        data: str,
        ranks,
        tmp_path: Path,
    ) -> None:
        """Without dropout, whose masks differ from copy to copy, and with normalization over half of the batch."""
        both = ranks(*FIT, data, *options, *SAVED, size=2)
        found = ranks(*FIT, data, *options, TOGETHER, *SAVED, size=size)
        assert losses(found) == pytest.approx(losses(both), rel=1e-5)
        resumed = ranks(*FIT, data, *options, TOGETHER, size=4, HPCLAUNCH_CHECKPOINT_DIR=as_stopped(both, tmp_path))
        assert losses(resumed) == pytest.approx(losses(both)[AT:], rel=1e-5)


IN_PARTS = ("--batch-size-per-rank=4", "--accumulation=2")
# what a shared model is trained with; copies of it; how much losses may differ, in how many steps
TECHNIQUES = {"all": ((*IN_PARTS, "--compression=fp16", "--precision=float16"), 1, 2e-2, STEPS)}
if LONG:
    TECHNIQUES |= {
        **{f"accumulation-{copies}": (IN_PARTS, copies, 1e-6, STEPS) for copies in (1, 2)},
        "compression": (("--compression=fp16",), 2, 1e-3, STEPS),
        **{f"float16-{copies}": (("--precision=float16",), copies, 2e-2, STEPS) for copies in (1, 2)},
        # Its eight bits leave nothing alike after more steps.
        **{f"bfloat16-{copies}": (("--precision=bfloat16",), copies, 2e-2, 10) for copies in (1, 2)},
        "all-2": ((*IN_PARTS, "--compression=fp16", "--precision=float16"), 2, 2e-2, STEPS),
    }


@pytest.mark.parametrize("case", TECHNIQUES)
def test_a_shared_model_takes_the_techniques(case: str, data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    """Its losses are those of the whole model with the same technique, up to the rounding of 16 bits."""
    options, copies, most, steps = TECHNIQUES[case]
    whole = losses(ranks(*FIT, data, *options, NO_MODEL, size=0 if copies == 1 else copies))
    found = losses(ranks(*FIT, data, *options, NO_MODEL, TOGETHER, size=2 * copies))
    assert len(found) == len(whole) >= STEPS
    assert found[:steps] == pytest.approx(whole[:steps], rel=most)


# The one that only ranks together can find; more in the long tier, and in tests/unit/training/model_parallel/.
REFUSED = [((TOGETHER, "--wrong=true"), "its layer has inputs of which each rank has another part")]
if LONG:
    REFUSED += [
        (("--tensor-parallel=3",), "--tensor-parallel=3 does not divide the 2 ranks"),
        ((TOGETHER, "--units=15"), "units=15 cannot be divided among the 2 ranks"),
        ((TOGETHER, "--xla=true"), "cannot compile the collectives of a divided model"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    REFUSED,
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_shared_is_refused_once(options: tuple[str, ...], words: str, data: str, ranks) -> None:  # type: ignore[no-untyped-def]
    ended = ranks(*FIT, data, *options)
    assert ended.speakers(words) == ["0"], ended.text
    assert ended.code == 1
