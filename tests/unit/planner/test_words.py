"""Whole texts as plain files: the table of some jobs at some sites, and the reasoning of one. One missing fails.

After a change that is meant: ``pytest tests/unit/planner --rewrite-golden``, then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpclaunch.guidelines.choice import Objective
from hpclaunch.guidelines.communication import Group, MeasuredLink
from hpclaunch.planner.explaining.words import WIDTH, text_of
from hpclaunch.planner.job.question import Evidence
from tests.builders import bundled_job
from tests.unit.planner.questions import a_trained_job, plan_of
from tests.unit.planner.test_ladder import RUNG_OF

HERE = Path(__file__).parent / "golden"
LARGE = {"parameters": 7e9, "flops_per_sample": 1e12, "saved_bytes_per_sample": 4e9, "largest_layer": 1e6}
SLOW_NETWORK = tuple(
    MeasuredLink(
        group=Group(nodes=nodes, per_node=4),
        latency_s=latency,
        bytes_per_s=rate,
        spread=0.31,
        on_gpus=True,
        origin=f"Horovod over NCCL, doctor-{nodes}, 2026-11-23",
    )
    for nodes, latency, rate in ((1, 9e-4, 140e9), (2, 1.1e-3, 1.2e9))
)
CASES: dict[str, dict[str, Any]] = {
    "cifar-perlmutter": {"job": bundled_job("cifar")},
    "cifar-perlmutter-4": {"job": bundled_job("cifar"), "nodes": 4},
    "cifar-testcluster": {"job": bundled_job("cifar"), "site": "testcluster"},
    "mnist-lumi": {"job": bundled_job("mnist"), "site": "lumi"},
    "resnet-perlmutter": {},
    "resnet-perlmutter-measured-links": {"evidence": Evidence(links=SLOW_NETWORK)},
    "resnet-lumi-hurried": {"site": "lumi", "objective": Objective(deadline_s=3600)},
    "large-perlmutter": {"job": a_trained_job(LARGE)},
    "unknown-leonardo": {"job": a_trained_job({}), "site": "leonardo_booster"},
}
CASES |= {
    f"rung-{name.replace(' ', '-')}": {"job": job, **typed}
    for name, (job, typed, _) in RUNG_OF.items()
    if name != "data parallel"  # all others
}
EXPLAINED = ("cifar-perlmutter-4-explained", "resnet-perlmutter-explained")


def printed(name: str, explained: bool) -> str:
    plan = plan_of(**CASES[name])
    lines = [*text_of(plan, explained), *map(str, plan.refusals)]
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize("name", [*CASES, *EXPLAINED])
def test_the_text_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    text = printed(name.removesuffix("-explained"), name.endswith("-explained"))
    golden = HERE / f"{name}.txt"
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_no_golden_text_is_left_over() -> None:
    names = {*CASES, *EXPLAINED}
    assert {path.stem for path in HERE.iterdir()} == names


@pytest.mark.parametrize("name", CASES)
def test_everything_fits_80_columns(name: str) -> None:
    plan = plan_of(**CASES[name])
    assert max(map(len, text_of(plan, explain=True))) <= WIDTH
