"""The names and values of a space beside the parameters of a job."""

from __future__ import annotations

from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Fault
from hpclaunch.search.names import renamed, texts_of, unfit
from hpclaunch.search.space import Dimension, SearchSpace

JOB = {
    "batch_size_per_rank": Parameter(default=512, at_least=1),
    "learning_rate": Parameter(default=0.1, above=0),
    "optimizer": Parameter(default="adam", choices=("adam", "sgd")),
    "xla": Parameter(default=False),
}


def space(*dimensions: Dimension) -> SearchSpace:
    return SearchSpace(dimensions=dimensions)


def words(found: list[Fault]) -> str:
    return "\n".join(map(str, found))


def test_an_unknown_name_is_refused_with_the_nearest_and_the_flag_that_maps_it() -> None:
    text = words(unfit(space(Dimension(name="batch_size", values=(8,))), JOB, "cifar", []))
    assert "cifar has no parameter 'batch_size'; did you mean 'batch_size_per_rank'?" in text
    assert "--map batch_size=batch_size_per_rank" in text


def test_a_mapped_name_is_the_jobs_own() -> None:
    faults: list[Fault] = []
    found = renamed(space(Dimension(name="batch_size", values=(8,))), {"batch_size": "batch_size_per_rank"}, faults)
    assert not faults
    assert unfit(found, JOB, "cifar", []) == []


def test_a_map_of_nothing_and_two_names_for_one_parameter_are_refused() -> None:
    faults: list[Fault] = []
    both = space(Dimension(name="lr", values=(1,)), Dimension(name="learning_rate", values=(2,)))
    renamed(both, {"batch": "x", "lr": "learning_rate"}, faults)
    assert "no parameter 'batch'" in words(faults)
    assert "searched twice" in words(faults)


def test_values_and_ends_of_ranges_must_fit_the_parameter() -> None:
    text = words(
        unfit(
            space(
                Dimension(name="batch_size_per_rank", values=(0, 8)),
                Dimension(name="learning_rate", low=0, high=1),
                Dimension(name="optimizer", values=("adm",)),
            ),
            JOB,
            "cifar",
            [],
        )
    )
    assert "batch_size_per_rank: '0'" in text
    assert "learning_rate: '0'" in text
    assert "did you mean 'adam'" in text


def test_a_range_must_fit_the_type() -> None:
    assert "type text" in words(unfit(space(Dimension(name="optimizer", low=0, high=1)), JOB, "cifar", []))
    text = words(unfit(space(Dimension(name="batch_size_per_rank", low=1, high=8)), JOB, "cifar", []))
    assert "whole number" in text


def test_a_parameter_cannot_be_searched_and_set() -> None:
    assert "set as well" in words(unfit(space(Dimension(name="xla", values=(True,))), JOB, "cifar", ["xla"]))


def test_a_program_without_parameters_takes_any_name_that_can_be_an_option() -> None:
    assert unfit(space(Dimension(name="lr.x", values=(1,))), {}, "train", []) == []
    assert "cannot be the name" in words(unfit(space(Dimension(name="1 x", values=(1,))), {}, "train", []))


def test_values_are_spelled_as_the_program_gets_them() -> None:
    assert texts_of({"a": True, "b": 0.5, "c": "x"}) == {"a": "true", "b": "0.5", "c": "x"}
