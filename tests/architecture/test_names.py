"""Names say what they stand for: private functions in all rooms of the package, and all classes of the launcher."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, root_names

PARTICIPLES = re.compile("[a-z]+(ed|ing)")
IRREGULAR = {
    *(
        "begun",
        "broken",
        "built",
        "chosen",
        "cut",
        "done",
        "drawn",
        "driven",
        "found",
        "given",
        "gone",
        "heard",
        "held",
    ),
    *("kept", "known", "left", "lost", "made", "met", "put", "read", "said", "seen", "sent", "set", "shown", "spent"),
    *("split", "spoken", "taken", "told", "torn", "understood", "went", "woken", "written"),
}
VERBS = {"cut", "put", "read", "set", "split"}
"""Participles that are the verb too: ``_read`` says what it does."""
PREPOSITIONS = {
    *("about", "above", "across", "after", "against", "among", "around", "as", "at", "before", "behind", "below"),
    *("beside", "between", "beyond", "by", "during", "for", "from", "in", "inside", "instead", "into", "near", "of"),
    *("off", "on", "onto", "out", "over", "per", "through", "to", "under", "until", "up", "with", "within", "without"),
}
ADVERBS = {"again", "alone", "also", "always", "anew", "apart", "here", "never", "not", "now", "once", "only", "then"}
ADVERBS |= {"there", "together", "twice"}
ADJECTIVES = {
    *("absolute", "alike", "alive", "big", "critical", "empty", "equal", "fair", "fine", "first", "flat", "free"),
    *("full", "good", "large", "larger", "last", "least", "like", "long", "longer", "most", "narrow", "new", "newest"),
    *("next", "old", "oldest", "open", "own", "plain", "plural", "positive", "possible", "printable", "private"),
    *("same", "short", "shorter", "single", "slow", "small", "smaller", "steady", "straight", "strange", "strict"),
    *("stricter", "usable", "visible", "whole", "wide", "wrong"),
}
NOUNS = {"heading", "reading", "setting", "warning"}
"""Nouns that end as participles do."""
LEADING = {"as_text"}
"""Names that may begin with a preposition."""


def says_nothing(name: str) -> bool:
    """Whether a private name is one word that is no noun and no verb, or begins with a preposition or an adverb."""
    word = name.lstrip("_")
    first, _, more = word.partition("_")
    if more:
        return first in PREPOSITIONS | ADVERBS and word not in LEADING
    if word in VERBS | NOUNS:
        return False
    return bool(PARTICIPLES.fullmatch(word)) or word in IRREGULAR | PREPOSITIONS | ADVERBS | ADJECTIVES


@pytest.mark.parametrize("room", root_names())
def test_no_private_function_is_named_by_a_bare_participle_preposition_or_adjective(room: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in _modules_of(room)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and re.match("_[a-z]", node.name) and says_nothing(node.name)
    ]
    assert not found, "\n".join(found)


def _modules_of(room: str) -> list[Path]:
    """A room is a folder, or a module at the root."""
    modules = sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
    assert all(path.is_file() for path in modules)
    return modules


@pytest.mark.parametrize("name", ["_told", "_heard", "_with", "_whole", "_settled", "_again", "_by_hand", "_not_taken"])
def test_a_name_that_says_nothing_is_found(name: str) -> None:
    assert says_nothing(name)


@pytest.mark.parametrize("name", ["_read", "_row", "_refuse_retry", "_is_steady", "_run_of", "_heading", "_as_text"])
def test_a_noun_and_a_verb_say_something(name: str) -> None:
    assert not says_nothing(name)


def test_no_two_classes_of_the_launcher_have_one_name() -> None:
    """Those of ``training`` are apart: no module may import both."""
    names = Counter(
        node.name
        for path in sorted(PACKAGE.rglob("*.py"))
        if not {"training", "_bundled"} & set(path.relative_to(PACKAGE).parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 100
    assert [name for name, homes in names.items() if homes > 1] == []
