"""Which runs a sweep has, and what cannot be swept."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from tests.builders import a_desk, a_job, a_site, planned, refused


def tune(**changes: Any) -> Job:
    parameters = {
        "learning_rate": Parameter(default=0.1),
        "seed": Parameter(default=1),
        "note": Parameter(default=""),
        "augment": Parameter(default=False),
        "decay": Parameter(default="none", choices=("none", "cosine")),
    }
    return a_job(**{"parameters": parameters, **changes})


def axes(*sweep: tuple[str, str]) -> dict[str, tuple[str, ...]]:
    found = planned(job=tune(), sweep=sweep).sweep
    assert found is not None
    return dict(found.axes)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("seed", "3", ("3",)),
        ("seed", "1..3,7", ("1", "2", "3", "7")),
        ("seed", "-1..1", ("-1", "0", "1")),
        ("learning_rate", "0.1,1e-3", ("0.1", "0.001")),
        ("learning_rate", "1..2", ("1.0", "2.0")),
        ("augment", "true,FALSE", ("true", "false")),
        ("decay", "none,cosine", ("none", "cosine")),
        ("note", "1..3", ("1..3",)),
        ("note", '"a,b",c', ("a,b", "c")),
        ("note", '"","say ""x"""', ("", 'say "x"')),
        ("note", "it's,a\"b", ("it's", 'a"b')),
    ],
)
def test_values_are_read_as_the_parameters_type(name: str, text: str, values: tuple[str, ...]) -> None:
    assert axes((name, text)) == {name: values}


def test_mpirun_passes_on_what_tells_a_rank_its_run() -> None:
    launch = planned(job=tune(), sweep=(("seed", "1..3"),), launcher="mpirun").launch
    assert {"HPCLAUNCH_RUN_DIR", "HPCLAUNCH_ARRAY_DIR", "HPCLAUNCH_SWEPT"} <= set(launch)


def test_every_combination_is_one_run_and_its_own_words_stand_before_the_typed_arguments() -> None:
    spec = planned(job=tune(), sweep=(("seed", "1..3"), ("augment", "true,false")), at_once=2, arguments=("x",))
    assert spec.sweep is not None
    assert (spec.sweep.count, spec.sweep.digits, spec.sweep.at_once) == (6, 4, 2)
    assert spec.command[: spec.sweep.position][-1] == "--decay=none"
    assert spec.command[spec.sweep.position :] == ("x",)
    assert not [word for word in spec.command if word.startswith(("--seed", "--augment"))]
    assert dict(spec.directives)["array"] == "0-5%2"
    assert dict(spec.directives)["output"].endswith("/logs/slurm-%A_%a.out")


def test_the_cost_is_that_of_all_runs() -> None:
    one, many = planned(job=tune()).cost, planned(job=tune(), sweep=(("seed", "1..30"),)).cost
    assert one is not None and many is not None
    assert many.amount == pytest.approx(30 * one.amount)
    assert many.note.startswith("30 runs x ")


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ([("rate", "1,2")], "--sweep rate: train has no parameter 'rate'"),
        ([("seeds", "1,2")], "did you mean"),
        ([("seed", "1,x")], "'x' is not a whole number"),
        ([("augment", "maybe")], "'maybe' is not true or false"),
        ([("decay", "linear")], "'linear' is not one of none, cosine"),
        ([("seed", "")], "a value is empty"),
        ([("seed", "1,,2")], "a value is empty"),
        ([("seed", "1,2,")], "a value is empty"),
        ([("note", ",a")], "a value is empty"),
        ([("note", '"a')], "a quotation mark is missing"),
        ([("note", '"a"b')], "a quotation mark is missing"),
        ([("seed", "1,2,1")], "'1' is listed twice"),
        ([("seed", "1..5,3")], "'3' is listed twice"),
        ([("learning_rate", "0.1,1e-1")], "'0.1' is listed twice"),
        ([("seed", "3..1")], "3..1 ends before it begins"),
        ([("seed", "1..999999999999")], "at most 100000 are allowed"),
        ([("seed", "1..1000"), ("learning_rate", "1..1000")], "1000 x 1000 = 1000000 runs"),
        ([("seed", "1,2"), ("seed", "3")], "is named twice"),
    ],
)
def test_what_cannot_be_swept_is_refused(sweep: list[tuple[str, str]], said: str) -> None:
    assert said in "\n".join(map(str, refused(job=tune(), sweep=tuple(sweep))))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": (("seed", "3"),)}, "is swept and set as well"),
        ({"site": a_desk()}, "desk has no scheduler, and therefore no job arrays"),
        ({"sbatch": ("--array=1-4",)}, "hpclaunch itself writes --array"),
        ({"job": a_job(), "sweep": (("a b", "1"),)}, "'a b' cannot be the name of an option"),
        ({"launcher": "horovodrun", "nodes": 2, "tasks_per_node": 1}, "reads one list of hosts"),
        ({"job": tune(command=("x", "{run_dir}/y"))}, "the job's command contains {run_dir}"),
    ],
)
def test_where_an_array_cannot_be(changes: dict[str, Any], said: str) -> None:
    asked = {"site": a_site(), "job": tune(), "sweep": (("seed", "1,2"),), **changes}
    assert said in "\n".join(map(str, refused(**asked)))


def test_so_many_at_once_are_for_a_sweep() -> None:
    assert "--at-once needs a sweep" in str(refused(job=tune(), at_once=3)[0])


def test_where_the_site_requeues_nothing_no_run_submits_a_successor_of_its_own() -> None:
    spec = planned(a_site(restart="resubmit"), tune(restarts=3), sweep=(("seed", "1,2"),))
    assert (spec.restarts.by, spec.restarts.most) == ("none", 3)
    assert any("cannot requeue jobs" in warning for warning in spec.warnings)
