"""A record behaves as a frozen dataclass does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from hpclaunch.core.records import placed_record, record


@record
class Ours:
    """What is compared."""

    number: int
    words: tuple[str, ...] = ()
    apart: str = dataclasses.field(default="", compare=False, repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Theirs:
    """What it is compared with."""

    number: int
    words: tuple[str, ...] = ()
    apart: str = dataclasses.field(default="", compare=False, repr=False)


BOTH = pytest.mark.parametrize("made", [Ours, Theirs])


@BOTH
def test_its_fields_say_whether_two_are_equal(made: Any) -> None:
    one = made(number=1, words=("a",))
    assert one == made(number=1, words=("a",), apart="not looked at")
    assert hash(one) == hash(made(number=1, words=("a",), apart="not looked at"))
    assert one != made(number=2, words=("a",))
    assert Ours(number=1) != Theirs(number=1)


@BOTH
def test_nothing_is_set_twice_or_added_or_deleted(made: Any) -> None:
    one = made(number=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.number = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.number
    with pytest.raises((AttributeError, TypeError)):
        one.other = 2
    with pytest.raises(TypeError):
        made(1)
    assert one.number == 1


@BOTH
def test_it_is_shown_copied_replaced_and_pickled(made: Any) -> None:
    one = made(number=1, words=("a",), apart="x")
    assert repr(one) == f"{made.__name__}(number=1, words=('a',))"
    assert dataclasses.replace(one, number=2) == made(number=2, words=("a",))
    assert copy.deepcopy(one) == one == pickle.loads(pickle.dumps(one))
    assert dataclasses.asdict(one) == {"number": 1, "words": ("a",), "apart": "x"}


def test_a_method_of_its_own_stays() -> None:
    @record
    class Named:
        """Shown in its own way."""

        name: str

        def __repr__(self) -> str:
            return self.name

    assert repr(Named(name="n")) == "n"
    assert Named(name="n") == Named(name="n")


@placed_record
class Pair:
    """A record whose arguments may stand without names."""

    first: int
    second: str = "b"


def test_arguments_by_place_are_those_by_name() -> None:
    assert Pair(1) == Pair(first=1) == Pair(1, second="b") == Pair(1, "b")


@pytest.mark.parametrize(
    ("given", "named"), [((1, "b", "c"), {}), ((1,), {"first": 1}), ((), {}), ((1,), {"third": 3})]
)
def test_each_argument_is_given_once(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Pair"):
        Pair(*given, **named)
