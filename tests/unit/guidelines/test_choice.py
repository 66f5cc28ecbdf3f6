"""Which number of nodes: the least trade-off, feasibility, doublings that are not worth it, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.batch import Batch
from hpclaunch.guidelines.candidates import Bill, Candidate, TrainingLength, candidate
from hpclaunch.guidelines.choice import Objective, choose, least_time, marginal_efficiency, trade_off
from hpclaunch.guidelines.efficiency import Pareto
from hpclaunch.guidelines.intervals import Interval, combined, spread
from hpclaunch.guidelines.overhead import NO_OVERHEAD, Overhead, measured_overhead

HOUR = 3600.0
LAW = Pareto(fewest_epochs=10, critical_batch=512)
SIZES = (1, 2, 4, 8, 16, 32, 64)


def a_candidate(nodes: int, rate: float, *, per_rank: int = 32, law: Pareto = LAW, **more: Any) -> Candidate:
    bill = more.pop("bill", Bill())
    batch = Batch(per_rank=per_rank, replicas=nodes)
    epochs = spread(law.epochs(batch.total), more.pop("epochs_spread", 0.0))
    length = TrainingLength(epochs=epochs, samples=360_000, overhead=more.pop("overhead", NO_OVERHEAD))
    return candidate(nodes, batch, spread(rate, 0.08), length, bill, **more)


def ideal(**more: Any) -> list[Candidate]:
    """Throughput and batch in proportion to the nodes: 1000 samples/s and 32 samples on each."""
    return [a_candidate(nodes, 1000.0 * nodes, **more) for nodes in SIZES]


def same_batch(rates: list[float]) -> list[Candidate]:
    """Candidates on 1, 2, 4, … nodes whose epochs do not grow."""
    flat = Pareto(fewest_epochs=10, critical_batch=1e12)
    return [a_candidate(nodes, rate, law=flat) for nodes, rate in zip(SIZES, rates, strict=False)]


def test_a_candidate_by_hand() -> None:
    found = a_candidate(
        16, 16_000, overhead=measured_overhead(100), bill=Bill(per_node_hour=2, unit="credit", walltime_s=300)
    )
    # B = B_crit: 20 epochs of 360,000 samples at 16,000/s = 450 s, in jobs of which each starts up for 100 of its 300 s
    assert found.epochs.middle == pytest.approx(20)
    assert found.time_s.middle == pytest.approx(750)
    assert found.node_hours.middle == pytest.approx(16 * 750 / HOUR)
    assert found.cost.middle == pytest.approx(2 * 16 * 750 / HOUR)
    assert (found.unit, found.jobs) == ("credit", 3)
    assert "chain of 3 jobs" in found.reason.verdict
    assert found.time_s.low < 750 < found.time_s.high < 750 * 1.12


def test_every_job_of_a_chain_waits_in_the_queue() -> None:
    found = a_candidate(16, 16_000, bill=Bill(walltime_s=200), wait_s=60)
    assert (found.jobs, found.wait_s) == (3, 180)
    assert found.done_s == pytest.approx(450 + 180)


def test_what_takes_longer_than_its_chain_or_a_year_is_never_the_best() -> None:
    """Whatever the weight is; and nothing is best where every run is beyond."""
    short, long = (a_candidate(nodes, 1000.0 * nodes, bill=Bill(walltime_s=1000, most_jobs=3)) for nodes in (4, 1))
    assert not short.beyond
    assert "3 are allowed" in long.beyond
    assert choose([long, short], Objective(weight=0.01)).best is short
    assert choose([long], Objective()).best is None
    years = a_candidate(1, 0.05)
    assert "longer than a year" in years.beyond


def test_the_time_outside_the_steps_is_part_of_time_and_range() -> None:
    overhead = Overhead(once_s=spread(20, 1.0), epoch_s=spread(3, 1.0))
    found = a_candidate(16, 16_000, overhead=overhead)  # 450 s of training in 20 epochs
    assert found.time_s.middle == pytest.approx(450 + 20 + 60)
    assert (found.once_s.middle, found.between_s.middle) == (20, pytest.approx(60))
    assert found.time_s.high > a_candidate(16, 16_000).time_s.high + 80


def test_a_short_job_costs_what_the_site_charges_at_least() -> None:
    quarter = Bill(per_node_hour=3, unit="SU", shortest_s=900)
    assert a_candidate(4, 1e9, bill=quarter).cost.middle == pytest.approx(3 * 4 * 0.25)
    assert a_candidate(16, 16_000, bill=quarter).cost.middle == pytest.approx(3 * 16 * 0.25)  # 450 s
    assert a_candidate(1, 1000, bill=quarter).cost.middle > 3 * 0.25
    assert a_candidate(1, 1e9, bill=Bill(least=1)).cost.middle == 1


def test_uncertain_epochs_widen_the_ranges() -> None:
    known, uncertain = a_candidate(16, 16_000), a_candidate(16, 16_000, epochs_spread=1.0)
    assert uncertain.epochs.high == 2 * uncertain.epochs.middle
    assert uncertain.time_s.middle == known.time_s.middle
    assert uncertain.time_s.low < 0.6 * known.time_s.low and uncertain.time_s.high > 1.8 * known.time_s.high


@pytest.mark.parametrize(("weight", "nodes"), [(0.5, 16), (1 / 3, 8), (2 / 3, 32)])
def test_the_best_batch_is_w_over_1_minus_w_critical_ones(weight: float, nodes: int) -> None:
    # The sums are flat around the minimum: 3 % take the smaller of two that are alike.
    found = choose(ideal(), Objective(weight=weight))
    least = min(ideal(), key=lambda one: trade_off(one, weight))
    assert least.nodes == nodes
    assert found.best is not None and found.best.nodes <= nodes
    assert trade_off(found.best, weight) <= 1.03 * trade_off(least, weight)


def test_equal_trade_offs_take_fewer_nodes() -> None:
    # With hardly any weight on time only the cost counts, and without loss that is the same for all.
    found = choose(same_batch([1000, 2000, 4000]), Objective(weight=1e-9))
    assert found.best is not None and found.best.nodes == 1


def test_of_equal_ones_a_multiple_of_8_and_then_the_smaller_batch() -> None:
    flat = Pareto(fewest_epochs=10, critical_batch=1e12)
    alike = [a_candidate(2, 2000, per_rank=batch, law=flat) for batch in (30, 40, 32)]
    found = choose(alike, Objective())
    assert found.best is not None and found.best.batch.per_rank == 32


def test_marginal_efficiency_is_what_a_doubling_leaves() -> None:
    one, two, eight = (
        a_candidate(n, rate, law=Pareto(fewest_epochs=10, critical_batch=1e12))
        for n, rate in ((1, 1000), (2, 1600), (8, 4096))
    )
    assert marginal_efficiency(one, two) == pytest.approx(0.8)
    assert marginal_efficiency(one, eight) == pytest.approx(0.8)  # 0.512 over three doublings
    assert marginal_efficiency(one, a_candidate(2, 3000, law=Pareto(fewest_epochs=10, critical_batch=1e12))) == (
        1.0  # two nodes may be more than twice as fast, if together they hold the data set
    )
    with pytest.raises(ValueError, match="with one of fewer ranks"):
        marginal_efficiency(two, one)


def test_a_part_of_a_shared_node_is_compared_by_its_ranks() -> None:
    part, whole = (
        replace(run, ranks_per_node=ranks) for ranks, run in zip((1, 4), same_batch([1000, 2560]), strict=True)
    )
    whole = replace(whole, nodes=1)
    assert marginal_efficiency(part, whole) == pytest.approx(0.8)  # 0.64 over two doublings
    found = choose([whole, part], Objective())
    assert [appraisal.candidate.ranks for appraisal in found.appraised] == [1, 4]


def test_of_the_batches_of_a_node_count_the_one_that_is_done_first() -> None:
    runs = [a_candidate(2, rate, per_rank=size) for rate, size in ((1000, 8), (1990, 32), (2000, 64))]
    assert least_time(runs, base_batch=256).batch.per_rank == 32  # 64 takes more epochs
    flat = Pareto(fewest_epochs=10, critical_batch=1e12)
    alike = [a_candidate(2, 2000, per_rank=size, law=flat) for size in (8, 12, 32, 64)]
    assert [least_time(alike, base_batch=batch).batch.total for batch in (20, 48, 1024)] == [16, 64, 128]


def test_nodes_beyond_a_wasteful_doubling_are_not_recommended() -> None:
    wasteful = same_batch([1000, 2000, 2200, 7000])
    found = choose(wasteful, Objective(weight=0.9))
    assert found.best is not None and found.best.nodes == 2
    assert [one.worthwhile for one in found.appraised] == [True, True, False, True]


def test_unless_the_deadline_leaves_nothing_else() -> None:
    wasteful = same_batch([1000, 2000, 2200])
    found = choose(wasteful, Objective(deadline_s=1700))
    assert found.best is not None and found.best.nodes == 4
    assert "throughput per node fell to 55%" in found.warnings[0]


def test_deadline_budget_and_limit_are_obeyed() -> None:
    assert [one.time_s.middle for one in same_batch([1000, 1900, 3400])] == pytest.approx(
        [3600, 1894.74, 1058.82], rel=1e-4
    )
    tight = choose(same_batch([1000, 1900, 3400]), Objective(weight=0.01, deadline_s=2000))
    cheap = choose(same_batch([1000, 1900, 3400]), Objective(weight=0.99, budget=1.06))
    small = choose(same_batch([1000, 1900, 3400]), Objective(weight=0.99, most_nodes=1))
    assert [found.best and found.best.nodes for found in (tight, cheap, small)] == [2, 2, 1]


def test_a_wait_counts_against_the_deadline() -> None:
    quick = a_candidate(1, 1000, law=Pareto(fewest_epochs=10, critical_batch=1e12), wait_s=HOUR)
    assert choose([quick], Objective(deadline_s=1.5 * HOUR)).best is None
    assert choose([quick], Objective(deadline_s=2.5 * HOUR)).best is quick


def test_the_impossible_gets_reasons_and_the_nearest() -> None:
    found = choose(same_batch([1000, 1900, 3400]), Objective(deadline_s=600, budget=0.5))
    assert found.best is None
    assert found.nearest.nodes == 4
    late, dear = found.appraised[1].obstacles
    assert late == "done after 00:31:35, but the deadline is in 00:10:00"
    assert dear == "costs 1.053 node-hours, but the budget is 0.5"
    assert all(one.obstacles for one in found.appraised)
    assert found.reason.verdict.startswith("nothing is feasible; the nearest is 4 nodes")


def test_a_distributed_run_slower_than_one_process_is_said_so() -> None:
    single = a_candidate(1, 1000)
    found = choose([a_candidate(2, 125)], Objective(), single=single)
    times = "09:00:00 for 18 node-hours, instead of 01:03:45 for 1.1 node-hours"
    assert found.warnings[0] == f"slower than one process ({times}): do not distribute this run"
    assert not choose([single], Objective(), single=single).warnings


def test_a_cost_above_99_is_written_without_an_exponent() -> None:
    bill = Bill(per_node_hour=7.5, unit="SBU")
    found = choose([a_candidate(2, 125, bill=bill)], Objective(), single=a_candidate(1, 1000, bill=bill))
    times = "09:00:00 for 135 SBUs, instead of 01:03:45 for 8 SBUs"
    assert found.warnings[0] == f"slower than one process ({times}): do not distribute this run"


def test_a_deadline_that_is_met_by_a_hair_is_told() -> None:
    found = choose(same_batch([1000]), Objective(deadline_s=3700, budget=1.01))
    assert found.best is not None and len(found.warnings) == 2
    assert all("fewer than 90 %" in warning for warning in found.warnings)


def test_nothing_cannot_be_chosen_and_weights_are_weights() -> None:
    with pytest.raises(ValueError, match="nothing to choose from"):
        choose([], Objective())
    for weight in (0.0, 1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Objective(weight=weight)


@given(
    st.lists(st.floats(0.5, 1.0), min_size=1, max_size=6),
    st.floats(0.05, 0.95),
    st.floats(100, 1e5),
    st.floats(0.1, 100),
)
def test_the_choice_is_feasible_and_there_is_one_whenever_any_is(
    kept: list[float], weight: float, deadline: float, budget: float
) -> None:
    rates = [1000.0]
    for share in kept:
        rates.append(rates[-1] * 2 * share)
    objective = Objective(weight=weight, deadline_s=deadline, budget=budget)
    found = choose(same_batch(rates), objective)
    feasible = [one for one in found.appraised if not one.obstacles]
    assert (found.best is None) == (not feasible)
    if found.best is not None:
        assert found.best.done_s <= deadline and found.best.cost.middle <= budget
        assert found.nearest is found.best


def test_intervals() -> None:
    assert spread(100, 0.25) == Interval(low=80, middle=100, high=125)
    assert combined(0.1) == pytest.approx(0.1)
    assert 0.1 < combined(0.08, 0.06) < 0.14
    with pytest.raises(ValueError, match="must rise"):
        Interval(low=2, middle=1, high=3)
    with pytest.raises(ValueError, match="not negative"):
        spread(1, -0.1)
