"""Single values of a YAML text are changed, and all else stays: every change is one line of the difference."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from hpclaunch.config.documents import yaml_values
from hpclaunch.config.yaml_edits import Change, edited
from hpclaunch.core.errors import InvalidFile

TEXT = """\
# a cluster
title: "the cluster — ü" # two words
partitions: # of today
  batch: {max_nodes: 4, max_walltime: "04:00:00"} # the usual one
  # for tests
  debug: {max_nodes: 2, note: "short, { jobs }"}
  long:
    max_nodes: 8
    # weeks
    max_walltime: 7-00:00:00
qos: {normal: {}}
empty:
notes:
  - one
  - two # last
origins: {partitions: [docs]}
"""


def changed(*changes: Change, text: str = TEXT) -> list[str]:
    """The lines of the difference, each with its sign."""
    new, made = edited(text, changes)
    assert made == changes
    lines = difflib.ndiff(text.splitlines(), new.splitlines())
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (
            ("partitions", "batch", "max_walltime"),
            "02:00:00",
            [
                '-   batch: {max_nodes: 4, max_walltime: "04:00:00"} # the usual one',
                '+   batch: {max_nodes: 4, max_walltime: "02:00:00"} # the usual one',
            ],
        ),
        (("partitions", "long", "max_nodes"), 16, ["-     max_nodes: 8", "+     max_nodes: 16"]),
        (("partitions", "long", "min_nodes"), 2, ["+     min_nodes: 2"]),
        (("partitions", "new"), {"max_nodes": 1}, ["+   new: {max_nodes: 1}"]),
        (
            ("qos", "normal", "max_nodes"),
            3,
            ["- qos: {normal: {}}", "+ qos: {normal: {max_nodes: 3}}"],
        ),
        (("empty",), "x", ["- empty:", "+ empty: x"]),
        (
            ("origins", "partitions.batch"),
            ["now"],
            ["- origins: {partitions: [docs]}", "+ origins: {partitions: [docs], partitions.batch: [now]}"],
        ),
        (
            ("sources", "now"),
            {"ref": "it: {is}", "read": "2026"},
            ['+ sources: {now: {ref: "it: {is}", read: "2026"}}'],
        ),
        (("notes",), ["two"], ["-   - one"]),
        (("notes",), ["one", "3"], ["-   - two # last", '+   - "3"']),
    ],
)
def test_a_value_is_set_where_it_stands_or_behind_the_others(
    path: tuple[str, ...], value: Any, lines: list[str]
) -> None:
    assert changed(Change(path=path, value=value)) == lines


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (("partitions", "debug"), ['-   debug: {max_nodes: 2, note: "short, { jobs }"}']),
        (
            ("partitions", "long"),
            ["-   long:", "-     max_nodes: 8", "-     # weeks", "-     max_walltime: 7-00:00:00"],
        ),
        (("partitions", "long", "max_walltime"), ["-     max_walltime: 7-00:00:00"]),
        (("qos", "normal"), ["- qos: {normal: {}}"]),
        (("notes",), ["- notes:", "-   - one", "-   - two # last"]),
    ],
)
def test_a_key_goes_with_its_value_and_without_what_is_beside_it(path: tuple[str, ...], lines: list[str]) -> None:
    assert changed(Change(path=path, removes=True)) == lines


@pytest.mark.parametrize("key", ["max_nodes", "max_walltime"])
def test_a_member_of_a_mapping_on_one_line_goes_with_its_comma(key: str) -> None:
    new, _ = edited(TEXT, [Change(path=("partitions", "batch", key), removes=True)])
    assert list(yaml_values("x", new)["partitions"]["batch"]) == [
        one for one in ("max_nodes", "max_walltime") if one != key
    ]
    assert "# the usual one" in new


def test_changes_follow_each_other_and_the_last_member_takes_its_mapping_along() -> None:
    names = ("batch", "debug", "long")
    new, made = edited(TEXT, [Change(path=("partitions", name), removes=True) for name in names])
    assert len(made) == 3 and "partitions" not in yaml_values("x", new)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (TEXT, Change(path=("partitions", "none"), removes=True)),
        (TEXT, Change(path=("none", "none"), removes=True)),
        (TEXT, Change(path=("title", "x"), value=1)),
        (TEXT, Change(path=("partitions", "long"), value=1)),
        ("a: |\n  text\nb:\n- 1\n", Change(path=("b", "c"), value=1)),
    ],
)
def test_what_cannot_be_changed_for_certain_stays(text: str, change: Change) -> None:
    assert edited(text, [change]) == (text, ())


def test_a_text_without_a_last_line_end_and_one_of_json_are_edited_too() -> None:
    assert edited("a: 1\nb:\n  c: 2", [Change(path=("b", "d"), value=3)])[0] == "a: 1\nb:\n  c: 2\n  d: 3\n"
    assert edited('{"a": {"b": 1}}', [Change(path=("a", "c"), value=2)])[0] == '{"a": {"b": 1, c: 2}}'
    assert edited("a: |\n  text\n\nb: 1\n", [Change(path=("a",), removes=True)])[0] == "b: 1\n"


def test_a_text_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(InvalidFile):
        edited("- 1", [Change(path=("a",), value=1)])
