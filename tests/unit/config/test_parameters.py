"""A parameter's type, bounds and choices."""

from __future__ import annotations

import pytest

from hpclaunch.config.parameters import Parameter, Value, spell


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (Parameter(default=1), "12", 12),
        (Parameter(default=1.0), "12", 12.0),
        (Parameter(default=1.0), "1e-3", 0.001),
        (Parameter(default=True), "FALSE", False),
        (Parameter(default="a"), "12", "12"),
        (Parameter(default="a"), "", ""),
        (Parameter(default="a", choices=("a", "b")), "b", "b"),
        (Parameter(default=1, at_least=1), "1", 1),
        (Parameter(default=0.5, at_least=0, below=1), "0", 0.0),
        (Parameter(default=1, at_least=1), "1" + 400 * "0", 10**400),
        (Parameter(default=1, at_most=5), "5", 5),
    ],
)
def test_a_parameters_default_fixes_its_type(parameter: Parameter, text: str, value: Value) -> None:
    parsed = parameter.parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("parameter", "text", "message"),
    [
        (Parameter(default=1), "1.5", "'1.5' is not a whole number"),
        (Parameter(default=1), "", "'' is not a whole number"),
        (Parameter(default=1.0), "fast", "'fast' is not a number"),
        (Parameter(default=True), "1", "'1' is not true or false"),
        (Parameter(default="a", choices=("a", "b")), "c", "'c' is not one of a, b"),
        (Parameter(default=1, at_least=1), "0", "'0' is not a number that is at least 1"),
        (Parameter(default=0.1, above=0), "0", "'0' is not a number that is above 0"),
        (Parameter(default=1, at_most=5), "6", "'6' is not a number that is at most 5"),
        (Parameter(default=2**54, at_least=2**53 + 1), str(2**53), "that is at least 9007199254740993"),
        (Parameter(default=0.1, above=0), "inf", "'inf' is not a number that is above 0"),
        (Parameter(default=0.1, at_least=0), "nan", "'nan' is not a number that is at least 0"),
        (Parameter(default=0.5, at_least=0, below=1), "1", "'1' is not a number that is at least 0 and below 1"),
    ],
)
def test_other_text_is_refused_with_what_is_allowed(parameter: Parameter, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parameter.parse(text)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (1, "1"), (0.001, "0.001"), ("a", "a")])
def test_a_value_is_spelled_as_it_is_parsed(value: Value, text: str) -> None:
    assert spell(value) == text
    assert Parameter(default=value).parse(text) == value


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (Parameter(default=1, type="float"), "2", 2.0),
        (Parameter(default="", type="epochs"), "30.0, 60,80.5", "30,60,80.5"),
        (Parameter(default="3", type="epochs"), "", ""),
    ],
)
def test_a_type_may_be_said(parameter: Parameter, text: str, value: Value) -> None:
    assert repr(parameter.parse(text)) == repr(value)


@pytest.mark.parametrize("text", ["60,30", "30,30", "0,1", "x", "1,,2", "inf", "nan"])
def test_epochs_ascend(text: str) -> None:
    with pytest.raises(ValueError, match="is not epochs above 0 in ascending order, such as 30,60,80"):
        Parameter(default="", type="epochs").parse(text)


def test_a_typed_choice_that_is_nearly_one_is_guessed() -> None:
    with pytest.raises(ValueError, match=r"'adamm' is not one of adam, sgd; did you mean 'adam'\?"):
        Parameter(default="adam", choices=("adam", "sgd")).parse("adamm")
