"""The groups of ranks that update their model apart, with a Horovod that only notes what it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.training.model_parallel import groups
from hpclaunch.training.model_parallel.mesh import Division
from hpclaunch.training.rank.failure import AgreedError


class NotedHorovod:
    """A Horovod of `size` ranks, of which this is `own`; `sets`: the process sets of init."""

    def __init__(self, size: int, own: int) -> None:
        self._size, self._own = size, own
        self.sets: list[list[int]] = []

    def ProcessSet(self, ranks: list[int]) -> list[int]:  # noqa: N802 (its name in Horovod)
        return ranks

    def init(self, process_sets: Any = ()) -> None:
        self.sets = list(process_sets)

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._own


@pytest.fixture(autouse=True)
def no_groups_afterwards() -> Any:
    before = groups._Here.groups
    yield
    groups._Here.groups = before


def test_every_rank_makes_all_groups_and_knows_its_own() -> None:
    horovod = NotedHorovod(6, 4)
    assert groups.start(horovod, Division(update_groups=3), {"HOROVOD_SIZE": "6"}) is None
    assert horovod.sets == [[0, 1], [2, 3], [4, 5]]
    own = groups.updates()
    assert own is not None and (own.ranks, own.index, own.process_set) == ((4, 5), 0, [4, 5])


def test_without_groups_all_ranks_are_one() -> None:
    horovod = NotedHorovod(6, 4)
    assert groups.start(horovod, Division(), {"HOROVOD_SIZE": "6"}) is None
    assert (horovod.sets, groups.updates()) == ([], None)


@pytest.mark.parametrize(("size", "count"), [(6, 4), (1, 2)])
def test_groups_that_do_not_divide_the_ranks_are_refused(size: int, count: int) -> None:
    with pytest.raises(AgreedError, match=f"--update-groups={count} does not divide the {size} rank"):
        groups.start(NotedHorovod(size, 0), Division(update_groups=count), {"HOROVOD_SIZE": str(size)})
