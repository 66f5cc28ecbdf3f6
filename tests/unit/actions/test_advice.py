"""What a submission takes from the planner: the same as a plan proposes, under what was typed, swept or named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.actions.preparing.advice import advised
from hpclaunch.config.job import Job, NamedRecipe
from hpclaunch.config.parameters import Parameter, spell
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import JobSpec
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.workload import divided_batch, stored_figures
from hpclaunch.resolve import resolve, spec_of
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.program.recipes import as_typed
from hpclaunch.runs.sweep_values import values_at, write_values
from tests.builders import a_case, a_context, a_job, bundled_job, bundled_site
from tests.unit.planner.questions import a_trained_job

JOBS = ("chips", "cifar", "cosmoflow", "mnist", "resnet50", "transformer")
SITES = ("perlmutter", "frontera", "lumi", "local", "juwels_booster")


def case_of(job: Job | str = "cifar", site: str = "perlmutter", **typed: Any) -> Case:
    job = bundled_job(job) if isinstance(job, str) else job
    ours = bundled_site(site)
    queue = {"account": "m1", "accept_unverified": True} if ours.scheduler == "slurm" else {}
    context = a_context(environment={"SCRATCH": "/scratch/ada"})
    return a_case(ours, job, context=context, **{"target": job.name, **queue, **typed})


def submitted(job: Job | str = "cifar", site: str = "perlmutter", **typed: Any) -> JobSpec:
    return spec_of(advised(case_of(job, site, **typed)))


def values(spec: JobSpec, *names: str) -> tuple[str, ...]:
    return tuple(dict(spec.parameters)[name] for name in names)


@pytest.mark.parametrize("nodes", [None, 1, 4])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("name", JOBS)
def test_plan_and_submit_always_set_the_same_values(name: str, site: str, nodes: int | None) -> None:
    """A typed node count takes the light way in submit, and the forecast in plan: there is one decision, not two."""
    for settings in ((), (("batch_size_per_rank", "16"),), (("optimizer", "sgd"), ("epochs", "7"))):
        case = case_of(name, site, nodes=nodes, settings=settings)
        divided = divided_batch(case.job, case.request)
        try:
            question = Question(case=as_typed(case), figures=stored_figures(case.job), global_batch=divided)
            plan = forecast(question)  # as actions.plan does
        except Refused:
            assert resolve(advised(case))[1], "plan refuses what submit takes"
            continue
        spec, faults = resolve(advised(case))
        rows = case.job.parameters
        proposed = {key: spell(rows[key].parse(text)) for key, text in plan.settings}
        assert spec.recipe is not None
        assert dict(spec.recipe.applied).keys() == proposed.keys()
        assert {key: text for key, text in spec.parameters if key in proposed} == proposed
        assert bool(faults) == bool(plan.refusals), (faults, plan.refusals)
        if not faults:
            assert spec.layout.nodes == plan.nodes


def test_a_job_file_as_it_is_and_a_job_without_training_set_nothing() -> None:
    spec = submitted(nodes=4, recipe="job")
    assert spec.command[-1].endswith("/train.py") and not any("--default" in word for word in spec.command)
    assert spec.recipe is not None and (spec.recipe.name, spec.recipe.applied, spec.recipe.why) == ("job", (), ())
    assert spec_of(advised(case_of(a_job(), nodes=4))).recipe is None


def test_the_recipe_of_4096_is_the_one_that_the_study_measured() -> None:
    """docs/measurements.md, row `recommended`."""
    planned = submitted(nodes=2, tasks_per_node=4)
    names = ("optimizer", "scale_learning_rate", "learning_rate", "warmup_epochs", "decay", "epochs")
    assert values(planned, *names) == ("adam", "sqrt", "0.001", "2.0", "cosine", "12")
    assert planned.recipe is not None and planned.recipe.global_batch == 4096
    named = submitted(nodes=2, tasks_per_node=4, recipe="recommended")
    assert named.parameters == planned.parameters


def test_precedence_is_typed_then_swept_then_named_then_planned_then_the_job_file() -> None:
    typed = submitted(nodes=2, recipe="notebook", settings=(("decay", "step"), ("decay_epochs", "3")))
    assert values(typed, "decay", "optimizer", "warmup_epochs") == ("step", "lamb", "3.0")
    swept = submitted(nodes=2, recipe="notebook", sweep=(("optimizer", "adam,sgd"),))
    assert swept.sweep is not None and dict(swept.sweep.axes)["optimizer"] == ("adam", "sgd")
    assert not any("optimizer" in word for word in swept.command)
    partly = replace(bundled_job("cifar"), recipes={"short": NamedRecipe(summary="x", settings={"epochs": 3})})
    filled = submitted(partly, nodes=2, recipe="short")
    assert values(filled, "epochs", "decay", "seed") == ("3", "cosine", "1337")


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ((("warmup_steps", "50"),), "warmup_epochs"),
        ((("decay_epochs", "3,6"), ("decay", "step")), "decay"),
        ((("decay_factor", "0.5"), ("decay", "exponential")), "decay"),
        ((("scale_learning_rate", "adascale"),), "warmup_epochs"),
    ],
)
def test_a_typed_technique_is_not_given_a_value_that_its_program_refuses_beside_it(
    settings: tuple[tuple[str, str], ...], left_out: str
) -> None:
    recipe = submitted(nodes=4, settings=settings).recipe
    assert recipe is not None
    assert left_out not in dict(recipe.applied)


def test_what_is_typed_against_the_advice_is_one_warning_and_both_are_recorded() -> None:
    spec = submitted(nodes=4, settings=(("epochs", "1"), ("optimizer", "sgd"), ("seed", "7"), ("decay", "cosine")))
    (warning,) = [text for text in spec.warnings if "typed" in text]
    bound = "512 samples, the batch that the job's rate is for (sqrt(N) = 224, B_crit = 900)"  # nothing for sgd
    assert f"B = 8192 is above {bound}" in warning
    assert warning.endswith(
        "the job's learning_rate=0.001 was tuned for adam, not for sgd: choose one with --set learning_rate=…"
    )
    assert "epochs=1 (advised: 22), optimizer=sgd (advised: adam)" in warning
    assert "seed" not in warning and "decay" not in warning
    assert spec.recipe is not None
    assert dict(spec.recipe.typed) == {"epochs": "1", "optimizer": "sgd"}
    assert {"epochs": "22", "optimizer": "adam", "decay": "cosine"}.items() <= dict(spec.recipe.advised).items()
    choice = next(choice for choice in spec.choices if choice.key == "parameters.warmup_epochs")
    assert choice.origin == "recipe plan"


@pytest.mark.parametrize(("optimizer", "rate"), [("lars", "16.29"), ("lamb", "0.0025")])
def test_a_typed_optimizer_with_a_rate_of_its_own_does_not_get_that_of_adam(optimizer: str, rate: str) -> None:
    """A rate that was tuned for Adam would hardly move LARS's weights: 0.18 sqrt(8192) = 16.29."""
    spec = submitted(nodes=4, settings=(("optimizer", optimizer),))
    assert values(spec, "learning_rate", "scale_learning_rate", "decay") == (rate, "none", "polynomial")
    assert not any("was tuned for" in text for text in spec.warnings)
    kept = submitted(nodes=4, settings=(("optimizer", optimizer), ("learning_rate", "0.5")))
    assert values(kept, "learning_rate", "scale_learning_rate") == ("0.5", "none")


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ((("optimizer", "sgd"),), True),
        ((("optimizer", "larc"),), True),
        ((("optimizer", "adamw"),), False),
        ((("optimizer", "adam"),), False),
        ((("optimizer", "sgd"), ("learning_rate", "0.1")), False),
    ],
)
def test_a_rate_that_was_tuned_for_another_optimizer_is_warned_about(
    settings: tuple[tuple[str, str], ...], warned: bool
) -> None:
    spec = submitted(nodes=1, settings=settings)
    assert any("learning_rate=0.001 was tuned for adam" in text for text in spec.warnings) == warned


def test_a_value_that_the_job_does_not_take_is_not_set() -> None:
    job = a_trained_job()
    rows = {**job.parameters, "decay": Parameter(default="flat", choices=("flat", "step"))}
    spec = submitted(replace(job, parameters={**rows, "warmup_epochs": Parameter(default=0)}), nodes=4)
    assert values(spec, "decay", "warmup_epochs") == ("flat", "5")


def test_the_words_are_three_to_five_lines_with_batch_bounds_and_rule() -> None:
    for typed in ({"nodes": 4}, {}, {"nodes": 1, "recipe": "notebook"}, {"nodes": 1, "sweep": (("epochs", "1,2"),)}):
        recipe = submitted(**typed).recipe
        assert recipe is not None and 3 <= len(recipe.why) <= 5
        text = " ".join(recipe.why)
        assert "sqrt(N) = 224, B_crit = 900" in text
    assert "0.002828" in " ".join(submitted(nodes=2, tasks_per_node=4).recipe.why)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("axis", "name"),
    [
        (("batch_size_per_rank", "64,512,1024"), "warmup_epochs"),
        (("optimizer", "adam,sgd"), "scale_learning_rate"),
        (("epochs", "2,12"), "warmup_epochs"),
    ],
)
def test_every_run_of_a_sweep_has_what_submit_would_set_with_its_values(
    tmp_path: Any, axis: tuple[str, str], name: str
) -> None:
    spec = submitted(nodes=4, sweep=(("seed", "1,2"), axis, ("noise_scale", "true,false")))
    assert spec.sweep is not None and spec.sweep.followers is not None
    assert name in dict(spec.sweep.followers.values)
    write_values(tmp_path, spec.sweep)
    swept = axis[1].split(",")
    for number in range(spec.sweep.count):
        own = values_at(tmp_path, number)
        assert own[axis[0]] == swept[number // 2 % len(swept)]
        alone = submitted(nodes=4, settings=tuple((key, own[key]) for key in ("seed", axis[0], "noise_scale")))
        assert {**dict(spec.parameters), **own} == dict(alone.parameters)


@pytest.mark.parametrize("optimizer", ["adam", "lars"])
def test_swept_rates_are_scaled_and_a_typed_one_is_that_of_its_batch(optimizer: str) -> None:
    settings = (("optimizer", optimizer),)
    swept = submitted(nodes=4, settings=settings, sweep=(("learning_rate", "0.001,0.004"),))
    assert values(swept, "scale_learning_rate") == ("sqrt",)
    typed = submitted(nodes=4, settings=(*settings, ("learning_rate", "0.001")))
    assert values(typed, "scale_learning_rate") == ("none",)


def test_a_sweep_that_changes_no_recipe_has_one_for_all() -> None:
    spec = submitted(nodes=4, sweep=(("seed", "1..100"),))
    assert spec.sweep is not None and spec.sweep.followers is None
    assert "--default=decay=cosine" in spec.command


def test_a_program_that_knows_no_defaults_gets_a_followers_value_as_an_option(tmp_path: Any) -> None:
    spec = submitted(a_trained_job(), nodes=8, sweep=(("batch_size_per_rank", "16,1024"),))
    assert spec.sweep is not None
    write_values(tmp_path, spec.sweep)
    lines = (tmp_path / "values").read_text().splitlines()
    assert all("--default=" not in line for line in lines)
    assert values_at(tmp_path, 0).keys() == values_at(tmp_path, 1).keys() > {"batch_size_per_rank"}


@pytest.mark.parametrize(
    ("recipe", "job", "words"),
    [
        ("recomended", "cifar", ["cifar has no recipe 'recomended'; did you mean 'recommended'?", "jobs show cifar"]),
        ("fast", "mnist", ["mnist has no recipe 'fast'", "plan, job"]),
    ],
)
def test_an_unknown_recipe_is_refused_with_those_that_there_are(recipe: str, job: str, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        submitted(job, nodes=2, recipe=recipe)
    (fault,) = refused.value.faults
    assert fault.where == "--recipe"
    assert all(word in str(fault) for word in words)


def test_a_plan_for_a_job_without_training_is_refused_but_its_own_recipes_are_not() -> None:
    job = a_job(
        parameters={"lr": Parameter(default=0.1)}, recipes={"hot": NamedRecipe(summary="x", settings={"lr": 1.0})}
    )
    with pytest.raises(Refused, match="no 'training' section") as refused:
        submitted(job, nodes=2, recipe="plan")
    assert refused.value.faults[0].allowed == "job, hot"
    assert "--lr=1.0" in submitted(job, nodes=2, recipe="hot").command
    assert "--lr=0.1" in submitted(job, nodes=2).command


def test_a_batch_that_is_not_known_changes_nothing() -> None:
    job = a_trained_job()
    rows = {key: row for key, row in job.parameters.items() if key != "batch_size_per_rank"}
    spec = submitted(replace(job, parameters=rows), nodes=4)
    assert spec.recipe is not None and spec.recipe.applied == ()
    assert "global batch size is not known" in spec.recipe.why[0]
