"""Memory of a GPU against cases worked by hand, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.memory import (
    Model,
    activation_bytes,
    bytes_per_parameter,
    largest_batch,
    memory,
    need,
    other_bytes,
    states_bytes,
    transformer_layer_bytes,
)

MIB = 2**20
RESNET_50 = Model(parameters=25.58e6, saved_bytes=79.8 * MIB)


@pytest.mark.parametrize(
    ("optimizer", "precision", "expected"),
    [
        ("sgd", "float32", 8),
        ("momentum", "float32", 12),
        ("lars", "float32", 12),
        ("larc", "float32", 12),
        ("Adam", "float32", 16),
        ("adamw", "float32", 16),
        ("lamb", "float32", 16),
        ("sgd", "mixed", 10),
        ("momentum", "mixed", 14),
        ("adam", "mixed", 18),
    ],
)
def test_bytes_of_a_parameter(optimizer: str, precision: str, expected: int) -> None:
    assert bytes_per_parameter(optimizer, precision) == expected  # type: ignore[arg-type]


def test_an_unknown_optimizer_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'adagrad' is not one of sgd, momentum"):
        states_bytes(1, "adagrad")


def test_parts_by_hand() -> None:
    assert states_bytes(336.2e6, "adam") == pytest.approx(5.3792e9)
    assert activation_bytes(79.8 * MIB, 64) == pytest.approx(5_890_816_082, rel=1e-6)
    assert other_bytes(1000) == 128 * MIB + 1024 * MIB + 1000


def test_a_transformer_layer_by_hand() -> None:
    # s b h = 524,288; 5 a s / h = 40
    assert transformer_layer_bytes(512, 1, 1024, 16) == 524_288 * (34 + 40)
    assert transformer_layer_bytes(512, 1, 1024, 16, tensor_parallel=2) == 524_288 * (10 + 12 + 20)


def test_resnet_50_on_a_p100_by_hand() -> None:
    # 14.72 GB usable - 0.30696 GB states - 1.20796 GB other = 13.20508 GB; 92.044 MB a sample: 143.46
    assert largest_batch(RESNET_50, "momentum", "float32", 16e9) == 143
    assert memory(RESNET_50, "momentum", "float32", 143, 16e9).fits
    found = memory(RESNET_50, "momentum", "float32", 144, 16e9)
    assert not found.fits and found.reason.verdict.startswith("does not fit: 14.77 of 14.72 GB")


def test_a_model_that_does_not_fit_has_no_batch() -> None:
    assert largest_batch(replace(RESNET_50, parameters=1e9), "adam", "float32", 16e9) == 0
    with pytest.raises(ValueError, match="saved_bytes"):
        largest_batch(replace(RESNET_50, saved_bytes=0), "adam", "float32", 16e9)


def test_splitting_leaves_the_unsplittable_part_on_every_gpu() -> None:
    model = Model(parameters=1e9, saved_bytes=8 * MIB, unsplittable=0.2e9)
    found = memory(model, "adam", "float32", 10, 80e9, gpus_per_replica=4)
    assert found.states == pytest.approx(16 * (0.2e9 + 0.2e9))
    assert found.activations == pytest.approx(1.1 * 8 * MIB * 10 / 4)


MODELS = st.builds(
    Model, parameters=st.floats(1e5, 1e10), saved_bytes=st.floats(1e4, 1e9), largest_layer=st.floats(0, 1e5)
)


@given(MODELS, st.sampled_from(["sgd", "momentum", "adam"]), st.floats(8e9, 200e9), st.sampled_from([1, 2, 4, 8]))
def test_the_largest_batch_fits_and_one_more_does_not(model: Model, optimizer: str, gpu: float, gpus: int) -> None:
    batch = largest_batch(model, optimizer, "mixed", gpu, gpus_per_replica=gpus)
    assert not memory(model, optimizer, "mixed", batch + 1, gpu * (1 - 1e-9), gpus_per_replica=gpus).fits
    assert batch == 0 or memory(model, optimizer, "mixed", batch, gpu, gpus_per_replica=gpus).fits


@given(MODELS, st.integers(1, 64))
def test_what_parallelism_is_chosen_by_is_the_memory_of_one_gpu(model: Model, batch: int) -> None:
    wanted = need(model, "adam", "float32", batch)
    assert wanted.on_each(1) == pytest.approx(memory(model, "adam", "float32", batch, 80e9).total)
