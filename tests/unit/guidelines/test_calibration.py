"""Calibration on measured points: it finds the model behind them, and knows what they leave open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.calibration import Measured, calibrate, residuals_of
from hpclaunch.guidelines.communication import Links
from hpclaunch.guidelines.devices import gpu_named
from hpclaunch.guidelines.expected_timing import Prior, default_timing
from hpclaunch.guidelines.hardware import device_of_gpu, unmeasured_compute
from hpclaunch.guidelines.intervals import deviation
from hpclaunch.guidelines.overhead import fixed_time
from hpclaunch.guidelines.throughput import Machine, Shape, Work, throughput
from hpclaunch.guidelines.timing import Timing
from tests.unit.guidelines.timings import MACHINE, WORK, shape, timing


def half_width(found: Timing, one: Shape) -> float:
    rate = throughput(one, WORK, MACHINE, found).samples_per_s
    return rate.high / rate.middle - 1


def measured(one: Shape, true: Timing) -> Measured:
    return Measured(shape=one, samples_per_s=throughput(one, WORK, MACHINE, true).samples_per_s.middle)


@pytest.mark.parametrize(("slowdown", "between"), [(0, 10e9), (0, 5e9), (0, 20e9), (0.04, 10e9)])
def test_calibration_on_two_sizes_predicts_the_model_itself(slowdown: float, between: float) -> None:
    true = timing(slowdown, 0.02, between)
    fitted = calibrate([measured(shape(nodes), true) for nodes in (1, 2)], WORK, MACHINE)
    for nodes in (8, 32):
        right = throughput(shape(nodes), WORK, MACHINE, true).samples_per_s.middle
        assert throughput(shape(nodes), WORK, MACHINE, fitted).samples_per_s.middle == pytest.approx(right, rel=0.04)
    assert (fitted.origin, fitted.most_ranks, fitted.batches) == ("fitted", 8, (10,))
    assert "2 points on 1, 2 nodes" in fitted.reasons[0].verdict


def test_a_network_that_nobody_names_may_be_far_from_its_default() -> None:
    true = timing(straggling=0.02, between=0.2e9)  # of a default of 10e9
    points = [measured(shape(nodes), true) for nodes in (1, 2)]
    right = throughput(shape(16), WORK, MACHINE, true).samples_per_s.middle
    unsaid = Machine(links=Links(gpu_gbytes_per_s=300, node_gbytes_per_s=100, node_known=False))
    found = calibrate(points, WORK, unsaid)
    assert throughput(shape(16), WORK, unsaid, found).samples_per_s.middle == pytest.approx(right, rel=0.03)
    # A named one is not: the fit finds it too, and says that it is implausible.
    named = calibrate(points, WORK, MACHINE)
    assert "implausible bandwidth between nodes" in named.reasons[0].warning
    assert (named.strain, found.strain) == (0.1, 0)


def test_two_batch_sizes_tell_the_fixed_time() -> None:
    points = [
        Measured(shape=shape(ranks=1, batch=batch), samples_per_s=batch / (0.05 + 0.01 * batch)) for batch in (8, 16)
    ]
    fitted = calibrate(points, WORK, MACHINE)
    assert (fitted.fixed_s, fitted.per_sample_s) == (pytest.approx(0.05, rel=0.1), pytest.approx(0.01, rel=0.03))
    # One batch size leaves it to the prior, and the range at another batch says so.
    one = calibrate(points[:1], WORK, MACHINE)
    wide, narrow = (half_width(found, shape(ranks=1, batch=64)) for found in (one, fitted))
    assert wide > 1.5 * narrow


def test_points_that_contradict_each_other_make_the_prediction_less_certain() -> None:
    points = [Measured(shape=shape(nodes), samples_per_s=rate) for nodes, rate in ((1, 300), (2, 900))]
    fitted = calibrate(points, WORK, MACHINE)
    assert half_width(fitted, shape(2)) > 0.18
    assert "implausible bandwidth inside a node" in fitted.reasons[0].warning


def test_measured_straggling_is_used() -> None:
    points = [Measured(shape=shape(), samples_per_s=300, straggling=0.07)]
    fitted = calibrate(points, WORK, MACHINE)
    assert (fitted.straggling, fitted.straggling_origin) == (pytest.approx(0.07, rel=0.01), "profile")


def test_nothing_measured_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="at least one measured point"):
        calibrate([], WORK, MACHINE)


V100 = gpu_named("NVIDIA V100")
CIFAR = (24_277_510, 529_624, 961)
MNIST = (24_100_710, 324_392, 248)
"""Forward FLOPs, saved bytes and operations of the bundled models."""


def prior_of(model: tuple[float, float, int]) -> Prior:
    assert V100 is not None
    flops, saved, operations = model
    fixed = fixed_time(operations)
    compute = unmeasured_compute(device_of_gpu(V100), "float32", flops, saved)
    return Prior(compute=compute, fixed_s=fixed.seconds, fixed_spread=deviation(fixed.width))


@pytest.mark.parametrize(
    ("model", "gradient", "points"),
    [
        (CIFAR, 1.9e6, ((1, 512, 37_400.0), (8, 512, 222_000.0))),  # notebook 4: 13.7 and 19 ms
        (MNIST, 4.8e6, ((1, 1024, 66_176.0), (8, 512, 222_244.0))),  # notebook 3: 15.8 and 17 ms
    ],
)
def test_the_two_measured_points_of_a_notebook_are_one_model(
    model: tuple[float, float, int], gradient: float, points: tuple[tuple[int, int, float], ...]
) -> None:
    machine, load = Machine(links=Links(gpu_gbytes_per_s=150, node_gbytes_per_s=50)), Work(gradient_bytes=gradient)
    seen = [Measured(shape=shape(ranks=ranks, batch=batch), samples_per_s=rate) for ranks, batch, rate in points]
    fitted = calibrate(seen, load, machine, prior_of(model))
    assert max(map(abs, residuals_of(seen, load, machine, fitted))) < 0.05
    assert not fitted.reasons[0].warning


def test_a_profile_replaces_the_prior_of_the_fixed_time() -> None:
    prior = replace(prior_of(CIFAR), fixed_s=0.04)
    seen = [Measured(shape=shape(ranks=1, batch=b), samples_per_s=b / (0.005 + 1e-4 * b)) for b in (64, 128, 256)]
    fitted = calibrate(seen, WORK, MACHINE, prior)
    assert fitted.fixed_s == pytest.approx(0.005, rel=0.25)
    assert fitted.per_sample_s == pytest.approx(1e-4, rel=0.05)


def test_a_default_timing_needs_a_known_device() -> None:
    found = default_timing(prior_of(CIFAR), MACHINE)
    assert (found.origin, found.most_ranks, found.joining_s) == ("default", 0, 0.003)
    with pytest.raises(ValueError, match="must be known"):
        default_timing(replace(prior_of(CIFAR), compute=None), MACHINE)


@given(st.integers(1, 4), st.floats(4, 512), st.floats(1e-6, 1e-2), st.floats(0.1, 1.0))
def test_a_measured_point_is_met_whatever_the_prior(nodes: int, batch: float, sample_s: float, busy: float) -> None:
    one = shape(nodes, 4, batch)
    rate = busy * one.samples / (sample_s * batch + 0.02)
    load = Work(gradient_bytes=1e6)
    fitted = calibrate([Measured(shape=one, samples_per_s=rate)], load, MACHINE)
    assert throughput(one, load, MACHINE, fitted).samples_per_s.middle == pytest.approx(rate, rel=0.02)


@given(st.integers(0, 6))
def test_ranges_widen_with_every_doubling_of_the_ranks(doublings: int) -> None:
    fitted = calibrate([Measured(shape=shape(1), samples_per_s=300)], WORK, MACHINE)
    narrow, wide = (half_width(fitted, shape(1 << more)) for more in (doublings, doublings + 1))
    assert wide > narrow


def ahead_of(sample_s: float, fixed_s: float = 0.03) -> Prior:
    """Return the prior of a job that launches ahead, whose time of a sample is guessed as ``sample_s``."""
    prior = prior_of(CIFAR)
    assert prior.compute is not None
    guess = replace(prior.compute.sample_s, low=sample_s / 2, middle=sample_s, high=sample_s * 2)
    return replace(prior, compute=replace(prior.compute, sample_s=guess), fixed_s=fixed_s, launches_ahead=True)


def rates_of(points: dict[int, float]) -> list[Measured]:
    return [Measured(shape=shape(ranks=1, batch=batch), samples_per_s=rate) for batch, rate in points.items()]


H200_RATES = {32: 1078.9, 128: 4268.7, 256: 4614.9}
"""ResNet-50 in bfloat16 with PyTorch (``benchmarks/published_tables.py``): 30 ms with 32 and with 128 images."""


@pytest.mark.parametrize("guess", [1e-5, 2.5e-5, 5e-5, 2e-4])
def test_a_gpu_that_bounds_every_measured_step_is_found_behind_the_launches(guess: float) -> None:
    """The guess says that the launches hide the GPU's work; no small step from there shows that they do not."""
    seen = rates_of({256: 20_000, 512: 20_000})
    found = calibrate(seen, WORK, MACHINE, ahead_of(guess))
    assert max(map(abs, residuals_of(seen, WORK, MACHINE, found))) < 0.03
    assert found.per_sample_s == pytest.approx(5e-5, rel=0.03)
    for batch in (256, 512, 1024):
        assert throughput(shape(ranks=1, batch=batch), WORK, MACHINE, found).samples_per_s.low > 15_000
        assert throughput(shape(ranks=1, batch=batch), WORK, MACHINE, found).samples_per_s.high < 25_000


@pytest.mark.parametrize("seen", [(32,), (128,), (256,), (32, 128), (32, 256), (128, 256), (32, 128, 256)])
@pytest.mark.parametrize("guess", [1e-4, 2e-4, 4e-4])
def test_every_choice_of_an_h200s_measured_batches_meets_these(seen: tuple[int, ...], guess: float) -> None:
    found = calibrate(rates_of({batch: H200_RATES[batch] for batch in seen}), WORK, MACHINE, ahead_of(guess, 0.0217))
    for batch in seen:
        rate = throughput(shape(ranks=1, batch=batch), WORK, MACHINE, found).samples_per_s
        assert rate.middle == pytest.approx(H200_RATES[batch], rel=0.03)


def test_measured_batches_of_an_h200_tell_of_the_others() -> None:
    for seen in ((32,), (128,), (256,), (32, 128), (32, 256), (128, 256)):
        found = calibrate(rates_of({one: H200_RATES[one] for one in seen}), WORK, MACHINE, ahead_of(2.14e-4, 0.0217))
        for batch, rate in H200_RATES.items():
            predicted = throughput(shape(ranks=1, batch=batch), WORK, MACHINE, found).samples_per_s
            assert predicted.low <= rate <= predicted.high, (seen, batch)


def test_one_batch_leaves_open_whether_launches_or_the_gpu_bound_it() -> None:
    """With 0.055 s for 256 samples, 512 take as long if it was the launches, and twice as long if it was the GPU."""
    seen = rates_of({256: 256 / 0.055})
    found = calibrate(seen, WORK, MACHINE, ahead_of(5e-5))
    twice = shape(ranks=1, batch=512)
    assert half_width(found, twice) > 2 * half_width(replace(found, rivals=()), twice)
    assert sum(probability for probability, _ in found.rivals) == pytest.approx(0.4, abs=0.2)
    # A guess between the two is met by the GPU's own time.
    assert calibrate(seen, WORK, MACHINE, ahead_of(2e-4)).per_sample_s == pytest.approx(2.15e-4, rel=0.02)


def test_a_sample_of_unknown_time_takes_all_of_a_step_that_hides_the_launches() -> None:
    unknown = replace(ahead_of(1.0), compute=None)
    found = calibrate(rates_of({256: 256 / 0.04}), WORK, MACHINE, unknown)
    assert found.launches_ahead and found.per_sample_s == pytest.approx(0.04 / 256, rel=0.02)
    assert not found.reasons[0].warning
