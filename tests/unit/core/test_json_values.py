from __future__ import annotations

import math
from typing import Any

import pytest

from hpclaunch.core.json_values import finite, number, pairs


@pytest.mark.parametrize("value", [None, True, "1", [1], {}, 10**400])
def test_what_is_no_number_is_unknown(value: Any) -> None:
    assert number(value) is None
    assert finite(value) is None


def test_a_whole_number_becomes_a_float() -> None:
    assert isinstance(number(3), float)
    assert (number(3), finite(-0.5)) == (3.0, -0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_only_a_number_may_be_infinite_or_nan(value: float) -> None:
    assert repr(number(value)) == repr(value)
    assert finite(value) is None


@pytest.mark.parametrize("value", [None, {}, "ab", 1])
def test_what_is_no_list_holds_no_pair(value: Any) -> None:
    assert pairs(value) == []


def test_members_that_are_no_pairs_are_left_out() -> None:
    assert pairs([["epochs", 3], ["one"], "ab", [1, 2, 3], [5, [6]]]) == [("epochs", 3), ("5", [6])]
