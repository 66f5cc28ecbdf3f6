"""The pages of the manual: how one is found, and what becomes of its links."""

from __future__ import annotations

import re

import pytest

from hpclaunch.actions.manual import adapt_links, find_page, pages, text_of_page
from hpclaunch.core.errors import NotFound
from hpclaunch.core.version import __version__

FORGE = f"https://github.com/hpclaunch/hpclaunch/blob/v{__version__}"
KNOWN = {"planning", "training", "how-to/pytorch"}


def test_every_page_has_a_topic_and_a_title_and_no_decision_is_one() -> None:
    found = {page.topic: page.title for page in pages()}
    assert found["settings"] == "Settings" and "planning" in found
    assert list(found) == sorted(found)
    assert all(found.values()) and not [topic for topic in found if "decisions" in topic]


@pytest.mark.parametrize("typed", ["planning", "planning.md", "docs/planning.md", "docs/planning.md#the-ladder"])
def test_a_page_is_found_by_its_topic_and_by_its_path(typed: str) -> None:
    assert find_page(typed).topic == "planning"


def test_an_unknown_topic_is_refused_with_the_nearest_and_all() -> None:
    with pytest.raises(NotFound) as caught:
        find_page("planing")
    (fault,) = caught.value.faults
    assert fault.what == "no page of the manual is called 'planing'; did you mean 'planning'?"
    assert "settings" in fault.allowed and fault.next == "hpclaunch docs"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("see [plans](planning.md#the-ladder).", "see plans (`hpclaunch docs planning`)."),
        ("[below](#table)", "below"),
        ("[here](training.md#table)", "here"),
        ("[PyTorch](how-to/pytorch.md)", "PyTorch (`hpclaunch docs how-to/pytorch`)"),
        ("[safe](../SECURITY.md)", f"[safe]({FORGE}/SECURITY.md)"),
        ("[why](decisions/0041-keras-2-by-tf-keras.md)", f"[why]({FORGE}/docs/decisions/0041-keras-2-by-tf-keras.md)"),
        ("![curves](pictures/a.svg)", f"[picture: curves]({FORGE}/docs/pictures/a.svg)"),
        ("[w3](https://w3.org)", "[w3](https://w3.org)"),
        ("<!-- example: site -->\n```yaml\na: [b](c.md)\n```\n", "```yaml\na: [b](c.md)\n```\n"),
    ],
)
def test_a_link_leads_somewhere_without_the_files_beside_it(markdown: str, shown: str) -> None:
    assert adapt_links(markdown, "training", KNOWN) == shown


def test_a_link_of_a_page_in_a_folder_starts_there() -> None:
    assert adapt_links("[p](../planning.md)", "how-to/pytorch", KNOWN) == "p (`hpclaunch docs planning`)"


def test_no_page_is_shown_with_a_relative_link() -> None:
    shown = {page.topic: text_of_page(page) for page in pages()}
    left = {topic: re.findall(r"\]\((?:#|[\w./-]+\.md)", text) for topic, text in shown.items()}
    assert {topic: links for topic, links in left.items() if links} == {}
