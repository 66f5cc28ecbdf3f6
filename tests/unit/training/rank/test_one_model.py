"""Ranks prove that they hold one model: what counts, what is told of a difference, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpclaunch.training.rank.failure import AgreedError
from hpclaunch.training.rank.one_model import BLOCK, Held, OneModel, bit_sum, kind_of
from hpclaunch.training.rank.world import World
from tests.unit.training.several_ranks import on_ranks

WHOLE = np.random.default_rng(7).normal(size=3 * BLOCK + 5).astype(np.float32)


def changed(*pairs: tuple[int, float]) -> np.ndarray:
    found = WHOLE.copy()
    for index, value in pairs:
        found[index] = value
    return found


@pytest.mark.parametrize(
    "other",
    [
        changed((0, np.nan)),
        changed((len(WHOLE) - 1, np.nextafter(WHOLE[-1], np.float32(9)))),
        changed((1, -WHOLE[1]), (3, -WHOLE[3])),  # two signs, at the top of a word of 64 bits each
        changed((2, -WHOLE[2]), (2 * BLOCK + 2, -WHOLE[2 * BLOCK + 2])),
        changed((4, WHOLE[5]), (5, WHOLE[4])),
        changed((0, WHOLE[2 * BLOCK]), (2 * BLOCK, WHOLE[0])),  # of two blocks
        WHOLE[::-1],
        WHOLE[:-1],
    ],
    ids=["nan", "last-bit", "two-signs", "signs-apart", "exchanged", "exchanged-blocks", "reversed", "shorter"],
)
def test_a_sum_sees_every_change_of_bits(other: np.ndarray) -> None:
    assert bit_sum(other) != bit_sum(WHOLE) == bit_sum(WHOLE.copy())


def test_a_sum_sees_minus_zero_and_each_of_many_bits() -> None:
    zeros = np.zeros(16, np.float32)
    sums = {bit_sum(zeros)}
    for bit in range(16 * 32):
        other = zeros.view(np.uint32).copy()
        other[bit // 32] = 1 << (bit % 32)
        sums.add(bit_sum(other))
    assert len(sums) == 1 + 16 * 32 and bit_sum(-zeros) != bit_sum(zeros)


@pytest.mark.parametrize("array", [np.float64(2.5), np.array(True), np.zeros((0, 3)), np.arange(7, dtype=np.int8)])
def test_a_sum_takes_arrays_of_any_type_and_shape(array: Any) -> None:
    assert bit_sum(np.asarray(array)) == bit_sum(np.array(array, copy=True))


def proved(
    size: int, held: Callable[[int], Sequence[Held]], folder: Path, gpu: str = "", when: str = "now"
) -> list[AgreedError | None]:
    def prove(world: World) -> None:
        proof = OneModel(world, lambda name, facts: f"Cause of {name}: {facts}", lambda: {"n": world.rank}, gpu)
        proof.prove(held(world.rank), when)

    return on_ranks(size, folder, prove)


def of(name: str, array: Any, among: str = "") -> Held:
    array = np.asarray(array)
    return Held(name, kind_of(array), lambda: array, among)


def test_equal_ranks_hold_one_model_whatever_the_names_are(tmp_path: Path) -> None:
    assert proved(3, lambda rank: [of(f"dense_{rank}", WHOLE), of("step", 3)], tmp_path) == [None] * 3


def test_a_difference_is_told_once_with_name_ranks_amount_and_cause(tmp_path: Path) -> None:
    errors = proved(4, lambda rank: [of("a", WHOLE), of("b", changed((9, 50.0)) if rank == 2 else WHOLE)], tmp_path)
    assert [error is not None and error.speaks for error in errors] == [True, False, False, False]
    most = abs(50.0 - float(WHOLE[9]))
    facts = [{"n": rank} for rank in range(4)]
    words = (
        f"ranks hold different models: b is not the same on all ranks that hold it, by up to {most:.3g} (rank 2 "
        f"differs from ranks 0, 1, 3). It was found now, with 1 different array. Cause of b: {facts}"
    )
    assert {str(error) for error in errors} == {words}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (np.zeros(3), -np.zeros(3), "in the sign of zeros or the bits of NaN alone"),
        (np.ones(3), [1.0, np.nan, np.inf], "2 of its values are finite on one side alone"),
        (np.ones(3), np.ones(4), "is float64 [3] on rank 0, but float64 [4] on rank 1"),
        (np.ones(3), np.ones(3, np.float32), "is float64 [3] on rank 0, but float32 [3] on rank 1"),
        ([True, False], [True, True], "by up to 1"),
        ([1 + 2j], [1 - 2j], "by up to 4"),
    ],
)
def test_what_differs_is_in_the_words(one: Any, other: Any, words: str, tmp_path: Path) -> None:
    error, _ = proved(2, lambda rank: [of("x", other if rank else one)], tmp_path)
    assert words in str(error)


def test_a_rank_with_more_arrays_is_told(tmp_path: Path) -> None:
    error, _ = proved(2, lambda rank: [of("x", 1.0), *([of("y", 2.0)] if rank else [])], tmp_path)
    assert "y is missing on rank 0, but float64 [] on rank 1" in str(error)


def test_ranks_of_other_parts_may_hold_others(tmp_path: Path) -> None:
    def held(rank: int, spoiled: bool = False) -> list[Held]:
        part = of("part", [float(rank % 2) + (rank == 3 and spoiled)], f"part {rank % 2}")
        return [of("whole", WHOLE), part, *([of("more", 1.0, "part 1")] if rank % 2 else [])]

    assert proved(4, held, tmp_path) == [None] * 4
    error = proved(4, lambda rank: held(rank, True), tmp_path)[0]
    assert "part is not the same on all ranks that hold it, by up to 1 (rank 3 differs from rank 1)" in str(error)


def test_rounding_ends_nothing_on_gpus_but_everything_on_equal_cpus(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def held(rank: int) -> list[Held]:
        return [of("embedding", changed((8, WHOLE[8] * np.float32(1 + 1e-6))) if rank else WHOLE), of("step", 4)]

    assert proved(2, held, tmp_path, gpu="H100") == [None, None]
    assert capfd.readouterr().out.startswith("warning: embedding is not the same on all ranks that hold it, by up to")
    assert all(proved(2, held, tmp_path))
    much = proved(2, lambda rank: [of("embedding", changed((8, 0.5)) if rank else WHOLE)], tmp_path, gpu="H100")
    steps = proved(2, lambda rank: [of("steps", np.int64(10**6 + rank))], tmp_path, gpu="H100")
    assert all(much) and all(steps)
