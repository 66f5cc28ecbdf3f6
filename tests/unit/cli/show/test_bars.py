"""Bars and curves of characters."""

from __future__ import annotations

import pytest

from hpclaunch.cli.show.bars import bar, curve, levels


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, "──────────"), (0.25, "━━────────"), (1.0, "━" * 10), (7.0, "━" * 10), (-1.0, "─" * 10)]
)
def test_a_bar_is_full_by_its_share(share: float, drawn: str) -> None:
    assert bar(share, 10) == drawn
    assert bar(share, 10, ascii=True) == drawn.replace("━", "#").replace("─", ".")


def test_a_curve_lies_between_its_lowest_and_its_highest_value() -> None:
    assert curve([9, 4, 1, 0, 5], 4) == "▇▂▁█"
    assert curve([9, 4, 1, 0, 5], 4, ascii=True) == "8209"
    assert (curve([3, 3], 5), curve([], 5), curve([1], 0)) == ("▅▅", "", "")


def test_a_level_that_was_not_measured_is_a_question_mark() -> None:
    assert levels([0.0, None, 1.0, 1.5]) == "▁?██"
