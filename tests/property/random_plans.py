"""Random jobs at random sites, and what must hold for the plan of each.

``python -m tests.property.random_plans --plans 5000`` tries as many as are wanted, and prints what does not hold.
"""

from __future__ import annotations

import argparse
import math
import random
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hpclaunch.actions.requesting import typed_times
from hpclaunch.config.catalog import SITE
from hpclaunch.config.job import Job, Training
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Refused
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import TASKS
from hpclaunch.planner.forecasting import forecast
from hpclaunch.planner.job.question import Question
from hpclaunch.planner.job.workload import stored_figures
from hpclaunch.planner.values import Forecast, PlanRow
from hpclaunch.resolve.program.recipes import as_typed, sized
from tests.builders import BUNDLED, a_case, a_context, a_job, bundled_job, bundled_site

SITES = [
    site
    for site in (bundled_site(found.name) for found in BUNDLED.names(SITE))
    if site.status == "production" and site.scheduler != "local"
]
OWN_JOBS = {name: bundled_job(name) for name in ("cifar", "resnet50", "cosmoflow", "ddp", "mnist", "transformer")}
OPTIONAL: dict[str, Parameter] = {
    "accumulation": Parameter(default=1),
    "steps": Parameter(default=0),
    "scale_learning_rate": Parameter(default="none", choices=("none", "linear", "sqrt", "power23", "adascale")),
    "warmup_epochs": Parameter(default=0.0),
    "decay": Parameter(default="constant"),
    "precision": Parameter(default="float32"),
    "recompute": Parameter(default=False),
    "shard_optimizer": Parameter(default=False),
}
SAME = 1e-6


@dataclass(frozen=True)
class Asked:
    """One plan that is asked for, as a command line has it."""

    job: Job
    site: str
    request: dict[str, Any]
    objective: Objective = field(default_factory=Objective)
    global_batch: int | None = None

    def plan(self, **changes: Any) -> Forecast | None:
        """The plan; None where the site accepts the request with no node count."""
        request = {**self.request, **changes.pop("request", {})}
        asked = replace(self, **changes)
        context = a_context(environment={"SCRATCH": "/scratch/ada"})
        case = a_case(bundled_site(asked.site), asked.job, context=context, target=asked.job.name, **request)
        case = as_typed(sized(case))
        question = Question(
            case=case,
            figures=stored_figures(case.job),
            objective=asked.objective,
            global_batch=asked.global_batch,
        )
        try:
            return forecast(question)
        except Refused:
            return None


def _log_uniform(dice: random.Random, low: float, high: float) -> float:
    return math.exp(dice.uniform(math.log(low), math.log(high)))


def _random_job(dice: random.Random) -> Job:
    """A job that nobody wrote: a model, a data set, a batch, and some of the parameters that jobs have."""
    parameters = round(_log_uniform(dice, 1e4, 3e9))
    figures = {
        "parameters": parameters,
        "flops_per_sample": parameters * _log_uniform(dice, 2, 2000),
        "saved_bytes_per_sample": _log_uniform(dice, 1e3, 5e8),
        "largest_layer": parameters // dice.choice([2, 5, 20]),
    }
    if dice.random() < 0.5:
        figures["operations"] = dice.randint(50, 5000)
    optimizer = dice.choice(["sgd", "adam", "adamw", "lamb", "lars"])
    per_rank = dice.choice([1, 4, 16, 32, 50, 64, 256])
    rows = {
        "epochs": Parameter(default=dice.choice([1, 2, 12, 50, 90, 300])),
        "batch_size_per_rank": Parameter(default=per_rank),
        "learning_rate": Parameter(default=_log_uniform(dice, 1e-5, 1.0)),
        "optimizer": Parameter(default=optimizer),
        **{name: row for name, row in OPTIONAL.items() if dice.random() < 0.5},
    }
    training = Training(
        figures=figures,
        samples=round(_log_uniform(dice, 200, 3e8)),
        sample_bytes=dice.choice([None, 400, 3000, 110_000, 10**7]),
        task=dice.choice([None, None, *TASKS]),
        base_batch=dice.choice([None, per_rank, 8 * per_rank]),
        names={"steps": "steps"} if "steps" in rows else {},
    )
    return a_job(parameters=rows, training=training, restarts=dice.choice([0, 50]))


def random_plan(seed: int) -> Asked:
    """The plan of a seed."""
    dice = random.Random(seed)
    own = dice.random() < 0.3
    job = dice.choice(list(OWN_JOBS.values())) if own else _random_job(dice)
    settings: dict[str, str] = {}
    if dice.random() < 0.2:
        settings["epochs"] = str(dice.choice([1, 3, 20]))
    if dice.random() < 0.2:
        settings["batch_size_per_rank"] = str(dice.choice([1, 7, 32, 100]))
    if dice.random() < 0.2:
        settings["learning_rate"] = dice.choice(["0.1", "0.003"])
    request: dict[str, Any] = {
        "settings": tuple((name, text) for name, text in settings.items() if name in job.parameters),
        "accept_unverified": True,
    }
    if dice.random() < 0.3:
        request["nodes"] = dice.choice([1, 2, 3, 8, 40])
    if job.recipes and dice.random() < 0.5:
        request["recipe"] = dice.choice(sorted(job.recipes))
    batch = dice.choice([None, None, None, 64, 512, 1000]) if "batch_size_per_rank" not in settings else None
    objective = Objective(weight=dice.choice([0.5, 0.5, 0.2, 0.8]))
    return Asked(job=job, site=dice.choice(SITES).name, request=request, objective=objective, global_batch=batch)


def _run(plan: Forecast | None) -> PlanRow | None:
    """The chosen row of a plan that may be followed, if its time is known."""
    if plan is None or not plan.feasible or plan.chosen is None or plan.chosen.candidate is None:
        return None
    return plan.chosen


def _unequal_epochs(asked: Asked, plan: Forecast, row: PlanRow) -> Iterator[str]:
    """Epochs that are printed, priced and set must be the same."""
    assert row.candidate is not None and row.batch is not None
    priced = row.candidate.epochs.middle
    if plan.program is not None or plan.recipe is None:
        return
    if abs(plan.recipe.epochs - priced) > SAME * priced:
        yield f"epochs: printed {plan.recipe.epochs}, priced {priced}"
    values = {name: str(parameter.default) for name, parameter in asked.job.parameters.items()}
    values |= dict(asked.request["settings"]) | dict(plan.settings)
    if asked.request.get("recipe") is not None or not asked.job.training:
        return  # a recipe's epochs are not in the command, but in its name
    samples = plan.efficiency.samples if plan.efficiency else asked.job.training.samples
    if "steps" in dict(plan.settings):
        made = int(values["steps"]) * row.batch.total / samples
    else:
        made = float(values.get("epochs", 1))
    if abs(made - priced) > SAME * priced:
        yield f"epochs: set {made}, priced {priced}"


def _other_plan_of_its_command(asked: Asked, plan: Forecast, row: PlanRow) -> Iterator[str]:
    """The plan's own command, typed, must give the same plan."""
    if plan.program is not None or not plan.command:
        return  # the command of a program of one's own is not this job's
    request: dict[str, Any] = {"settings": ()}
    words = iter(shlex.split(plan.command)[3:])
    for flag in words:
        name = flag.removeprefix("--").replace("-", "_")
        if flag == "--accept-unverified":
            request[name] = True
        elif flag == "--set":
            request["settings"] += (tuple(next(words).split("=", 1)),)
        elif name in ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node"):
            request[name] = int(next(words))
        elif flag == "--walltime":
            request[name] = typed_times.seconds_of(next(words))
        else:
            request[name] = next(words)
    request.pop("site", None)
    again = replace(asked, request=request, global_batch=None, objective=asked.objective).plan()
    same = again.chosen if again is not None else None
    if again is None or same is None or same.candidate is None or same.batch is None:
        yield f"its command gives no plan: {plan.command}"
        return
    yield from _unequal_plans(plan, again, row, same)


def _unequal_plans(plan: Forecast, again: Forecast, row: PlanRow, same: PlanRow) -> Iterator[str]:
    """What differs between a plan and that of its command, and between their chosen rows."""
    assert row.candidate is not None and row.batch is not None
    assert same.candidate is not None and same.batch is not None
    pairs = {
        "ranks": (row.ranks, same.ranks),
        "batch": (row.batch.total, same.batch.total),
        "epochs": (row.candidate.epochs.middle, same.candidate.epochs.middle),
        "time": (row.candidate.time_s.middle, same.candidate.time_s.middle),
        "cost": (row.candidate.cost.middle, same.candidate.cost.middle),
        "rate": (_rate(plan), _rate(again)),
        **{f"{end} end of the rate": _rate_ends(plan, again, end) for end in ("low", "high")},
    }
    for name, (one, other) in pairs.items():
        if abs(one - other) > 1e-3 * abs(one):
            yield f"{name}: {one} is planned, and its command gives {other}: {plan.command}"

    told, retold = ({text for text in found.warnings if "learning rate" in text} for found in (plan, again))
    if told != retold:
        yield f"warnings of the rate: {sorted(told)}, and of its command {sorted(retold)}: {plan.command}"


def _rate_ends(plan: Forecast, again: Forecast, end: str) -> tuple[float, float]:
    """One end of the rate's range in both plans; 0 where there is none."""
    lines = [next(line for line in found.headlines if line.name == "rate") for found in (plan, again)]
    one, other = (getattr(line, end) or 0.0 for line in lines)
    return one, other


def _rate(plan: Forecast) -> float:
    recipe = plan.recipe
    if recipe is None or recipe.rate is None:
        return 0.0
    return recipe.other_rate or recipe.rate.scaled


def _dominated(asked: Asked, plan: Forecast, row: PlanRow, dice: random.Random) -> Iterator[str]:
    """No typed alternative may be better in time and in cost by more than the printed range.

    A batch above the plan's bound is none: its epochs are not known.
    With typed nodes the job's own batch and every rank are kept, as a person expects; then a note must name what is
    better. The number format is the job's own; a faster one must be named as well.
    """
    if plan.program is not None:
        alternatives = [{"nodes": dice.choice([16, 64, 128, 256])} for _ in range(2)]
    else:
        alternatives = [_alternative(asked, dice) for _ in range(4)]
    assert row.candidate is not None
    time, cost = row.candidate.time_s, row.candidate.cost
    bound = plan.efficiency.bound if plan.efficiency else 0
    for request in alternatives:
        if not request:
            continue
        found = asked.plan(request=request)
        other = _run(found)
        if other is None or other.candidate is None or other.batch is None:
            continue
        if plan.program is None and other.batch.total > max(bound, other.batch.replicas):
            continue
        if any(note.startswith("typed nodes ") for note in plan.notes):
            continue
        if any(f"--set precision={text}" in plan.precision_words for text in _typed_beyond(asked, request)):
            continue
        if other.candidate.time_s.middle < time.low and other.candidate.cost.middle < cost.low:
            yield (
                f"{request} makes {other.candidate.time_s.middle:.4g} s and {other.candidate.cost.middle:.4g},"
                f" the plan {time.low:.4g} to {time.high:.4g} s and {cost.low:.4g} to {cost.high:.4g}"
            )


def _typed_beyond(asked: Asked, request: dict[str, Any]) -> list[str]:
    """The number format that an alternative has and the plan's request has not."""
    typed = set(request.get("settings", ())) - set(asked.request["settings"])
    return [text for name, text in typed if name == "precision"]


def _alternative(asked: Asked, dice: random.Random) -> dict[str, Any]:
    """What a person could type beside what was typed already."""
    request: dict[str, Any] = {}
    settings = dict(asked.request["settings"])
    if dice.random() < 0.4:
        request["tasks_per_node"] = dice.choice([1, 1, 2, 4, 8])
    if "precision" in asked.job.parameters and "precision" not in settings and dice.random() < 0.3:
        settings["precision"] = "bfloat16"
        request["settings"] = tuple(settings.items())
    if "nodes" not in asked.request:
        request["nodes"] = dice.choice([1, 1, 2, 3, 4, 8, 16, 32, 48, 64, 100])
    is_free = asked.global_batch is None and asked.request.get("recipe") is None
    if is_free and "batch_size_per_rank" not in settings:
        settings["batch_size_per_rank"] = str(dice.choice([1, 2, 8, 32, 64, 128, 512, 1024]))
        if "accumulation" in asked.job.parameters and dice.random() < 0.3:
            settings["accumulation"] = str(dice.choice([2, 4]))
        request["settings"] = tuple(settings.items())
    return request


def _less_for_more(asked: Asked, plan: Forecast, row: PlanRow) -> Iterator[str]:
    """More budget must not give a slower run, nor a later deadline a dearer one."""
    assert row.candidate is not None
    done, cost = row.candidate.done_s, row.candidate.cost.middle
    for name, values in (("deadline_s", (done / 3, done, done * 3)), ("budget", (cost / 3, cost, cost * 3))):
        before: PlanRow | None = None
        for value in values:
            found = _run(asked.plan(objective=replace(asked.objective, **{name: value})))
            if before is not None and found is None:
                yield f"{name} {value:.6g} is refused, and a third of it is not"
            if before is not None and found is not None:
                assert before.candidate is not None and found.candidate is not None
                got, had = (
                    (each.candidate.cost.middle if name == "deadline_s" else each.candidate.done_s)
                    for each in (found, before)
                )
                if got > had * (1 + 1e-3):
                    yield f"{name} {value:.6g} gives {got:.6g}, and a third of it {had:.6g}"
            before = found or before


def faults_of(seed: int) -> tuple[str, list[str]]:
    """What became of the plan of a seed, in a word, and everything that does not hold for it."""
    asked, dice = random_plan(seed), random.Random(-seed - 1)
    plan = asked.plan()
    if plan is None:
        return "refused by the site", []
    row = _run(plan)
    if row is None:
        return "no recommendation" if not plan.feasible else "speed not known", []
    found = [*_unequal_epochs(asked, plan, row), *_other_plan_of_its_command(asked, plan, row)]
    found += [*_dominated(asked, plan, row, dice), *_less_for_more(asked, plan, row)]
    return "planned", found


def main() -> None:
    """Try many plans, and print every seed for which something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    ended: Counter[str] = Counter()
    bad = 0
    for seed in range(asked.first, asked.first + asked.plans):
        try:
            word, faults = faults_of(seed)
        except Exception as error:
            word, faults = "exception", [f"{type(error).__name__}: {error}"]
        ended[word] += 1
        bad += bool(faults)
        for fault in faults:
            print(f"seed {seed}: {fault}", flush=True)
        tried = sum(ended.values())
        if tried % 100 == 0 or tried == asked.plans:
            words = ", ".join(f"{number} {word}" for word, number in ended.most_common())
            print(f"{tried} plans: {words}; {bad} with a fault", flush=True)


if __name__ == "__main__":
    main()
