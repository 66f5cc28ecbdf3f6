"""Folders become names: the longest first, no neighbour with a longer name, also as JSON spells them."""

from __future__ import annotations

import json

import pytest

from hpclaunch.reports.exports.private_paths import private_paths

PATHS = private_paths(
    {
        "HOME": ("/home/ada", "the home folder"),
        "RUN": ("/home/ada/runs/r1", "the run directory"),  # the longer one counts, whatever their order
        "AGAIN": ("/home/ada", "the same folder"),
        "NOTHING": ("", "not known"),
        "ROOT": ("/", "everything"),
        "UMLAUT": ("/data/größe", "a folder"),
    }
)


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("cd /home/ada/runs/r1/code", "cd RUN/code"),
        ("/home/ada", "HOME"),
        ("'/home/ada/x' /home/ada.", "'HOME/x' HOME."),
        ("/home/ada2 /home/ada-b /home/ada.x", "/home/ada2 /home/ada-b /home/ada.x"),
        (json.dumps("/data/größe/a"), '"UMLAUT/a"'),
        ("/data/größe", "UMLAUT"),
        ("/etc/passwd", "/etc/passwd"),
    ],
)
def test_a_folder_becomes_its_name(text: str, public: str) -> None:
    assert PATHS.without(text) == public


def test_only_names_that_are_used_have_a_meaning() -> None:
    assert set(PATHS.meanings) == {"RUN", "HOME", "UMLAUT"}
    assert private_paths({}).without("/home/ada") == "/home/ada"
