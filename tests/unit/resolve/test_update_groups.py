"""Groups of ranks that update apart: refused before anything is queued, if the ranks cannot form them."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.resolve import resolve
from tests.builders import bundled_job
from tests.unit.planner.questions import ask


def faults(**typed: Any) -> list[Any]:
    return list(resolve(ask(bundled_job("cifar"), account="m1", **typed).case)[1])


@pytest.mark.parametrize("groups", ["1", "2", "4", "8"])
def test_groups_of_equally_many_ranks_are_accepted(groups: str) -> None:
    assert faults(nodes=2, settings=(("update_groups", groups),)) == []


def test_other_groups_are_refused_with_those_that_are_possible() -> None:
    (fault,) = faults(nodes=2, settings=(("update_groups", "3"),))
    assert (fault.where, fault.what) == ("--set update_groups", "8 ranks cannot be 3 equal groups")
    assert (fault.allowed, fault.next) == ("1, 2, 4, 8", "choose one of these, or a multiple of 3 ranks")


def test_every_run_of_a_sweep_is_checked() -> None:
    (fault,) = faults(nodes=2, sweep=(("update_groups", "1,2,5"),))
    assert fault.what == "8 ranks cannot be 5 equal groups"
