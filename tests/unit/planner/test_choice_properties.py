"""What holds for every job and site: batches rise with ranks, typed values stay, efficiency and warm-up have limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.config.job import Job
from hpclaunch.core.errors import Refused
from hpclaunch.guidelines.batch import KnownBatches, bound_of
from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.efficiency import TASKS, NoiseScale
from hpclaunch.guidelines.published import published_for
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.values import Forecast
from tests.unit.planner.questions import a_trained_job, plan_of

MOST_EFFICIENCY = 1.05
SITES = ("perlmutter", "lumi", "delta", "expanse", "bridges2", "leonardo_booster", "marconi100", "frontera")

models = st.fixed_dictionaries(
    {
        "parameters": st.floats(1e4, 2e9),
        "flops_per_sample": st.floats(1e4, 1e12),
        "saved_bytes_per_sample": st.floats(1e3, 5e8),
        "largest_layer": st.just(1e4),
    }
)
data = st.fixed_dictionaries(
    {
        "samples": st.integers(2, 10**10),
        "sample_bytes": st.sampled_from([None, 100, 10**5, 10**8]),
        "task": st.sampled_from([None, *TASKS]),
    }
)
noises = st.none() | st.floats(20, 1e6).map(lambda value: NoiseScale(value=value, low=value, high=value, steps=5000))


def a_job_of(model: dict[str, float], facts: dict[str, Any], optimizer: str) -> Job:
    job = a_trained_job(model, **facts)
    parameter = replace(job.parameters["optimizer"], default=optimizer)
    return replace(job, parameters={**job.parameters, "optimizer": parameter})


def planned(job: Job, **typed: Any) -> Forecast | None:
    try:
        return plan_of(job, **typed)
    except Refused:
        return None


def check_limits(plan: Forecast) -> None:
    """The limits of every row and of the recipe."""
    batches = [row.batch for row in sorted(plan.rows, key=lambda row: row.ranks) if row.batch]
    for fewer, more in pairwise(batches):  # up to what is lost where a batch is shared out
        assert more.total > fewer.total - more.replicas * more.accumulation
    for row in plan.rows:
        assert row.marginal is None or row.marginal <= 1
        assert row.throughput is None or row.throughput.efficiency <= MOST_EFFICIENCY
    assert float(dict(plan.settings).get("warmup_epochs", 0)) <= 10


def check_gains(plan: Forecast) -> None:
    """More ranks gain no more than their number; only a data set that is too large for few nodes may differ."""
    runs = [row.candidate for row in sorted(plan.rows, key=lambda row: row.ranks) if row.candidate]
    for smaller, larger in pairwise(runs):
        assert smaller.time_s.middle / larger.time_s.middle <= MOST_EFFICIENCY * larger.ranks / smaller.ranks


@given(
    model=models,
    facts=data,
    optimizer=st.sampled_from(["sgd", "adam", "lamb"]),
    site=st.sampled_from(SITES),
    noise=noises,
    weight=st.floats(0.1, 0.9),
)
def test_a_chosen_plan_keeps_its_limits(
    model: dict[str, float],
    facts: dict[str, Any],
    optimizer: str,
    site: str,
    noise: NoiseScale | None,
    weight: float,
) -> None:
    job = a_job_of(model, facts, optimizer)
    plan = planned(job, site=site, evidence=Evidence(noise=noise), objective=Objective(weight=weight))
    if plan is None:
        return
    check_limits(plan)
    if facts["sample_bytes"] is not None and facts["samples"] * facts["sample_bytes"] < 1e10:
        check_gains(plan)
    own = KnownBatches(tuned=256, published=published_for(facts["task"], optimizer), noise=noise)
    known = own if own.published and own.published.same_epochs else replace(own, published=None)
    bound = bound_of(facts["samples"], known).batch
    for row in plan.rows:
        # Where the bound is below one sample per replica, each replica gets one.
        assert row.batch is None or row.batch.total <= max(bound, row.batch.replicas)
    if plan.chosen is not None and plan.chosen.batch is not None and plan.chosen.batch.total <= bound:
        assert "optimizer" not in dict(plan.settings)


@given(
    model=models,
    facts=data,
    optimizer=st.sampled_from(["sgd", "adam"]),
    nodes=st.sampled_from([None, 1, 2, 7, 64]),
    per_rank=st.sampled_from([None, 1, 48, 1000]),
    typed=st.dictionaries(
        st.sampled_from(["epochs", "learning_rate", "optimizer", "warmup_epochs", "decay"]), st.just(""), max_size=5
    ),
)
def test_typed_values_are_never_overruled(
    model: dict[str, float],
    facts: dict[str, Any],
    optimizer: str,
    nodes: int | None,
    per_rank: int | None,
    typed: dict[str, str],
) -> None:
    values = {"epochs": "17", "learning_rate": "0.3", "optimizer": "sgd", "warmup_epochs": "3", "decay": "step"}
    asked = {name: values[name] for name in typed} | ({"batch_size_per_rank": str(per_rank)} if per_rank else {})
    plan = planned(a_job_of(model, facts, optimizer), nodes=nodes, settings=tuple(asked.items()))
    if plan is None:
        return
    check_limits(plan)
    assert not set(asked) & set(dict(plan.settings))
    for row in plan.rows:
        if row.batch is None:
            continue
        own = per_rank or (256 if nodes else None)  # the job's own batch per rank stays with typed nodes
        assert own is None or row.batch.per_rank * row.batch.accumulation == own
        epochs = row.candidate.epochs.middle if row.candidate else 17
        assert "epochs" not in typed or abs(epochs - 17) < 1e-9
    if nodes is not None and plan.feasible:
        assert plan.nodes == nodes
