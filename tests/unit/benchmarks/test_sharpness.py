"""Eigenvalues of Hessians that are known: a quadratic, a linear regression, a quartic; and the study's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

if not (Path(__file__).parents[3] / "benchmarks").is_dir():
    pytest.skip("group checkout: an sdist holds no benchmarks", allow_module_level=True)
try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

Reference = Callable[[str], ModuleType]
SPECTRUM = (10.0, -8.0, 5.0, 4.5, *np.linspace(1.0, 0.0, 36))


def quadratic() -> Any:
    """A symmetric matrix with this spectrum, [40, 40]."""
    turned, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((len(SPECTRUM), len(SPECTRUM))))
    return turned @ np.diag(SPECTRUM) @ turned.T


def test_the_spectrum_of_a_quadratic(reference: Reference) -> None:
    matrix = quadratic()
    pairs = reference("hessian").largest(lambda vector: matrix @ vector, 40, 4, tolerance=1e-4, most=500)
    for pair, exact in zip(pairs, SPECTRUM, strict=False):
        assert pair.value == pytest.approx(exact, rel=1e-4)
        assert pair.residual <= 1e-4 and pair.products < 500
    first = pairs[0]
    away = np.linalg.norm(matrix @ first.vector - first.value * first.vector)
    assert first.residual == pytest.approx(away / first.value, rel=1e-6)


def test_the_search_ends_after_the_most_products_and_says_how_far_it_is(reference: Reference) -> None:
    matrix = quadratic()
    (pair,) = reference("hessian").largest(lambda vector: matrix @ vector, 40, 1, tolerance=1e-9, most=3)
    assert pair.products == 3 and pair.residual > 1e-9
    nearest = min(abs(pair.value - exact) for exact in SPECTRUM)
    assert nearest <= pair.residual * abs(pair.value)


def test_eigenvalues_of_zero_are_found(reference: Reference) -> None:
    only = np.diag([2.0, 0.0, 0.0])
    pairs = reference("hessian").largest(lambda vector: only @ vector, 3, 3, tolerance=1e-6, most=50)
    assert [pair.value for pair in pairs] == [pytest.approx(2), pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9)]
    with pytest.raises(ValueError, match="no 4 eigenvalues"):
        reference("hessian").largest(lambda vector: only @ vector, 3, 4)


def test_the_hessian_of_a_linear_regression(reference: Reference) -> None:
    """It is X'X / n, also from batches of unequal size."""
    hessian, draw = reference("hessian"), np.random.default_rng(2)
    inputs = draw.standard_normal((50, 8)).astype(np.float32)
    targets = draw.standard_normal((50, 1)).astype(np.float32)
    weights = tf.Variable(draw.standard_normal((8, 1)).astype(np.float32))
    batches = [(tf.constant(inputs[part]), tf.constant(targets[part])) for part in (slice(37), slice(37, 50))]
    product = hessian.product_of(lambda x, y: tf.reduce_mean((x @ weights - y) ** 2) / 2, [weights], batches)
    exact = inputs.T @ inputs / 50
    vector = draw.standard_normal(8)
    np.testing.assert_allclose(product(vector), exact @ vector, rtol=1e-4)
    values = np.linalg.eigvalsh(exact.astype(np.float64))[::-1]
    for pair, value in zip(hessian.largest(product, 8, 3, tolerance=1e-3, most=500), values, strict=False):
        assert pair.value == pytest.approx(value, rel=1e-4)


def test_the_hessian_of_several_variables_at_a_place(reference: Reference) -> None:
    """Of a^4 + a b^2 summed over the entries: 12 a^2, 2 b and 2 a."""
    hessian = reference("hessian")
    a, b = tf.Variable([[1.0], [2.0]]), tf.Variable([3.0, -1.0])
    unused = tf.Variable(5.0)

    def loss(_: Any) -> Any:
        return tf.reduce_sum(a**4) + tf.reduce_sum(tf.squeeze(a) * b**2)

    product = hessian.product_of(loss, [a, b, unused], [(tf.zeros(3),)])
    found = np.stack([product(unit) for unit in np.eye(5)])
    exact = [[12, 0, 6, 0, 0], [0, 48, 0, -2, 0], [6, 0, 2, 0, 0], [0, -2, 0, 4, 0], [0, 0, 0, 0, 0]]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def stored(reference: Reference, folder: Path) -> None:
    store, cases = reference("store"), reference("sharpness_cases")
    for case, batch in cases.batches(cases.FULL).items():
        for seed in (1, 2, 3):
            measured = {
                "batch": batch,
                "epoch": 90 + seed,
                "training_loss": 0.1,
                "training_accuracy": 0.9,
                "test_accuracy": 0.4 + seed / 100,
                "generalization_gap": 0.5 - seed / 100,
                "sharpness": 1118.3 * seed,
                "eigenvalues": [-5.0, 1118.3 * seed],
            }
            settings = cases.settings_of(cases.FULL, batch)
            store.write(
                store.Result(study="sharpness", case=case, seed=seed, settings=settings, measured=measured), folder
            )


def test_the_table_and_the_panels_have_medians_with_their_range(reference: Reference, tmp_path: Path) -> None:
    report = reference("sharpness_report")
    stored(reference, tmp_path)
    found = reference("studies").by_case("sharpness", tmp_path)
    assert list(found) == list(reference("sharpness_cases").CASES)
    row = report.cells("large-batch", found["large-batch"])
    assert row[:3] == ["batch 512", "512", "92 (91 to 93)"]
    assert row[5:] == ["42.0% (41.0% to 43.0%)", "48.0% (47.0% to 49.0%)", "2,237 (1,118 to 3,355); -5", "1, 2, 3"]
    above = report.cells("small-batch-loss-above", found["small-batch-loss-above"])
    assert above[0] == "batch 32, loss above the large batch's"
    series = report.eigenvalues_panel(found).series[0]
    assert (series.x, series.y, series.low, series.high) == (
        [1, 2],
        [2236.6, -5],
        [1118.3, -5],
        [pytest.approx(3354.9), -5],
    )
    assert report.accuracy_panel(found).series[0].x == pytest.approx([1118.3, 2236.6, 3354.9])


def test_a_result_with_other_settings_is_to_do(
    reference: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(reference, tmp_path)
    store, report = reference("store"), reference("sharpness_report")
    old = store.read("sharpness", "large-batch", 2, tmp_path)
    store.write(replace(old, settings={**old.settings, "epochs": 99}), tmp_path)
    monkeypatch.setattr("sys.argv", ["sharpness.py", "--list", f"--results={tmp_path}"])
    assert reference("sharpness").main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:30] for line in lines if line.endswith("  to do")] == ["large-batch            seed 2 "]
    assert ", largest eigenvalue 3,355, " in lines[-2]
    found = reference("studies").by_case("sharpness", tmp_path)
    assert report.cells("large-batch", found["large-batch"])[-1] == "1, 3"


def test_a_training_keeps_the_checkpoints_of_all_its_epochs(reference: Reference) -> None:
    study = reference("sharpness")
    settings = study.settings_of(study.FULL, 32)
    arguments = study.arguments_of(settings, 3)
    assert settings["learning_rate"] == pytest.approx(0.00025)
    assert {"--keep-checkpoints=100", "--epochs=100", "--batch-norm=none", "--seed=3"} <= set(arguments)


@pytest.mark.parametrize(
    ("losses", "synthetic", "epoch"),
    [([2, 1, 0.4, 0.6, 0.3], False, 3), ([0.1, 2, 0.1], False, None), ([2, 1], False, None), ([0.1, 2], True, 2)],
)
def test_the_loss_comes_below_that_of_the_large_batch_between_two_epochs(
    reference: Reference, losses: list[float], synthetic: bool, epoch: int | None
) -> None:
    sharpness = reference("sharpness")

    class Network:
        def read(self, checkpoint: int) -> None:
            self.loss = losses[checkpoint - 1]

        def evaluate(self, *_: Any) -> tuple[float, float]:
            return self.loss, 0.5

    training = SimpleNamespace(
        settings={"synthetic": synthetic}, checkpoints={place: place for place in range(1, len(losses) + 1)}
    )
    if epoch is None:
        with pytest.raises(RuntimeError, match=r"above and below 0\.5"):
            sharpness.epoch_below(Network(), SimpleNamespace(sample=()), training, 0.5)
    else:
        assert sharpness.epoch_below(Network(), SimpleNamespace(sample=()), training, 0.5) == epoch
