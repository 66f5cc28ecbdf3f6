"""The styles of a plan: the text stays the same, and what matters has a style."""

from __future__ import annotations

from hpclaunch.cli.show.plan_lines import styled

LINES = [
    "nodes  4 nodes x 4 ranks                     guess",
    "batch  B = 4096 = 16 x 256 samples        measured",
    "",
    "hpclaunch submit cifar --nodes 4 \\",
    "    --site perlmutter",
    "",
    "  nodes ranks      B   samples/s",
    ">     4    16   4096    7.9k-35k",
    "      8    32   8192    7.9k-35k",
    "assumed: nothing is measured",
]


def test_the_text_is_the_same() -> None:
    assert ["".join(text for text, _ in line) for line in styled(LINES)] == LINES
    assert styled([]) == []


def test_answers_command_and_chosen_row_stand_out() -> None:
    first, _, _, command, more, _, header, chosen, other, remark = styled(LINES)
    assert [style for _, style in first] == ["label", "heading", "third-party"]
    assert first[2][0] == "guess"
    assert [line[0][1] for line in (command, more, header, chosen, other, remark)] == [
        *("heading", "heading", "heading", "derived", "", "label")
    ]
