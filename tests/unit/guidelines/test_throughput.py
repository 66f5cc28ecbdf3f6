"""Step time and throughput by hand, their parts, and how certain they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.throughput import Shape, Work, log_deviation, step_time, throughput
from hpclaunch.guidelines.timing import QUANTITIES, independent
from tests.unit.guidelines.timings import MACHINE, WORK, shape, timing

NETWORK_S = 8 * 28.8e-6 + 6.25e-3
"""A gigabyte on four GPUs of a node: eight fusion buffers, 1.5 GB at 240 GB/s."""


def test_one_rank_only_computes() -> None:
    found = throughput(shape(ranks=1), WORK, MACHINE, timing(straggling=0.02))
    assert found.samples_per_s.middle == pytest.approx(100)
    assert (found.efficiency, found.step.communication_s, found.step.straggler_s) == (1, 0, 0)


def test_overlap_hides_most_of_the_all_reduce_and_accumulation_adds_it() -> None:
    overlapped = step_time(shape(), WORK, MACHINE, timing())
    assert overlapped.total_s == pytest.approx((0.1**2 + NETWORK_S**2) ** 0.5)
    accumulated = step_time(shape(accumulation=4), WORK, MACHINE, timing())
    assert accumulated.total_s == pytest.approx(0.4 + NETWORK_S)


def test_stragglers_and_slow_down_by_hand() -> None:
    step = step_time(shape(nodes=2), Work(gradient_bytes=1), MACHINE, timing(slowdown=0.1, straggling=0.02))
    assert step.straggler_s == pytest.approx(0.1 * 0.02 * 2.0393, rel=1e-3)  # sqrt(2 ln 8) = 2.0393
    assert step.slowdown_s == pytest.approx(0.1 * (0.1 + step.straggler_s), rel=1e-3)
    assert step_time(shape(), WORK, MACHINE, timing(slowdown=0.1)).slowdown_s == 0


def test_slow_reading_is_waited_for_and_said() -> None:
    slow, load = timing(reading=2e9), Work(gradient_bytes=1, sample_bytes=10e6)
    alone = throughput(shape(nodes=1), load, MACHINE, slow)
    assert alone.step.total_s == pytest.approx(0.2)  # 40 samples of 10 MB at 2 GB/s
    assert "input pipeline" in alone.reason.warning
    assert not throughput(shape(), WORK, MACHINE, timing()).reason.warning


def test_the_fixed_times_of_a_step_by_hand() -> None:
    fixed = timing(fixed_s=0.02, joining_s=0.003)
    assert step_time(shape(ranks=1, batch=10), WORK, MACHINE, fixed).total_s == pytest.approx(0.12)
    step = step_time(shape(ranks=4, accumulation=2), Work(gradient_bytes=1), MACHINE, fixed)
    assert step.total_s == pytest.approx(2 * 0.12 + 0.003, rel=1e-3)  # Horovod joins once in a step, not twice
    assert step.fixed_s == pytest.approx(2 * 0.02 + 0.003)


def test_launches_ahead_of_the_gpu_are_hidden_by_hand() -> None:
    # ResNet-50 took 30 ms with 32 and with 128 images; 256 took 55 ms (one H200, PyTorch).
    ahead = replace(timing(fixed_s=0.03, per_sample_s=0.055 / 256), launches_ahead=True)
    steps = [step_time(shape(ranks=1, batch=batch), WORK, MACHINE, ahead) for batch in (32, 128, 256)]
    assert [step.total_s for step in steps] == pytest.approx([0.03, 0.03, 0.055])
    assert [step.fixed_s for step in steps] == pytest.approx([0.03, 0.03, 0])


def test_the_efficiency_is_that_beside_one_rank_at_its_own_best_batch() -> None:
    fixed = timing(fixed_s=0.1)
    assert throughput(shape(ranks=1, batch=10), WORK, MACHINE, fixed).efficiency == 1
    # 10 samples in 0.2 s, beside a rank that reaches 90/s with a larger batch
    assert throughput(shape(ranks=1, batch=10), WORK, MACHINE, fixed, single=90).efficiency == pytest.approx(50 / 90)


def test_a_range_by_hand() -> None:
    # Half of a step of one rank is fixed, the other half belongs to the samples; both vary by 20 %.
    spreads = tuple(0.2 if name in ("fixed_s", "per_sample_s") else 0.0 for name in QUANTITIES)
    known = replace(timing(fixed_s=0.1), deviations=spreads, covariance=independent(), most_ranks=1, batches=(10,))
    found = log_deviation(shape(ranks=1, batch=10), WORK, MACHINE, known)
    assert found**2 == pytest.approx(2 * 0.1**2 + 0.03**2, rel=0.02)


SHAPES = st.builds(shape, st.integers(1, 256), st.integers(1, 16), st.floats(1, 512), st.sampled_from([1.0, 2.0, 8.0]))


@given(SHAPES, st.floats(1e3, 1e11))
def test_no_efficiency_above_one_and_no_negative_part(one: Shape, gradient: float) -> None:
    found = throughput(one, Work(gradient_bytes=gradient), MACHINE, timing(0.05, 0.02))
    step = found.step
    parts = (step.compute_s, step.communication_s, step.straggler_s, step.slowdown_s, step.input_s)
    assert 0 < found.efficiency <= 1 + 1e-9
    assert min(parts) >= 0 and sum(parts) == pytest.approx(step.total_s)
    assert found.samples_per_s.low <= found.samples_per_s.middle <= found.samples_per_s.high


@given(st.integers(1, 128), st.floats(1e3, 1e11))
def test_more_nodes_never_have_a_higher_efficiency(nodes: int, gradient: float) -> None:
    few, many = (
        throughput(shape(count), Work(gradient_bytes=gradient), MACHINE, timing(0.05, 0.02))
        for count in (nodes, nodes + 1)
    )
    assert many.efficiency <= few.efficiency + 1e-12
