"""A global batch size that a job divides among its replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.job import Job
from hpclaunch.config.parameters import Parameter
from hpclaunch.core.errors import Fault
from hpclaunch.resolve import resolve
from tests.builders import a_case, a_site, bundled_job, bundled_site

CHIPS = bundled_job("chips")


def faults_of(job: Job = CHIPS, site: str = "", **typed: Any) -> list[Fault]:
    """What is wrong with the batch; settings: NAME=VALUE words."""
    words = dict(word.split("=") for word in typed.pop("settings", "").split())
    typed["settings"] = (("synthetic", "true"), *words.items())
    case = a_case(bundled_site(site) if site else a_site(), job, **{"target": "chips", **typed})
    return [fault for fault in resolve(case)[1] if "does not divide" in fault.what]


@pytest.mark.parametrize(
    "typed",
    [
        {"nodes": 4, "settings": "global_batch_size=64"},
        {"nodes": 3},  # every rank has its own batch
        {"nodes": 1, "strategy": "mirrored", "settings": "global_batch_size=64"},
        {"nodes": 2, "settings": "global_batch_size=64 accumulation=8"},
        {
            "nodes": 2,
            "strategy": "multiworker",
            "tasks_per_node": 3,
            "gpus_per_node": 4,
            "settings": "global_batch_size=6",
        },
        {"site": "testcluster", "strategy": "mirrored", "settings": "global_batch_size=3"},  # its GPUs do nothing
        {"nodes": 3, "sweep": (("global_batch_size", "60,72"),)},
    ],
)
def test_what_divides_is_taken(typed: dict[str, Any]) -> None:
    assert faults_of(**typed) == []


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            {"nodes": 3, "settings": "global_batch_size=64"},
            "--set global_batch_size|64 does not divide among 12 ranks|a multiple of 12|choose 60 or 72, or another",
        ),
        ({"nodes": 4, "settings": "global_batch_size=7"}, "|choose 16, or another number of nodes, tasks or GPUs"),
        ({"nodes": 4, "settings": "global_batch_size=16 accumulation=2"}, "with 2 accumulation steps|a multiple of 32"),
        ({"nodes": 3, "strategy": "multiworker", "settings": "global_batch_size=64"}, "among 12 replicas"),
        (
            {"nodes": 3, "strategy": "multiworker", "tasks_per_node": 1, "gpus_per_node": 4}
            | {"settings": "global_batch_size=6"},
            "a multiple of 12",
        ),
        ({"nodes": 3, "sweep": (("global_batch_size", "60,64"),)}, "--sweep global_batch_size|64 does not"),
        ({"nodes": 4, "settings": "global_batch_size=64", "sweep": (("accumulation", "1,3"),)}, "3 accumulation steps"),
    ],
)
def test_what_leaves_a_rest_is_refused(typed: dict[str, Any], message: str) -> None:
    (fault,) = faults_of(**typed)
    assert message in "|".join((fault.where, fault.what, fault.allowed, fault.next))


def test_an_accumulation_that_is_none_is_not_counted() -> None:
    job = replace(CHIPS, parameters={**CHIPS.parameters, "accumulation": Parameter(default=1)})
    assert faults_of(job, nodes=4, settings="global_batch_size=64 accumulation=0") == []
