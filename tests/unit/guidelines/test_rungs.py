"""The times of the rungs by hand: recomputation, exchange inside a replica, and the bubble of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.batch import Batch, in_micro_batches
from hpclaunch.guidelines.calibration import Measured, calibrate
from hpclaunch.guidelines.communication import Group, MeasuredLink
from hpclaunch.guidelines.expected_timing import STRAGGLING, Prior
from hpclaunch.guidelines.memory import Arrangement
from hpclaunch.guidelines.rungs import RUNGS, Exchange, arranged_timing, exchange_s, pipeline_share
from hpclaunch.guidelines.throughput import Shape, Work, step_time
from hpclaunch.guidelines.timing import Timing
from tests.unit.guidelines.timings import MACHINE, shape, timing

LINKS = Exchange(collectives=96, sample_bytes=1e6, tensor_bytes_per_s=240e9, stage_bytes_per_s=10e9)


def test_an_exchange_by_hand() -> None:
    # 96 dependent all-reduces of 1 MB between 4 GPUs: 1.5 MB at 240 GB/s = 6.25 us each, and 214 us of latency.
    four = Arrangement(tensor_parallel=4)
    assert exchange_s(LINKS, four, 1, 1) == pytest.approx(96 * (214e-6 + 6.25e-6))
    again = Arrangement(tensor_parallel=4, recompute=True)
    assert exchange_s(LINKS, again, 1, 1) == pytest.approx(144 * (214e-6 + 6.25e-6))
    # Two stages, four micro-batches: 5 turns for 4, each sends 1 MB forward and back at 10 GB/s.
    staged = Arrangement(pipeline_stages=2)
    assert exchange_s(LINKS, staged, 1, 4) == pytest.approx(5 / 4 * 2 * (214e-6 + 100e-6))
    both = Arrangement(tensor_parallel=4, pipeline_stages=2)
    assert exchange_s(LINKS, both, 1, 4) == pytest.approx(
        5 / 8 * 96 * (214e-6 + 6.25e-6) + exchange_s(LINKS, staged, 1, 4)
    )
    assert exchange_s(LINKS, Arrangement(), 1, 1) == 0


def test_a_pipeline_waits_in_its_bubble() -> None:
    assert [pipeline_share(4, parts) for parts in (1, 4, 16)] == [1, 7 / 16, 19 / 64]
    assert pipeline_share(1, 5) == 1


def test_recomputation_takes_a_third_more() -> None:
    usual = timing(fixed_s=0.02)
    found = arranged_timing(usual, Arrangement(recompute=True), LINKS, 1)
    assert found.micro_batch_s(8) == pytest.approx(4 / 3 * usual.micro_batch_s(8))


def test_tensor_parallel_ranks_divide_the_samples_time_and_run_every_operation() -> None:
    usual, found = timing(fixed_s=0.02), arranged_timing(timing(fixed_s=0.02), Arrangement(tensor_parallel=4), LINKS, 1)
    assert found.fixed_s == pytest.approx(usual.fixed_s + 96 * 214e-6)
    assert found.per_sample_s == pytest.approx(usual.per_sample_s / 4 + 96 * 6.25e-6)


@pytest.mark.parametrize(
    ("batch", "stages", "largest", "expected"),
    [
        (Batch(per_rank=32, replicas=2), 1, 8, (32, 1)),  # no pipeline
        (Batch(per_rank=32, replicas=2), 2, 32, (4, 8)),
        (Batch(per_rank=32, replicas=2), 2, 2, (2, 16)),
        (Batch(per_rank=3, replicas=2), 2, 8, (1, 3)),
        (Batch(per_rank=10, replicas=1, accumulation=2), 4, 8, (1, 20)),
    ],
)
def test_micro_batches_of_a_pipeline(batch: Batch, stages: int, largest: int, expected: tuple[int, int]) -> None:
    found = in_micro_batches(batch, stages, largest)
    assert (found.per_rank, found.accumulation) == expected and found.total == batch.total


@given(st.integers(1, 500), st.integers(1, 9), st.integers(1, 16), st.integers(1, 600))
def test_the_global_batch_stays(samples: int, accumulation: int, stages: int, largest: int) -> None:
    batch = Batch(per_rank=samples, replicas=3, accumulation=accumulation)
    found = in_micro_batches(batch, stages, largest)
    assert found.total == batch.total
    assert stages == 1 or found.per_rank <= largest


def test_every_rung_names_its_formulas_and_its_source() -> None:
    assert len({rule.name for rule in RUNGS}) == len(RUNGS) == 10
    assert all(rule.saves and rule.takes and rule.source for rule in RUNGS)


@pytest.mark.parametrize("latency", [60e-6, 900e-6])
def test_measured_steps_of_ranks_that_share_a_model_tell_the_latency_of_their_all_reduces(latency: float) -> None:
    """Two batches in one replica of four ranks: fixed time and latency are one sum, which the default has wrong."""

    def arranged(one: Timing, layout: Shape) -> Timing:
        exchange = replace(LINKS, latency_s=one.dependent_s, tensor_bytes_per_s=one.inside)
        return arranged_timing(one, Arrangement(tensor_parallel=4), exchange, int(layout.accumulation))

    work = Work(gradient_bytes=1e9, inside_parts=4, arranged=arranged)
    true = replace(timing(fixed_s=0.02, straggling=STRAGGLING), dependent_s=latency)
    layouts = [shape(ranks=1, batch=batch) for batch in (4, 8)]
    points = [
        Measured(shape=one, samples_per_s=one.samples / step_time(one, work, MACHINE, true).total_s) for one in layouts
    ]
    known = Prior(fixed_s=0.02, fixed_spread=0.01, joining_s=1e-9)
    found = calibrate(points, work, MACHINE, known)
    assert found.dependent_s == pytest.approx(latency, rel=0.15)
    assert "time of a dependent all-reduce" in {number.name for number in found.reasons[0].numbers}
    # Two such replicas in a node: each rank sends a quarter of the gradients.
    two = shape(ranks=2, batch=6)
    assert step_time(two, work, MACHINE, found).total_s == pytest.approx(
        step_time(two, work, MACHINE, true).total_s, rel=0.05
    )


def test_the_measured_latency_in_a_node_contains_the_default_pause() -> None:
    link = MeasuredLink(group=Group(nodes=1, per_node=4), latency_s=1.2e-3, bytes_per_s=1e9, spread=0.3)
    links = replace(MACHINE.links, inside=link)
    assert links.dependent_s == pytest.approx(0.3e-3)
    assert replace(links, inside=replace(link, latency_s=50e-6)).dependent_s == 37e-6
    assert MACHINE.links.dependent_s == 214e-6
