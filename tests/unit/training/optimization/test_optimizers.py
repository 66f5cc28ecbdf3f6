"""LARS, LARC, LAMB, AdamW and Muon against their formulas in NumPy, Keras, and a record of tensorflow-addons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from hpclaunch.training import options
from hpclaunch.training.optimization import hidden_weights, learning_rate, optimizers, techniques
from hpclaunch.training.optimization.lamb import AdamW, Lamb
from hpclaunch.training.optimization.lars import Lars
from hpclaunch.training.optimization.muon import Muon, orthogonal
from hpclaunch.training.rank import legacy_keras

# tensorflow-addons is at its end: its LAMB was run once, and what it did was kept.
KNOWN = json.loads((Path(__file__).parent / "known" / "lamb.json").read_text())
START = {name: np.array(value) for name, value in KNOWN["start"].items()}  # a kernel, a zero bias, a gamma
GRADIENTS = [{name: np.array(value) for name, value in step.items()} for step in KNOWN["gradients"]]
VECTORS = {"bias", "gamma"}
Weights = dict[str, Any]


def trained(optimizer: Any) -> Weights:
    weights = {name: tf.Variable(value, dtype=tf.float32) for name, value in START.items()}
    for step in GRADIENTS:
        optimizer.apply_gradients([(tf.constant(step[name], tf.float32), weights[name]) for name in weights])
    return {name: weight.numpy() for name, weight in weights.items()}


def steps() -> Iterator[tuple[int, str, Any]]:
    for number, step in enumerate(GRADIENTS, 1):
        for name, gradient in step.items():
            yield number, name, gradient


def assert_equal(found: Weights, expected: Weights) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


def numpy_lars(rate: float, momentum: float, decay: float, trust: float, clip: bool, excluded: set[str]) -> Weights:
    """You et al. 2017, algorithm 1; apex's LARC divides the local rate by the global one and clips at 1."""
    w = {name: value.copy() for name, value in START.items()}
    v = {name: np.zeros_like(value) for name, value in START.items()}
    for _, name, gradient in steps():
        g, local = gradient, 1.0
        norm_w, norm_g = np.linalg.norm(w[name]), np.linalg.norm(g)
        if name not in excluded:
            if norm_w > 0 and norm_g > 0:
                local = trust * norm_w / (norm_g + decay * norm_w)
                local = min(local / rate, 1.0) if clip else local
            g = gradient + decay * w[name]
        v[name] = momentum * v[name] + rate * local * g
        w[name] = w[name] - v[name]
    return w


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("trust", [0.001, 0.2])
def test_lars_and_larc(clip: bool, exclude: bool, trust: float) -> None:
    found = trained(Lars(0.1, momentum=0.9, weight_decay=0.01, trust=trust, clip=clip, exclude_vectors=exclude))
    assert_equal(found, numpy_lars(0.1, 0.9, 0.01, trust, clip, VECTORS if exclude else set()))


def numpy_adamw(rate: float, decay: float, epsilon: float, excluded: set[str], layers: bool) -> Weights:
    """Loshchilov and Hutter 2017, algorithm 2; with `layers` You et al. 2019, algorithm 2, phi the identity."""
    w = {name: value.copy() for name, value in START.items()}
    m = {name: np.zeros_like(value) for name, value in START.items()}
    v = {name: np.zeros_like(value) for name, value in START.items()}
    for t, name, g in steps():
        m[name] = 0.9 * m[name] + 0.1 * g
        v[name] = 0.999 * v[name] + 0.001 * g**2
        r = m[name] / (1 - 0.9**t) / (np.sqrt(v[name] / (1 - 0.999**t)) + epsilon)
        r = r + (0 if name in excluded else decay) * w[name]
        norm_w, norm_r = np.linalg.norm(w[name]), np.linalg.norm(r)
        if layers and name not in excluded and norm_w > 0 and norm_r > 0:
            r = r * norm_w / norm_r
        w[name] = w[name] - rate * r
    return w


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_lamb_and_adamw(exclude: bool, decay: float) -> None:
    excluded = VECTORS if exclude else set()
    found = trained(Lamb(0.05, weight_decay=decay, exclude_vectors=exclude))
    assert_equal(found, numpy_adamw(0.05, decay, 1e-6, excluded, layers=True))
    found = trained(AdamW(0.05, weight_decay=decay, exclude_vectors=exclude))
    assert_equal(found, numpy_adamw(0.05, decay, 1e-7, excluded, layers=False))


def test_lamb_does_what_tensorflow_addons_did() -> None:
    assert_equal(trained(Lamb(0.05, exclude_vectors=False)), KNOWN["after"]["reference"])
    assert_equal(trained(Lamb(0.05, weight_decay=0.01)), KNOWN["after"]["excluded"])


def test_adamw_is_adam_without_decay_and_keras_adamw_with_it() -> None:
    assert_equal(trained(AdamW(0.01)), trained(legacy_keras.Adam(0.01)))
    keras = getattr(tf.keras.optimizers, "AdamW", None)
    if keras is not None:  # from TensorFlow 2.11 on
        assert_equal(trained(AdamW(0.01, weight_decay=0.1, exclude_vectors=False)), trained(keras(0.01, 0.1)))


def numpy_muon(rate: float, momentum: float, decay: float) -> Weights:
    """Jordan et al. 2024: Nesterov's momentum, five rounds of Newton-Schulz; Liu et al. 2025: 0.2 sqrt(max(m, n))."""
    w = numpy_adamw(rate, 0.0, 1e-7, set(), layers=False)  # of the vectors
    (name,) = set(START) - VECTORS
    kernel, average = START[name].copy(), np.zeros_like(START[name])
    for _, name_of_step, gradient in steps():
        if name_of_step != name:
            continue
        average = momentum * average + gradient
        u = gradient + momentum * average
        wide = u.shape[0] <= u.shape[1]
        x = (u if wide else u.T) / np.linalg.norm(u)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        step = 0.2 * np.sqrt(max(u.shape)) * (x if wide else x.T)
        kernel = kernel - rate * (step + decay * kernel)
    return {**w, name: kernel}


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon(decay: float) -> None:
    assert_equal(trained(Muon(0.05, momentum=0.9, weight_decay=decay)), numpy_muon(0.05, 0.9, decay))


def test_an_exponential_average_of_the_gradients_gives_the_same_steps() -> None:
    """The later form of the publication's program: its direction is (1 - momentum) times as long."""
    momentum, steps_ = 0.95, [np.random.RandomState(seed).normal(size=(5, 3)) for seed in range(6)]
    weight = tf.Variable(np.ones((5, 3)))
    optimizer = Muon(0.1, momentum=momentum)
    average, expected = np.zeros((5, 3)), np.ones((5, 3))
    for gradient in steps_:
        optimizer.apply_gradients([(tf.constant(gradient), weight)])
        average = momentum * average + (1 - momentum) * gradient
        direction = (1 - momentum) * gradient + momentum * average
        expected -= 0.1 * 0.2 * 5**0.5 * orthogonal(tf.constant(direction.T)).numpy().T
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-7)  # the rate is a float32


def test_a_weight_that_is_none_of_muons_is_updated_as_by_adamw() -> None:
    start, gradient = np.ones((4, 3)), np.arange(12.0).reshape(4, 3) - 4
    found = {}
    for optimizer in (Muon(0.1, weight_decay=0.3), AdamW(0.1, weight_decay=0.3)):
        weight = tf.Variable(start)
        setattr(weight, hidden_weights.ROWS, 0)
        for _ in range(3):
            optimizer.apply_gradients([(tf.constant(gradient), weight)])
        found[type(optimizer)] = weight.numpy()
    np.testing.assert_array_equal(found[Muon], found[AdamW])


def test_muon_takes_the_heads_of_an_attention_as_one_matrix_from_its_inputs() -> None:
    random = np.random.RandomState(1)
    start, gradient = random.normal(size=(2, 6, 2, 4))
    heads, matrix = tf.Variable(start), tf.Variable(start.reshape(6, 8))
    setattr(heads, hidden_weights.ROWS, 1)
    Muon(0.1).apply_gradients([(tf.constant(gradient), heads)])
    Muon(0.1).apply_gradients([(tf.constant(gradient.reshape(6, 8)), matrix)])
    np.testing.assert_allclose(heads.numpy().reshape(6, 8), matrix.numpy(), rtol=1e-12)


def test_muon_takes_a_kernel_of_a_convolution_as_a_matrix_of_its_inputs_and_outputs() -> None:
    random = np.random.RandomState(1)
    start, gradient = (random.normal(size=(3, 3, 2, 4)).astype("float32") for _ in range(2))
    kernel, matrix = tf.Variable(start), tf.Variable(start.reshape(18, 4))
    Muon(0.1).apply_gradients([(tf.constant(gradient), kernel)])
    Muon(0.1).apply_gradients([(tf.constant(gradient.reshape(18, 4)), matrix)])
    np.testing.assert_allclose(kernel.numpy().reshape(18, 4), matrix.numpy(), rtol=1e-5, atol=1e-6)


def test_muons_step_has_singular_values_near_one_in_every_direction() -> None:
    """Those of the gradient differ by a factor of 50. A gradient of zero, as of a frozen branch, changes nothing."""
    random = np.random.RandomState(2)
    left, _ = np.linalg.qr(random.normal(size=(6, 6)))
    right, _ = np.linalg.qr(random.normal(size=(40, 6)))
    found = orthogonal(tf.constant((left * np.geomspace(1, 50, 6)) @ right.T, tf.float32)).numpy()
    values = left.T @ found @ right
    assert np.abs(values - np.diag(np.diag(values))).max() < 1e-4, "it has the gradient's directions"
    least, most = np.diag(values).min(), np.diag(values).max()
    assert least > 0.65 and most < 1.25
    assert not orthogonal(tf.zeros([2, 3])).numpy().any()


def test_rows_of_an_embedding_count_as_a_whole_variable() -> None:
    dense, sparse = tf.Variable(tf.ones([5, 2])), tf.Variable(tf.ones([5, 2]))
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([1, 4, 1]), [5, 2])
    Lamb(0.1).apply_gradients([(rows, sparse)])
    Lamb(0.1).apply_gradients([(tf.convert_to_tensor(rows), dense)])
    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-6)
    assert (dense.numpy()[0] == 1).all() and (dense.numpy()[1] < 1).all()


@pytest.mark.parametrize("name", optimizers.NAMES)
def test_an_optimizer_made_anew_from_its_configuration_is_the_same(name: str) -> None:
    made = optimizers.make(name, 0.03, weight_decay=0.01, momentum=0.8, exclude_vectors=False)
    again = type(made).from_config(made.get_config())  # what hvd.DistributedOptimizer does
    assert_equal(trained(again), trained(made))


def test_the_options_name_what_there_is() -> None:
    from hpclaunch.training.optimization import batch_norm, precision

    rows = options.rows_of({"from": ["samples", "batch_norm"]})
    assert tuple(rows["optimizer"]["choices"]) == optimizers.NAMES
    assert tuple(rows["batch_norm"]["choices"]) == batch_norm.KINDS
    assert rows["precision"]["choices"] == list(precision.POLICIES)
    assert sorted(rows["scale_learning_rate"]["choices"]) == sorted(learning_rate.SCALING)
    others = options.rows_of({"from": "other_frameworks"})["scale_learning_rate"]["choices"]
    assert sorted([*others, learning_rate.ADASCALE]) == sorted(learning_rate.SCALING)
    assert tuple(rows["decay"]["choices"]) == learning_rate.DECAYS
    with pytest.raises(ValueError, match="not one of adam"):
        optimizers.make("lion", 0.1)
    with pytest.raises(TypeError, match="speed is not one of"):
        optimizers.make("sgd", 0.1, speed=2)


RATES = [0.1, 0.2, 0.2, 0.01]
PULLS = [1.0, -2.0, 3.0, 0.5]


def sgd_at(corrected: bool) -> float:
    """A weight of 0 after PULLS as gradients at RATES, with a momentum of 0.5."""
    weight, optimizer = tf.Variable(0.0), optimizers.make("sgd", 0.1, momentum=0.5, momentum_correction=corrected)
    for rate, pull in zip(RATES, PULLS, strict=True):
        optimizer.learning_rate = rate
        optimizer.apply_gradients([(tf.constant(pull), weight)])
    return float(weight)


def test_momentum_follows_a_changed_rate() -> None:
    """Goyal et al. 2017: u = 1, -1.5, 2.25, 1.625 by equation 9, then w = -(0.1 u1 + 0.2 u2 + 0.2 u3 + 0.01 u4)."""
    assert sgd_at(corrected=True) == pytest.approx(-0.26625, rel=1e-6)
    weight = velocity = 0.0
    for n, (rate, pull) in enumerate(zip(RATES, PULLS, strict=True)):  # equation 10, corrected as in section 3
        velocity = 0.5 * (rate / RATES[n - 1] if n else 1.0) * velocity + rate * pull
        weight -= velocity
    assert weight == pytest.approx(-0.26625)
    # Keras's: v = 0.1, -0.35, 0.425, 0.2175.
    assert sgd_at(corrected=False) == pytest.approx(-0.3925, rel=1e-6)


def test_sgd_with_one_rate_is_that_of_keras() -> None:
    for momentum in (0.0, 0.9):
        assert_equal(trained(optimizers.make("sgd", 0.1, momentum=momentum)), trained(legacy_keras.SGD(0.1, momentum)))


@pytest.mark.parametrize("switch", ["--shard-optimizer=true", "--tensor-parallel=2", "--pipeline-stages=2"])
def test_muon_is_refused_where_ranks_hold_parts_of_weights(switch: str) -> None:
    parser = options.parser("a test", {"from": ["samples", "model_parallel"]})
    (fault,) = techniques.faults(techniques.parse(parser, ["--optimizer=muon", switch]))
    assert fault == f"--optimizer=muon needs whole matrices: omit {switch.partition('=')[0]}" + (
        "=true" if "shard" in switch else ""
    )
