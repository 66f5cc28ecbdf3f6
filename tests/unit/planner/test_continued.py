"""A run on another number of ranks keeps its global batch and its rate, or the ranks that could keep them are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.config.parameters import spell
from hpclaunch.core.errors import Refused
from hpclaunch.planner.job.continued import Kept, Worlds, kept_recipe
from tests.builders import bundled_job

FACTORS = {"none": 0.0, "linear": 1.0, "sqrt": 0.5, "power23": 2 / 3}


def parameters(job: str = "cifar", **changes: str) -> dict[str, str]:
    return {**{name: spell(row.default) for name, row in bundled_job(job).parameters.items()}, **changes}


def kept(before: int, replicas: int, nodes: int = 1, **changes: str) -> Kept:
    found = kept_recipe(bundled_job("cifar"), parameters(**changes), Worlds(before=before, now=replicas, nodes=nodes))
    assert found is not None
    return found


def test_fewer_ranks_accumulate_and_more_ranks_take_smaller_batches() -> None:
    fewer = kept(8, 4)
    assert dict(fewer.settings) == {"accumulation": "2"}
    assert "stays B = 4096 = 4 ranks x 512 samples x 2 micro-batches" in fewer.remark
    assert dict(kept(8, 16).settings) == {"batch_size_per_rank": "256"}
    assert dict(kept(8, 2, accumulation="2").settings) == {"accumulation": "8"}
    assert dict(kept(4, 8, accumulation="2").settings) == {"accumulation": "1"}


@given(
    rule=st.sampled_from(sorted(FACTORS)),
    before=st.sampled_from([1, 2, 4, 6, 8]),
    after=st.sampled_from([1, 2, 4, 6, 8, 12, 16]),
    accumulation=st.sampled_from([1, 2, 3]),
)
def test_batch_and_rate_stay_with_every_rule(rule: str, before: int, after: int, accumulation: int) -> None:
    changes: dict[str, Any] = {
        "scale_learning_rate": rule,
        "accumulation": str(accumulation),
        "batch_size_per_rank": "48",
    }
    found = kept(before, after, **changes)
    now = {**parameters(**changes), **dict(found.settings)}
    batches = after * int(now["accumulation"])
    assert int(now["batch_size_per_rank"]) * batches == 48 * before * accumulation
    assert int(now["batch_size_per_rank"]) <= 48
    rate = float(now["learning_rate"]) * batches ** FACTORS[rule]
    assert rate == pytest.approx(0.001 * (before * accumulation) ** FACTORS[rule], rel=1e-6)


def test_ranks_that_cannot_share_the_batch_are_refused_with_the_next_that_can() -> None:
    with pytest.raises(Refused) as refused:
        kept(8, 12, nodes=3)
    (fault,) = refused.value.faults
    assert "4096 does not divide among 12 ranks" in fault.what
    assert (fault.where, fault.allowed) == ("--nodes 3", "--nodes 2 or --nodes 4")
    assert "--recipe plan" in fault.next


def test_a_job_that_cannot_accumulate_is_told_so() -> None:
    job = bundled_job("cifar")
    rows = {name: row for name, row in job.parameters.items() if name != "accumulation"}
    with pytest.raises(Refused, match="no parameter for the micro-batches"):
        kept_recipe(replace(job, parameters=rows), parameters(), Worlds(before=8, now=4, nodes=2))


def test_a_job_that_divides_a_batch_itself_and_adascale_change_nothing_else() -> None:
    chips = bundled_job("chips")
    assert kept_recipe(chips, parameters("chips", global_batch_size="64"), Worlds(before=8, now=4, nodes=1)) is None
    measured = kept(8, 16, scale_learning_rate="adascale")
    assert dict(measured.settings) == {"batch_size_per_rank": "256"}
    assert "AdaScale measures its factor again" in measured.remark
