"""The study of the critical batch against known answers: a linear regression, exact laws, a tuning that is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpclaunch.guidelines.efficiency import Pareto

if not (Path(__file__).parents[3] / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)

Reference = Callable[[str], ModuleType]
LAW = Pareto(fewest_epochs=60_000, critical_batch=700)
SIZES = (64, 256, 1024, 4096)


# A linear regression without noise in its targets: inputs x of d standard normal numbers, y = x . w. At a distance e of
# the weights from w the gradient is e, and that of one sample x (x . e): its variance is (d + 1) |e|^2. So the noise
# scale is d + 1 samples all the way. With the rate r / (1 + (d + 1) / B), a step multiplies the loss by
# 1 - a / (1 + (d + 1) / B), where a = 2 r - r^2. To first order in a, the steps to a loss are then those of the law
# with B_crit = (d + 1) / (1 - a / 2).
UNKNOWNS, RATE = 63, 0.03
NOISE = UNKNOWNS + 1
SHRINKS = 2 * RATE - RATE**2


def regression(target: ModuleType, batch: int, seed: int) -> float:
    """Samples until SGD has brought the loss from 1/2 to 0.0015, by the study's own rule for where it crosses."""
    np = pytest.importorskip("numpy", reason="group training: numpy is not installed (the extra `train` brings it)")
    draw = np.random.default_rng([seed, batch])
    away = np.full(UNKNOWNS, UNKNOWNS**-0.5)
    crossing = target.Crossing(target.Target(loss=0.0015, every=1024))
    while crossing.samples is None:
        inputs = draw.standard_normal((batch, UNKNOWNS))
        wrong = np.einsum("bd,d->b", inputs, away)
        crossing.add(batch, float(np.mean(wrong**2) / 2))
        away = away - RATE / (1 + NOISE / batch) * np.einsum("bd,b->d", inputs, wrong) / batch
    return float(crossing.samples)


def test_the_critical_batch_of_a_linear_regression(reference: Reference) -> None:
    target, batch_law = reference("target"), reference("batch_law")
    runs = {batch: [regression(target, batch, seed) for seed in (1, 2)] for batch in (8, 32, 128, 512)}
    law = batch_law.fit(runs)
    assert law.critical_batch == pytest.approx(NOISE / (1 - SHRINKS / 2), rel=0.1)
    assert law.fewest_epochs / law.critical_batch == pytest.approx(math.log(0.5 / 0.0015) / SHRINKS, rel=0.1)
    assert batch_law.misfit(law, runs) < 0.05


@pytest.mark.parametrize("critical", [5.0, 700.0, 1e6])
def test_the_fit_finds_the_law_that_made_the_runs(reference: Reference, critical: float) -> None:
    law = Pareto(fewest_epochs=60_000, critical_batch=critical)
    found = reference("batch_law").fit({batch: [law.epochs(batch)] * 3 for batch in SIZES})
    assert found.critical_batch == pytest.approx(critical, rel=1e-6)
    assert found.fewest_epochs == pytest.approx(60_000, rel=1e-6)


def test_the_fit_has_the_least_squares_of_the_logarithms(reference: Reference) -> None:
    batch_law = reference("batch_law")
    runs = {batch: [LAW.epochs(batch) * factor] for batch, factor in zip(SIZES, (1.3, 0.8, 1.1, 0.9), strict=True)}
    law = batch_law.fit(runs)
    for fewest in (0.99, 1.0, 1.01):
        for critical in (0.99, 1.0, 1.01):
            other = Pareto(fewest_epochs=law.fewest_epochs * fewest, critical_batch=law.critical_batch * critical)
            assert batch_law.misfit(law, runs) <= batch_law.misfit(other, runs)


def test_samples_that_do_not_grow_have_no_critical_batch(reference: Reference) -> None:
    law = reference("batch_law").fit({batch: [50_000.0 - batch] for batch in SIZES})
    assert (law.fewest_epochs, law.critical_batch) == (pytest.approx(50_000, rel=0.1), math.inf)


def test_the_range_holds_the_truth_and_shrinks_with_the_spread(reference: Reference) -> None:
    batch_law = reference("batch_law")

    def ranges(spread: float) -> Any:
        factors = (1 - spread, 1.0, 1 + spread)
        return batch_law.bootstrap({batch: [LAW.epochs(batch) * one for one in factors] for batch in SIZES}, draws=100)

    wide, narrow = ranges(0.1)["critical_batch"], ranges(0.01)["critical_batch"]
    assert wide.low < narrow.low < 700 < narrow.high < wide.high
    assert ranges(0.1)["critical_batch"] == wide  # the same draws every time
    with pytest.raises(ValueError, match="two batch sizes"):
        batch_law.bootstrap({64: [1.0, 2.0]})


def test_the_noise_scales_of_a_run_predict_its_law_at_every_batch_size(reference: Reference) -> None:
    # 50 steps without noise at a noise scale of 200 samples, then 50 at 1000: S = 100 + (50 x 200 + 50 x 1000) / B.
    for batch in SIZES:
        curve = [(50 * (1 + noise / batch), float(noise)) for noise in (200, 1000)]
        assert reference("batch_law").predicted_critical_batch(curve, batch) == pytest.approx(600)


def test_a_loss_crosses_at_the_same_samples_whatever_the_batch(reference: Reference) -> None:
    target = reference("target")
    for batch in (1, 4, 16):
        crossing = target.Crossing(target.Target(loss=1.0, every=16))
        # The loss falls by 0.01 a sample, from 3.005: it is 1 at 200.5 samples, where a batch of one has its centre.
        while crossing.samples is None:
            centre = crossing.seen + batch / 2
            looked = crossing.add(batch, 3.005 - 0.01 * centre)
            assert looked == (crossing.seen % 16 == 0)
        assert crossing.samples == pytest.approx(200.5)
        assert crossing.seen == 224  # the first look whose two sixteens have a mean below the target


def test_a_loss_below_the_target_from_the_start_counts_at_the_first_whole_mean(reference: Reference) -> None:
    target = reference("target")
    crossing = target.Crossing(target.Target(loss=1.0, every=16))
    crossing.add(16, 0.5)
    assert crossing.samples is None and math.isnan(crossing.loss)
    crossing.add(16, 0.7)
    assert (crossing.samples, crossing.loss) == (16.0, pytest.approx(0.6))
    with pytest.raises(ValueError, match="batches of 48 samples"):
        crossing.add(48, 1.0)


def search(rates: ModuleType, samples: Callable[[int], float | None]) -> list[int]:
    """The powers that a tuning tries, where a run ends if it cannot be the best one."""
    tried: dict[int, float | None] = {}
    while (power := rates.next_power(tried)) is not None:
        reached = [found for found in tried.values() if found is not None]
        found = samples(power)
        tried[power] = None if found is None or (reached and found > min(reached)) else found
    return list(tried)


@pytest.mark.parametrize(
    ("best", "tried"), [(0, [0, 1, -1]), (1, [0, 1, 2]), (-2, [0, 1, -1, -2, -3]), (3, [0, 1, 2, 3, 4])]
)
def test_a_tuning_ends_with_the_best_rate_between_two_others(reference: Reference, best: int, tried: list[int]) -> None:
    rates = reference("rate_search")
    assert search(rates, lambda power: 1000 + 100 * (power - best) ** 2) == tried


def test_a_tuning_looks_for_a_rate_that_trains_at_all(reference: Reference) -> None:
    rates = reference("rate_search")
    assert search(rates, lambda power: 500 if power == -3 else None) == [0, 1, -1, 2, -2, 3, -3, -4]
    with pytest.raises(ValueError, match="no rate within 4 doublings"):
        search(rates, lambda power: None)


@pytest.mark.parametrize("best", [4, 6, -4])
def test_a_best_rate_at_the_edge_of_the_grid_is_refused(reference: Reference, best: int) -> None:
    with pytest.raises(ValueError, match="the best rate is the last of the grid, 4 doublings from the rule's"):
        search(reference("rate_search"), lambda power: 1000 + 100 * (power - best) ** 2)


def events(losses: list[float | None], crossing: float | None) -> list[dict[str, Any]]:
    looks: list[dict[str, Any]] = [
        {"event": "look", "samples": 4096 * number, "loss": loss, "accuracy": 0.1 * number, "seconds": float(number)}
        for number, loss in enumerate(losses, 1)
    ]
    for look in looks[1:]:
        look |= {"noise_scale": 100.0 * look["samples"] / 4096, "low": 1.0, "high": None}
    seen = looks[-1]["samples"]
    end = {"event": "crossing", "samples": crossing, "seen": seen, "accuracy": 0.4, "seconds": 4.0, "diverged": False}
    start = {"event": "start", "data": {"layout": "npz", "path": "/somebody/own", "fingerprint": "crc-1"}}
    return [start, *looks, end]


def test_a_run_becomes_a_result(reference: Reference) -> None:
    runs = reference("critical_batch_runs")
    settings = runs.settings_of(runs.FULL, 1024, -1)
    assert settings["learning_rate"] == pytest.approx(0.001 * 2**0.5 / 2)
    assert settings["parts"] == 4
    found = runs.measured(settings, events([None, 1.8, 1.6, 1.4], 10_240.0), 100_000)
    assert (found["reached"], found["steps"], found["samples"]) == (True, 10.0, 10_240.0)
    assert found["images_per_s"] == (4 * 4096 - 1024) / 4
    assert found["noise_scale"] == 400
    assert found["data"] == {"layout": "npz", "fingerprint": "crc-1"}
    assert found["curve"]["steps"] == [4, 8, 12, 16]
    assert found["curve"]["noise_scale"] == [None, 200, 300, 400]
    worth = [1 / (1 + noise / 1024) for noise in (200, 300, 400)]
    mean = sum(w * noise for w, noise in zip(worth, (200, 300, 400), strict=True)) / sum(worth)
    assert found["predicted_critical_batch"] == pytest.approx(mean, rel=1e-4)
    assert json.loads(json.dumps(found)) == found

    lost = runs.measured(settings, events([None, 1.8], None), 8192)
    assert not lost["reached"] and "steps" not in lost
    assert runs.words(lost) == "not at the target within 8192 samples"


def test_every_batch_size_divides_what_it_must(reference: Reference) -> None:
    runs = reference("critical_batch_runs")
    for setup in (runs.FULL, runs.SMALL):
        for batch in setup.sizes:
            settings = runs.settings_of(setup, batch, 0)
            assert setup.target.every % batch == setup.samples % batch == batch % settings["parts"] == 0
            assert settings["parts"] >= 2 and batch // settings["parts"] <= 256


def stored(reference: Reference, folder: Path, samples: Callable[[float], float] = LAW.epochs) -> None:
    """The results of all sizes and seeds, as if the runs followed a law of samples by batch size."""
    store, runs = reference("store"), reference("critical_batch_runs")
    for batch in runs.FULL.sizes:
        for seed in (1, 2, 3):
            settings = runs.settings_of(runs.FULL, batch, 0)
            found = runs.measured(settings, events([None, 1.8, 1.6, 1.4], samples(batch)), 10**7)
            result = store.Result(
                study="critical_batch", case=f"batch-{batch}", seed=seed, settings=settings, measured=found
            )
            store.write(result, folder)


def test_the_law_of_the_finished_runs_is_a_result_too(reference: Reference, tmp_path: Path) -> None:
    report = reference("critical_batch_report")
    assert report.write_law(tmp_path) is None
    stored(reference, tmp_path)
    found = report.write_law(tmp_path).measured
    assert found["critical_batch"] == pytest.approx(700, rel=1e-3)
    assert found["critical_batch_low"] == pytest.approx(700, rel=1e-3)
    assert found["fewest_steps"] == pytest.approx(60_000 / 700, rel=1e-3)
    assert found["noise_scale"] == 400
    text = report.summary(found)
    assert "B_crit = 700 (700 to 700) samples" in text and "B_crit = 900 and a noise scale of 2,000" in text


def test_seeds_with_another_rate_than_the_first_are_in_no_median(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, runs, report = (reference(name) for name in ("store", "critical_batch_runs", "critical_batch_report"))
    stored(reference, tmp_path)
    law = report.write_law(tmp_path)
    assert reference("studies").current("critical_batch_law", tmp_path) == [law]
    first = store.read("critical_batch", "batch-512", 1, tmp_path)
    store.write(replace(first, settings=runs.settings_of(runs.FULL, 512, 1)), tmp_path)  # tuned again
    found = reference("studies").by_case("critical_batch", tmp_path)
    assert {case: [one.seed for one in results] for case, results in found.items() if len(results) < 3} == {
        "batch-512": [1]
    }
    assert reference("studies").current("critical_batch_law", tmp_path) == []  # that of other runs
    monkeypatch.setattr("sys.argv", ["critical_batch.py", "--list", f"--results={tmp_path}", "--sizes", "512"])
    assert reference("critical_batch").main() == 0
    states = [line.rpartition("  ")[2] for line in capsys.readouterr().out.splitlines()[:3]]
    assert states[1:] == ["to do", "to do"] and "steps" in states[0]


def test_the_list_estimates_by_the_law_of_the_results(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, report = reference("critical_batch"), reference("critical_batch_report")
    epochs = f"{LAW.fewest_epochs / study.FULL.samples:.3g}"

    def last_line(folder: Path, *words: str) -> str:
        monkeypatch.setattr("sys.argv", ["critical_batch.py", "--list", f"--results={folder}", *words])
        assert study.main() == 0
        return str(capsys.readouterr().out.splitlines()[-1])

    stored(reference, tmp_path)
    report.write_law(tmp_path)
    expected = f"E_min = {epochs} epochs and B_crit = 700, as fitted to the results in {tmp_path}, and"
    assert expected in last_line(tmp_path, "--seeds", "4")
    # A new folder has none: the law is that of the committed results, and of made-up images a guess.
    assert f"as fitted to the results in {study.store.RESULTS}, and" in last_line(tmp_path / "new")
    assert "B_crit = 500, which is a guess" in last_line(tmp_path / "new", "--small")


def test_a_critical_batch_without_an_end_is_said_to_have_none(reference: Reference, tmp_path: Path) -> None:
    report = reference("critical_batch_report")
    stored(reference, tmp_path, lambda batch: 60_000 - batch)
    law = report.write_law(tmp_path)
    assert reference("store").read("critical_batch_law", "fit", 0, tmp_path) == law
    assert law.measured["critical_batch"] is None
    assert "B_crit = not known" in report.summary(law.measured)


def test_a_tuning_that_is_stored_is_not_run_again(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, runs, study = reference("store"), reference("critical_batch_runs"), reference("critical_batch")
    for power, samples in ((0, 9000.0), (1, 8000.0), (2, None)):
        settings = runs.settings_of(runs.FULL, 256, power)
        found = runs.measured(settings, events([None, 1.8, 1.4], samples), 10**6)
        case = f"batch-256-rate{power:+d}"
        store.write(
            store.Result(study="critical_batch_rates", case=case, seed=1, settings=settings, measured=found), tmp_path
        )
    options = study.argparse.Namespace(results=tmp_path, setup=runs.FULL)
    study.run_size(options, 256, 1)
    found = store.read("critical_batch", "batch-256", 1, tmp_path)
    assert found.measured["samples"] == 8000
    assert found.settings == runs.settings_of(runs.FULL, 256, 1)

    # The table of the tuning has no curve: in a checkout without its raw results, the best rate is run again.
    store.path_of("critical_batch", tmp_path).unlink()
    store.raw_path_of("critical_batch_rates", "batch-256-rate+1", 1, tmp_path).unlink()
    again = {**found.measured, "samples": 8000.5}
    monkeypatch.setattr(study, "one", lambda options, case, batch, power, seed, most: again if power == 1 else None)
    study.run_size(options, 256, 1)
    assert store.read("critical_batch", "batch-256", 1, tmp_path).measured == again


def test_runs_that_follow_no_law_are_refused(reference: Reference, tmp_path: Path) -> None:
    stored(reference, tmp_path, lambda batch: float(batch**2))
    with pytest.raises(SystemExit, match="no law fits the runs"):
        reference("critical_batch_report").write_law(tmp_path)


def test_the_table_has_medians_with_their_range(reference: Reference, tmp_path: Path) -> None:
    report = reference("critical_batch_report")
    stored(reference, tmp_path)
    rows = report.by_batch(reference("studies").current("critical_batch", tmp_path))
    assert list(rows) == [64, 128, 256, 512, 1024, 2048, 4096]
    steps = f"{LAW.epochs(512) / 512:,.0f}"
    assert report.cells(512, rows[512], LAW)[:4] == ["512", "0.001", steps, steps]
    assert report.spread([3.0, 1.0, 2.0], ".1f") == "2.0 (1.0 to 3.0)"
    assert [one.label for one in report.curves_panel(rows).series][:2] == ["batch 64", "batch 128"]
