"""Recipes at a desk: what submit says and sets, what the record holds, and what a resumed run keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Desk

JOB = """
summary: trains
script: train.py
parameters: {from: samples, epochs: 12, batch_size_per_rank: 64}
training: {samples: 50000, task: cifar-10, base_batch: 64}
recipes:
  careful:
    summary: a small rate
    global_batch: 512
    source: our own run 17
    settings: {learning_rate: 0.0001, decay: constant, warmup_epochs: 3}
"""
EIGHT = ("--nodes", "4", "--tasks-per-node", "2")


@pytest.fixture
def desk_with_job(cluster: Desk) -> Desk:
    cluster.write("jobs/fit/job.yaml", JOB)
    cluster.write("jobs/fit/train.py", "print('hello')\n")
    return cluster


def spec_of(run: Path) -> Any:
    return json.loads((run / "spec.json").read_text())


def parameters(run: Path) -> dict[str, str]:
    return dict(spec_of(run)["parameters"])


def submitted(desk: Desk, *words: str) -> Path:
    done = desk.type("submit", "fit", *words)
    assert done.code == 0, done.err
    return Path(done.out.strip())


def test_submit_says_what_it_sets_and_why_and_the_record_holds_it(desk_with_job: Desk) -> None:
    done = desk_with_job.type("submit", "fit", *EIGHT, "-v")
    first = next(number for number, line in enumerate(done.err.splitlines()) if line.startswith("  recipe plan"))
    words = [line.strip() for line in done.err.splitlines()[first : first + 4]]
    assert words[0] == "recipe plan     B = 512 = 8 ranks x 64 samples; sqrt(N) = 224, B_crit = 900"
    assert "0.002828 = 0.001 x 2.828 (sqrt scaling), 2 epochs of warm-up, cosine decay, epochs: 12" in words[2]
    assert words[3].startswith("set: scale_learning_rate=sqrt warmup_epochs=2 decay=cosine")
    assert "is above" not in done.err  # this project measured up to 4096 samples in the same epochs
    run = Path(done.out.strip())
    assert parameters(run)["decay"] == "cosine"
    assert "--default=decay=cosine" in (run / "job.sh").read_text()
    recipe = spec_of(run)["recipe"]
    assert (recipe["name"], recipe["global_batch"], recipe["typed"]) == ("plan", 512, [])
    assert ["decay", "cosine"] in recipe["applied"]
    shown = desk_with_job.type("runs", "show", run.name).out
    assert "recipe\tplan; B = 512" in shown


def test_submit_render_and_dry_run_have_the_recipe_as_json(desk_with_job: Desk) -> None:
    assert desk_with_job.type("submit", "fit", *EIGHT, "--json").json["recipe"]["global_batch"] == 512
    dry = desk_with_job.type("submit", "fit", *EIGHT, "--dry-run", "--json").json["spec"]["recipe"]
    rendered = desk_with_job.type("render", "fit", *EIGHT, "--json").json["spec"]["recipe"]
    assert dry == rendered and dry["name"] == "plan"


def test_what_is_typed_stands_above_a_named_recipe_and_is_recorded_beside_it(desk_with_job: Desk) -> None:
    run = submitted(desk_with_job, *EIGHT, "--recipe", "careful", "--set", "decay=cosine")
    found = parameters(run)
    assert (found["decay"], found["learning_rate"], found["warmup_epochs"]) == ("cosine", "0.0001", "3.0")
    recipe = spec_of(run)["recipe"]
    assert recipe["typed"] == [["decay", "cosine"]] and ["decay", "constant"] in recipe["advised"]
    assert "typed instead\tdecay=cosine" in desk_with_job.type("runs", "show", run.name).out


def test_a_recipe_that_was_measured_at_another_batch_is_told(desk_with_job: Desk) -> None:
    done = desk_with_job.type("submit", "fit", "--nodes", "2", "--recipe", "careful", "--dry-run", "-v")
    assert "the recipe careful is for B = 512" in done.err
    assert "a small rate; for B = 512" in done.err


def test_the_job_file_as_it_is_says_and_sets_nothing(desk_with_job: Desk) -> None:
    done = desk_with_job.type("submit", "fit", *EIGHT, "--recipe", "job", "--dry-run")
    assert done.code == 0
    assert "recipe" not in done.err and "--default=decay" not in done.out


def test_recipes_are_listed_and_a_wrong_name_is_refused_with_them(desk_with_job: Desk) -> None:
    shown = desk_with_job.type("jobs", "show", "fit").out
    assert "--recipe plan, job, careful" in shown
    assert "  careful: a small rate, for B = 512 (our own run 17)" in shown
    done = desk_with_job.type("submit", "fit", "--nodes", "2", "--recipe", "carefull", "--json")
    assert done.code == 1
    (fault,) = done.json["faults"]
    assert fault == {
        "what": "fit has no recipe 'carefull'; did you mean 'careful'?",
        "where": "--recipe",
        "allowed": "plan, job, careful",
        "next": "hpclaunch jobs show fit",
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("learning_rat: 0.1", ["recipes.careful.settings.learning_rat", "did you mean 'learning_rate'?"]),
        ("learning_rate: -1", ["recipes.careful.settings.learning_rate", "is not a number that is above 0"]),
        ("optimizer: falling", ["recipes.careful.settings.optimizer", "is not one of adam, adamw"]),
    ],
)
def test_a_wrong_setting_of_a_recipe_is_refused_with_its_place(
    desk_with_job: Desk, wrong: str, words: list[str]
) -> None:
    desk_with_job.write("jobs/fit/job.yaml", JOB.replace("learning_rate: 0.0001", wrong))
    done = desk_with_job.type("submit", "fit", "--dry-run")
    assert done.code == 1
    assert done.err.count("error: ") == 1
    assert all(word in done.err for word in words)


def test_a_recipe_may_not_take_a_name_that_every_job_has(desk_with_job: Desk) -> None:
    desk_with_job.write("jobs/fit/job.yaml", JOB.replace("careful:", "plan:"))
    assert "recipes.plan: every job has a recipe of the name 'plan'" in desk_with_job.type("jobs", "show", "fit").err


def test_every_run_of_a_sweep_gets_the_recipe_of_its_own_batch(desk_with_job: Desk) -> None:
    run = submitted(desk_with_job, *EIGHT, "--sweep", "batch_size_per_rank=64,512", "--sweep", "seed=1,2")
    lines = (run / "values").read_text().splitlines()
    assert [line.split("\t")[1:3] for line in lines] == [
        ["--batch-size-per-rank=64", "--seed=1"],
        ["--batch-size-per-rank=64", "--seed=2"],
        ["--batch-size-per-rank=512", "--seed=1"],
        ["--batch-size-per-rank=512", "--seed=2"],
    ]
    assert "--default=scale-learning-rate=sqrt" in lines[0] and lines[0].split("\t")[3:] == lines[1].split("\t")[3:]
    assert lines[0].split("\t")[3:] != lines[2].split("\t")[3:]
    for number, batch in ((0, "64"), (2, "512")):
        alone = submitted(desk_with_job, *EIGHT, "--set", f"batch_size_per_rank={batch}", "--set", "seed=1")
        own = dict(
            word.removeprefix("--default=").removeprefix("--").split("=") for word in lines[number].split("\t")[1:]
        )
        known = {**parameters(run), **{name.replace("-", "_"): text for name, text in own.items()}}
        assert known == parameters(alone)


def ended(desk: Desk, *words: str) -> Path:
    """A run that was submitted so, and has failed."""
    run = submitted(desk, *words)
    desk.fake("sacct", out="4711|FAILED|1:0|node-1\n")
    desk.fake("squeue")
    assert "FAILED" in desk.type("status", run.name).out
    desk.fake("sbatch", out="Submitted batch job 4712\n")
    return run


def test_a_resumed_run_keeps_batch_optimizer_schedule_and_rate_on_other_nodes(desk_with_job: Desk) -> None:
    run = ended(desk_with_job, *EIGHT, "--set", "batch_size_per_rank=128", "--set", "epochs=30")
    before = parameters(run)
    done = desk_with_job.type("resume", run.name, "--nodes", "2")
    assert done.code == 0, done.err
    assert "world size 4 instead of 8: the global batch stays B = 1024 = 4 ranks x 128 samples x 2 micro-b" in done.err
    after = parameters(run)
    assert {name for name in before if before[name] != after[name]} == {"accumulation"}
    assert "#SBATCH --nodes=2" in (run / "job.sh").read_text()
    desk_with_job.fake("sacct", out="4712|FAILED|1:0|node-1\n")
    desk_with_job.type("status", run.name)
    desk_with_job.fake("sbatch", out="Submitted batch job 4713\n")
    assert desk_with_job.type("resume", run.name, "--nodes", "4").code == 0
    assert parameters(run) == before, "back on the first nodes"


def test_a_resume_on_nodes_that_cannot_share_the_batch_names_the_next(desk_with_job: Desk) -> None:
    run = ended(desk_with_job, *EIGHT)
    done = desk_with_job.type("resume", run.name, "--nodes", "3")
    assert done.code == 1
    assert "512 does not divide among 6 ranks; allowed: --nodes 2 or --nodes 4" in done.err
    assert spec_of(run)["layout"]["nodes"] == 4, "nothing was written"


def test_a_resume_with_a_new_recipe_says_so(desk_with_job: Desk) -> None:
    run = ended(desk_with_job, *EIGHT, "--recipe", "careful")
    done = desk_with_job.type("resume", run.name, "--nodes", "2", "--recipe", "plan")
    assert done.code == 0, done.err
    assert "a new recipe, plan (B = 256 = 4 ranks x 64 samples" in done.err
    assert "decay=cosine instead of constant" in done.err
    assert spec_of(run)["recipe"]["name"] == "plan"


def test_a_new_recipe_with_another_optimizer_is_refused_where_there_are_checkpoints(desk_with_job: Desk) -> None:
    careful = JOB.replace("decay: constant", "optimizer: lamb")
    desk_with_job.write("jobs/fit/job.yaml", careful)
    run = ended(desk_with_job, *EIGHT, "--recipe", "careful")
    (run / "checkpoints/step-00000001").mkdir()
    done = desk_with_job.type("resume", run.name, "--recipe", "plan")
    assert done.code == 1
    assert "its checkpoints hold the state of lamb, but this recipe has optimizer=adam" in done.err


def test_a_resume_for_more_time_changes_no_parameter(desk_with_job: Desk) -> None:
    run = ended(desk_with_job, *EIGHT)
    before = parameters(run)
    done = desk_with_job.type("resume", run.name, "--walltime", "00:20:00")
    assert done.code == 0, done.err
    assert parameters(run) == before
    assert spec_of(run)["recipe"]["name"] == "plan"


def test_the_rate_of_a_recipe_follows_the_batch_from_that_of_the_recipe(desk_with_job: Desk) -> None:
    """It was kept as if it had been typed, whatever the batch was."""
    assert float(parameters(submitted(desk_with_job, "--recipe", "careful", *EIGHT))["learning_rate"]) == 0.0001
    half = submitted(desk_with_job, "--recipe", "careful", "--nodes", "2", "--tasks-per-node", "2")
    assert parameters(half)["learning_rate"] == "7.071e-05"
    typed = desk_with_job.type(
        "submit", "fit", "--recipe", "careful", "--nodes", "2", "--tasks-per-node", "2", "--set", "learning_rate=0.0001"
    )
    assert "learning_rate=0.0001 (advised: 7.071e-05)" in typed.err


def test_a_typed_rate_is_kept_even_if_it_is_that_of_the_recipe(desk: Desk) -> None:
    """The script had the typed rate, and the summary another: the rate counted as that of the recipe."""
    asked = ("transformer", "--site", "lumi", "--recipe", "gpt-2b", "--nodes", "4", "--set", "learning_rate=0.00016")
    plan = desk.type("plan", *asked).out
    assert "learning rate kept as typed: 0.00016" in plan and plan.count("--set learning_rate=") == 1
    submit = ("submit", *asked, "--account", "project_1", "--runs-dir", "/scratch/project_1", "--dry-run", "-v")
    rendered = desk.type(*submit)
    assert "--learning-rate=0.00016" in rendered.out
    told = rendered.out + rendered.err
    assert "learning rate 0.00016 (by the rule:" in told and "learning_rate=0.00016 (advised: 2.828e-05)" in told


def test_a_plan_sets_the_rate_of_its_batch_and_none_of_another_optimizer(desk: Desk) -> None:
    scaled = desk.type("plan", "transformer", "--site", "lumi", "--recipe", "gpt-2b").out
    assert "rate   1.41e-05, adamw" in scaled and "--set learning_rate=1.414e-05" in scaled  # 0.00016 sqrt(8 / 1024)
    assert "kept as typed" not in scaled
    other = " ".join(
        desk.type("plan", "cifar", "--site", "perlmutter", "--recipe", "notebook", "--set", "optimizer=sgd").out.split()
    )
    assert "rate not known" in other
    assert "the recipe's learning_rate=0.001 was tuned for lamb, not for sgd" in other
