"""Latency and bandwidth from measured all-reduces, and what they change in the time of a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.guidelines.calibration import Measured, calibrate
from hpclaunch.guidelines.communication import FUSION_BYTES, Group, Links, MeasuredLink
from hpclaunch.guidelines.expected_timing import BANDWIDTH_SPREAD
from hpclaunch.guidelines.measured_link import SINGLE_SPREAD, TimedSize, bus_bandwidth, fitted_link
from hpclaunch.guidelines.throughput import Machine, network_s
from hpclaunch.guidelines.timing import QUANTITIES
from tests.unit.guidelines.timings import MACHINE, WORK, shape, timing

TWO = Group(nodes=1, per_node=2)
FOUR = Group(nodes=2, per_node=2)
SIZES = [4**power for power in range(5, 14)]


def times(latency: float, bandwidth: float, ranks: int = 4) -> list[TimedSize]:
    return [TimedSize(size=size, seconds=latency + 2 * (ranks - 1) / ranks * size / bandwidth) for size in SIZES]


def test_the_bus_bandwidth_is_that_of_nccl_tests() -> None:
    # 64 MiB in 10 ms on 8 ranks: 6.71 GB/s, times 2 * 7 / 8
    assert bus_bandwidth(TimedSize(size=2**26, seconds=0.01), 8) == pytest.approx(6.7108864e9 * 1.75)


def test_exact_times_give_their_latency_and_bandwidth() -> None:
    found = fitted_link(times(50e-6, 10e9), FOUR, origin="a run")
    assert (found.latency_s, found.bytes_per_s) == pytest.approx((50e-6, 10e9), rel=1e-6)
    assert found.spread == pytest.approx(SINGLE_SPREAD)
    assert found.origin == "a run"


def test_times_that_do_not_fit_are_less_certain() -> None:
    uneven = [replace(one, seconds=one.seconds * (2 if n % 2 else 1)) for n, one in enumerate(times(50e-6, 10e9))]
    assert fitted_link(uneven, FOUR).spread > 1.2 * SINGLE_SPREAD


def test_large_sizes_tell_the_bandwidth_and_small_ones_the_latency() -> None:
    # As two ranks on one machine took them with Gloo: 64 MiB are slower than the sizes between.
    taken = (2.29e-3, 2.84e-3, 2.85e-3, 2.72e-3, 2.92e-3, 3.59e-3, 9.43e-3, 46.4e-3, 187e-3)
    found = fitted_link([TimedSize(size=s, seconds=t) for s, t in zip(SIZES, taken, strict=True)], TWO)
    assert found.bytes_per_s == pytest.approx(0.36e9, rel=0.05)
    assert found.latency_s == pytest.approx(2.6e-3, rel=0.2)


def test_times_that_do_not_grow_bound_the_bandwidth() -> None:
    flat = [TimedSize(size=size, seconds=1e-3) for size in SIZES]
    found = fitted_link([replace(flat[0], seconds=1.1e-3), *flat[1:]], FOUR)
    assert found.bytes_per_s == pytest.approx(10 * bus_bandwidth(flat[-1], 4))
    assert found.latency_s == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize(("count", "group"), [(1, FOUR), (9, Group(nodes=1, per_node=1))])
def test_one_size_or_one_rank_is_no_measurement(count: int, group: Group) -> None:
    with pytest.raises(ValueError, match="several ranks and several sizes"):
        fitted_link(times(1e-4, 1e9)[:count], group)


MEASURED = MeasuredLink(group=FOUR, latency_s=5e-3, bytes_per_s=2e9, spread=0.3)
LINKS = Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100, between=MEASURED)


def test_a_measured_link_replaces_the_nominal_one() -> None:
    assert LINKS.between_bytes_per_s == 2e9
    assert LINKS.inside_bytes_per_s == MACHINE.links.inside_bytes_per_s
    assert LINKS.latency_s(FOUR, 1e6) == pytest.approx(5e-3)
    model = MACHINE.links.latency_s
    more = Group(nodes=4, per_node=2)
    assert LINKS.latency_s(more, 1e6) == pytest.approx(5e-3 + model(more, 1e6) - model(FOUR, 1e6))
    assert LINKS.latency_s(Group(nodes=1, per_node=4), 1e6) == model(Group(nodes=1, per_node=4), 1e6)
    assert LINKS.latency_s(FOUR, 3 * FUSION_BYTES) == pytest.approx(15e-3)
    quick = replace(LINKS, between=replace(MEASURED, latency_s=0.0))
    assert quick.latency_s(Group(nodes=2, per_node=1), 1e6) == 0.0  # never below zero


def test_a_step_takes_the_measured_latency() -> None:
    known, nominal = timing(between=2e9), timing()
    machine = Machine(links=LINKS)
    slow, fast = network_s(shape(2, 2), WORK, machine, known), network_s(shape(2, 2), WORK, MACHINE, nominal)
    buffers = 8  # 1 GB of gradients in parts of 128 MiB
    assert slow == pytest.approx(buffers * 5e-3 + 1.5 * WORK.gradient_bytes / 2e9)
    assert slow > 4 * fast


def test_a_fit_begins_at_the_measured_bandwidth_and_is_more_certain_of_it() -> None:
    points = [Measured(shape=shape(1, 4), samples_per_s=900.0)]
    found, before = (calibrate(points, WORK, machine) for machine in (Machine(links=LINKS), MACHINE))
    between = QUANTITIES.index("between")
    assert found.between == pytest.approx(2e9, rel=0.05)
    assert (found.deviations[between], before.deviations[between]) == (0.3, BANDWIDTH_SPREAD)
