"""A run whose model ranks share, continued on other nodes: shared as before, in another way, or refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import Pairs
from hpclaunch.planner.choice.resumed_layout import shared_again
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.nodes.sizing import sizing_of
from tests.unit.planner.questions import ask, with_parameters
from tests.unit.planner.test_ladder import SMALL_DATA, a_job

SPLIT = {"tensor_parallel": "8", "pipeline_stages": "1", "batch_size_per_rank": "4", "precision": "bfloat16"}


def again(job: Job, run: dict[str, str], nodes: tuple[int, int], **typed: Any) -> Pairs:
    """The parameters of a run on nodes with four GPUs of 40 GB, which continues on other ones."""
    cases = [ask(job, node_type="gpu40", nodes=one, **typed).case for one in nodes]
    defaults = job.with_defaults(tuple(run.items()))
    before, now = (sizing_of(dataclasses.replace(case, job=defaults), Decisions()) for case in cases)
    return shared_again(dataclasses.replace(cases[1], job=defaults), before.layout, now)


def test_a_layout_stays_where_the_ranks_hold_whole_replicas() -> None:
    job = a_job(7e9, 1e8)
    for nodes in ((2, 4), (4, 2)):
        assert again(job, SPLIT, nodes) == ()


def test_fewer_ranks_share_the_model_in_another_way_if_they_hold_it() -> None:
    """Nothing else changes: not the precision, nor the batch of a replica."""
    assert dict(again(a_job(7e9, 1e8), SPLIT, (2, 1))) == {"tensor_parallel": "4", "pipeline_stages": "1"}
    assert dict(again(a_job(7e9, 1e8, **SMALL_DATA), SPLIT, (2, 3))) == {"tensor_parallel": "4", "pipeline_stages": "1"}


def test_what_a_person_typed_stays_and_is_refused_elsewhere() -> None:
    typed = {"settings": (("tensor_parallel", "8"), ("pipeline_stages", "1"))}
    assert again(a_job(7e9, 1e8), SPLIT, (2, 1), **typed) == ()


def test_ranks_that_hold_the_model_in_no_way_are_refused_elsewhere() -> None:
    """They are no whole replicas."""
    assert again(a_job(20e9, 1e8), {**SPLIT, "tensor_parallel": "16"}, (4, 1)) == ()


def test_a_model_that_shares_its_optimizers_state_among_too_few_ranks_is_refused() -> None:
    """3.7 billion parameters with Adam: 31 GB on each of 16 ranks, 37 GB on each of four."""
    job = with_parameters(a_job(3.7e9, 1e8), {"optimizer": Parameter(default="adam")})
    rows = {name: row for name, row in job.parameters.items() if name not in ("tensor_parallel", "pipeline_stages")}
    job, run = dataclasses.replace(job, parameters=rows), {"shard_optimizer": "true", "batch_size_per_rank": "1"}
    assert again(job, run, (8, 4)) == ()
    with pytest.raises(Refused) as refused:
        again(job, run, (8, 1))
    (fault,) = refused.value.faults
    assert fault.where == "--nodes 1" and fault.next == "--nodes 8, as before"
    assert fault.what.startswith("a rank on 1 node would not hold the run's model: ")


def test_nothing_is_known_without_figures() -> None:
    job = a_job(7e9, 1e8)
    assert job.training is not None
    job = dataclasses.replace(job, training=dataclasses.replace(job.training, figures={}))
    assert again(job, SPLIT, (2, 1)) == ()
