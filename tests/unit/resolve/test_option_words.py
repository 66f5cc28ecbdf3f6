"""The word that gives a value to a program without parameters, in its own spelling, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.program_options import DeclaredOption, ProgramOptions
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.program.option_words import option_words
from tests.builders import a_case

OPTIONS = (
    DeclaredOption(spelled=("-lr", "--learning-rate"), where="train.py:3", name="rate"),
    DeclaredOption(spelled=("--batch_size",), where="train.py:4"),
    DeclaredOption(spelled=("-n",), where="train.py:5"),
    DeclaredOption(spelled=("-k",), where="train.py:6", glued=True),
    DeclaredOption(spelled=("--amp", "--no-amp"), where="train.py:7", takes_value=False, off="--no-amp"),
    DeclaredOption(spelled=(), where="train.py:8", name="data"),
    DeclaredOption(spelled=("--warm-up",), where="train.py:9"),
    DeclaredOption(spelled=("--warm_up",), where="eval.py:2"),
)


def words(*names: str, **changes: Any) -> tuple[dict[str, str], Decisions]:
    file = changes.pop("space_file", "")
    known = replace(ProgramOptions(program="train.py", options=OPTIONS, is_complete=True), **changes)
    decisions = Decisions()
    case = replace(a_case(), program_options=known, space_file=file)
    return dict(option_words(names, case, decisions)), decisions


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("learning_rate", "--learning-rate="),
        ("learning-rate", "--learning-rate="),
        ("batch-size", "--batch_size="),
        ("rate", "--learning-rate="),
        ("lr", "--learning-rate="),
        ("n", "-n="),
        ("warm_up", "--warm_up="),
        ("batch_size.first", "--batch_size.first="),
    ],
)
def test_a_name_is_spelled_as_the_program_declares_it(name: str, word: str) -> None:
    found, decisions = words(name, is_complete=name != "batch_size.first")
    assert found == {name: word}
    assert (decisions.faults, decisions.warnings) == ([], [])


def test_a_spelling_that_differs_from_the_typed_one_is_a_choice_with_its_place() -> None:
    _, decisions = words("learning_rate", "batch_size")
    (choice,) = decisions.choices
    assert (choice.key, choice.value, choice.origin) == ("option", "--learning-rate=…", "train.py:3")


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("dashes", "--weight-decay="),
        ("underscores", "--weight_decay="),
        ("either", "--weight_decay="),
        ("key=value", "weight_decay="),
    ],
)
def test_the_rule_of_a_library_spells_all_other_names(form: str, word: str) -> None:
    found, decisions = words("weight_decay", form=form, form_source="train.py:1", is_complete=False)
    assert found == {"weight_decay": word}
    assert (decisions.faults, decisions.warnings) == ([], [])


@pytest.mark.parametrize(
    ("name", "what", "next_step"),
    [
        ("learning_rat", "no option --learning_rat; did you mean 'learning-rate'?", "--sweep learning-rate=…; or "),
        ("zzz", "train.py has no option --zzz", "write its place after --, as in: -- --zzz={zzz}"),
        ("amp", "--amp takes no value (train.py:7)", "--sweep amp=--amp,--no-amp and -- {amp}"),
        ("k", "only the short option -k (train.py:6)", "as in: -- -k {k}"),
        ("data", "'data' is a positional argument of train.py (train.py:8)", "as in: -- {data}"),
        ("warm.up", "no option --warm.up", ""),
    ],
)
def test_what_the_program_would_refuse_is_refused_before(name: str, what: str, next_step: str) -> None:
    found, decisions = words(name)
    (fault,) = decisions.faults
    assert found == {}
    assert (fault.where, what in fault.what, next_step in fault.next) == (f"--sweep {name}", True, True), fault


@pytest.mark.parametrize(
    ("name", "next_step"),
    [
        ("learning_rat", "name it learning-rate in space.yaml; or write its place after --"),
        ("zzz", "write its place after --, as in: -- --zzz={zzz}"),
        ("amp", 'amp: ["--amp", "--no-amp"] in space.yaml and -- {amp}'),
        ("data", "write its place after --, as in: -- {data}"),
    ],
)
def test_a_refused_name_of_a_space_file_is_mended_there(name: str, next_step: str) -> None:
    _, decisions = words(name, space_file="space.yaml")
    (fault,) = decisions.faults
    assert fault.where == f"space.yaml: {name}"
    assert fault.next.startswith(next_step)
    assert "--sweep" not in str(fault)


def test_two_options_that_differ_in_their_dashes_alone_are_not_guessed() -> None:
    one = DeclaredOption(spelled=("--a-b_c",), where="x.py:1")
    other = DeclaredOption(spelled=("--a_b-c",), where="y.py:1")
    found, decisions = words("a_b_c", options=(one, other))
    assert found == {}
    assert "two options of this name: --a-b_c (x.py:1) and --a_b-c (y.py:1)" in decisions.faults[0].what


def test_what_is_not_known_is_passed_on_as_typed_and_said_once() -> None:
    not_known = "how train.py spells its options is not known, so it gets --zzz=… --yyy=…; "
    more = "train.py can have more options than its source shows, so it gets --zzz=… --yyy=…; "
    for options, begin in (((), not_known), (OPTIONS, more)):
        found, decisions = words("zzz", "yyy", is_complete=False, options=options)
        assert found == {}
        assert decisions.faults == []
        (text,) = decisions.warnings
        assert text.startswith(begin)
        assert "-- --option={zzz}" in text


def test_a_name_that_is_passed_on_is_compared_with_the_options_that_are_known() -> None:
    found, decisions = words("learning_rat", is_complete=False)
    (text,) = decisions.warnings
    assert (found, decisions.faults) == ({}, [])
    assert "so it gets --learning_rat=… (the source shows --learning-rate); if that is wrong" in text
