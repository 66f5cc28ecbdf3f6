"""The parts of variables, in one process."""

from __future__ import annotations

import pytest

try:
    import numpy as np
except ImportError:
    pytest.skip("group training: numpy is not installed", allow_module_level=True)

from hpclaunch.training.model_parallel.splits import OwnPart, Split, mark, split_of


@pytest.mark.parametrize(("axis", "shape"), [(0, (6,)), (0, (6, 5)), (1, (2, 6)), (3, (3, 3, 4, 6))])
def test_the_parts_of_all_ranks_are_the_whole(axis: int, shape: tuple[int, ...]) -> None:
    whole = np.random.RandomState(0).normal(size=shape)
    splits = [Split(axis, 6, 3, index) for index in range(3)]
    parts = [split.part(whole) for split in splits]
    np.testing.assert_array_equal(np.concatenate(parts, axis), whole)
    for split, part in zip(splits, parts, strict=True):
        assert part.shape == split.own_shape(shape)
        assert split.whole_shape(part.shape) == shape


def test_unequal_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="7 cannot be divided into 2 equal parts"):
        Split(0, 7, 2, 0)


def test_an_initializer_makes_the_same_whole_variable_whatever_the_parts_are() -> None:
    def initializer(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.random.RandomState(1).normal(size=shape).astype(dtype)

    whole = OwnPart(initializer, Split(1, 4, 1, 0))((3, 4), "float32")
    halves = [OwnPart(initializer, Split(1, 4, 2, index))((3, 2), "float32") for index in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves, 1), whole)


def test_a_variable_knows_its_part() -> None:
    class Variable:
        pass

    variable, split = Variable(), Split(0, 4, 2, 1)
    assert split_of(variable) is None
    mark(variable, split)
    assert split_of(variable) == split
