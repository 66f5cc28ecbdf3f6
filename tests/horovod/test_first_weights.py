"""The first weights of cosmoflow's network, scaled to a few volumes: what each layer then gives for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group horovod: tensorflow is not installed (the extra `train` brings it)", allow_module_level=True)

from tests.horovod.conftest import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:non-integer arguments to randrange")  # Keras draws its seeds so
SIZE = 32
VOLUMES = np.random.RandomState(1).poisson(8, (6, SIZE, SIZE, SIZE, 4)).astype(np.int16)


@pytest.fixture(scope="module")
def job() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "jobs" / "cosmoflow"))
        import first_weights
        import model

        yield {"first_weights": first_weights, "model": model}
    for name in ("first_weights", "model"):
        sys.modules.pop(name, None)


def outputs(network: Any, volumes: Any) -> list[Any]:
    """What each layer with weights gives before its activation, in the order of the layers."""
    value, found = tf.cast(volumes, tf.float32), []
    for layer in network.layers:
        after = layer(value)
        if isinstance(layer, tf.keras.layers.Dense):
            found.append((tf.matmul(value, layer.kernel) + layer.bias).numpy())
        elif hasattr(layer, "kernel"):
            found.append(after.numpy())
        value = after
    return found


def seeded(job: dict[str, ModuleType]) -> Any:
    """The job's network, with the same weights in every run of the test.

    Keras keeps its seed for a thread, so the tests after this one are made with none.
    """

    def make() -> Any:
        tf.keras.utils.set_random_seed(1)
        return job["model"].cosmoflow(SIZE)

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(make).result()


def test_each_layer_gives_numbers_of_the_same_size(job: dict[str, ModuleType]) -> None:
    network = seeded(job)
    first, *_, last = (found.std() for found in outputs(network, VOLUMES))
    assert first > 3 * last, "random weights give numbers of other sizes"
    job["first_weights"].scale_to(network, VOLUMES)
    *inner, last = outputs(network, VOLUMES)
    assert len(inner) == 7
    for found in inner:
        rows = found.reshape(-1, found.shape[-1])
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(rows.std(axis=0), 1, atol=1e-3)
    np.testing.assert_allclose(last.std(axis=0), job["first_weights"].LAST, rtol=1e-3)
    np.testing.assert_allclose(network(VOLUMES), 1.2 * np.tanh(last), atol=1e-5)


def test_only_sizes_change(job: dict[str, ModuleType]) -> None:
    network = seeded(job)
    before = [layer.kernel.numpy() for layer in network.layers if hasattr(layer, "kernel")]
    job["first_weights"].scale_to(network, VOLUMES)
    after = [layer.kernel.numpy() for layer in network.layers if hasattr(layer, "kernel")]
    for old, new in zip(before, after, strict=True):
        ratios = (new / old).reshape(-1, old.shape[-1])
        np.testing.assert_allclose(ratios, np.broadcast_to(ratios[:1], ratios.shape), rtol=1e-3)


def test_volumes_without_matter_give_finite_weights(job: dict[str, ModuleType]) -> None:
    network = job["model"].cosmoflow(SIZE)
    job["first_weights"].scale_to(network, np.zeros((2, SIZE, SIZE, SIZE, 4), np.int16))
    assert all(np.isfinite(weight).all() for weight in network.get_weights())
