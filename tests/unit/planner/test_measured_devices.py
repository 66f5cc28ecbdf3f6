"""A device of which no peak is known is planned by what doctor measured of it, and the plan says so."""

from __future__ import annotations

from dataclasses import replace

from hpclaunch.guidelines.hardware import MeasuredDevice
from hpclaunch.planner.job.question import Evidence
from hpclaunch.planner.values import Forecast
from tests.builders import bundled_job
from tests.unit.planner.questions import plan_of

MEASURED = MeasuredDevice(ranks_per_node=1, on_gpus=False, float32=0.5, copy_gbytes_per_s=80.0, origin="doctor-1, 2026")


def plan_with(*devices: MeasuredDevice, site: str = "testcluster") -> Forecast:
    asked = {"job": bundled_job("cifar"), "site": site, "nodes": 1, "tasks_per_node": 1}
    return plan_of(**asked, evidence=Evidence(devices=devices))


def rate(plan: Forecast) -> float | None:
    throughput = plan.chosen.throughput if plan.chosen else None
    return throughput.samples_per_s.middle if throughput else None


def test_an_unknown_processor_is_planned_by_what_was_measured_and_marked() -> None:
    assert rate(plan_with()) is None
    plan, faster = plan_with(MEASURED), plan_with(replace(MEASURED, float32=1.0, copy_gbytes_per_s=160.0))
    slow, fast = rate(plan), rate(faster)
    assert slow is not None and fast is not None and slow < fast
    assert any("from the measured matrix product and copy rate (doctor-1, 2026)" in line for line in plan.assumed)
    assert plan.mfu is None and plan.trust == "guess"


def test_other_ranks_do_not_count_on_cpus() -> None:
    assert rate(plan_with(replace(MEASURED, ranks_per_node=4))) is None
    assert rate(plan_with(replace(MEASURED, on_gpus=True))) is None


def test_a_device_that_is_known_is_planned_by_its_peaks() -> None:
    gpu = replace(MEASURED, on_gpus=True, float32=1.0)
    assert rate(plan_with(gpu, site="perlmutter")) == rate(plan_with(site="perlmutter"))
