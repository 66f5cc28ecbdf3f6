"""When groups of ranks exchange their weights."""

from __future__ import annotations

import pytest

try:
    import horovod.tensorflow as hvd
except ImportError:
    pytest.skip("group horovod: horovod is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training.optimization.group_updates import is_due

assert hvd is not None


@pytest.mark.parametrize(
    ("first", "steps", "every", "expected"),
    [
        (0, 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        (0, 1, 3, [3, 6]),
        (2, 1, 3, [3, 6]),  # an interrupted epoch continues
        (3, 1, 3, [6]),  # the exchange after step 3 was made before the interruption
        (0, 2, 4, [4]),  # two steps at a time
        (0, 1, 9, []),
    ],
)
def test_an_exchange_follows_every_so_many_steps_of_an_epoch(
    first: int, steps: int, every: int, expected: list[int]
) -> None:
    ends = range(first + steps, 8, steps)
    assert [end for end in ends if is_due(end - steps, end, every)] == expected
