"""Memory of a GPU against cases worked by hand, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpclaunch.guidelines.memory import (
    Arrangement,
    Model,
    activation_bytes,
    activations_on_rank,
    bytes_per_parameter,
    copied_on_rank,
    largest_batch,
    largest_stage,
    memory,
    parameters_on_rank,
    states_bytes,
    states_on_rank,
    transformer_layer_bytes,
)
from hpclaunch.guidelines.parallelism import Room

MIB = 2**20


def a_room(gpu_bytes: float) -> Room:
    return Room(gpu_bytes=gpu_bytes, gpus_per_node=4, node_bytes=256e9)


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
    model = Model(parameters=1e6, saved_bytes=1, largest_layer=250)
    assert memory(model, "sgd", 1, a_room(16e9)).other == 128 * MIB + 1024 * MIB + 1000


def test_a_transformer_layer_by_hand() -> None:
    # s b h = 524,288; 5 a s / h = 40
    assert transformer_layer_bytes(512, 1, 1024, 16) == 524_288 * (34 + 40)
    assert transformer_layer_bytes(512, 1, 1024, 16, tensor_parallel=2) == 524_288 * (10 + 12 + 20)


def test_resnet_50_on_a_p100_by_hand() -> None:
    # 14.72e9 bytes usable - 0.30696e9 states - 1.20796e9 other = 13.20508e9; 92.044e6 a sample: 143.46
    room = a_room(16e9)
    assert largest_batch(RESNET_50, "momentum", room) == 143
    assert memory(RESNET_50, "momentum", 143, room).fits
    found = memory(RESNET_50, "momentum", 144, room)
    assert not found.fits and found.reason.verdict.startswith("does not fit: 13.75 of 13.71 GB")


def test_a_model_that_does_not_fit_has_no_batch() -> None:
    assert largest_batch(replace(RESNET_50, parameters=1e9), "adam", a_room(16e9)) == 0
    with pytest.raises(ValueError, match="saved_bytes"):
        largest_batch(replace(RESNET_50, saved_bytes=0), "adam", a_room(16e9))


# A GPT by hand: 12 layers of width 1,024, 512 tokens, a vocabulary of 32,768, 16 heads, one output layer of its own.
# A layer: 12 h^2 weights, and 13 h that no rank of a group lacks (two layer norms, two biases after row-parallel
# layers: 6 h) or that are split (7 h). The ends: V h + 512 h before the layers; V h, and 2 h of a layer norm after.
WIDTH, LAYER = 1024, 12 * 1024**2 + 13 * 1024
FIRST, LAST = 32_768 * WIDTH + 512 * WIDTH, 32_768 * WIDTH + 2 * WIDTH
GPT = Model(
    parameters=12 * LAYER + FIRST + LAST,
    saved_bytes=12 * 512 * WIDTH * (34 + 40) * 2,
    largest_layer=32_768 * WIDTH,
    unsplittable=12 * 6 * WIDTH + 514 * WIDTH,
    first_stage=FIRST,
    last_stage=LAST,
    repeated_bytes=12 * 512 * WIDTH * 10 * 2,
    kept_bytes=12 * 512 * WIDTH * 4,
    layer_bytes=512 * WIDTH * 74 * 2,
)


@pytest.mark.parametrize(
    ("arrangement", "parameters"),
    [
        (Arrangement(), 218_789_888),
        # 600,064 whole, and a quarter of 218,189,824
        (Arrangement(tensor_parallel=4), 55_147_520),
        # three of twelve layers, 37,788,672, and the first end, 34,078,720
        (Arrangement(pipeline_stages=4), 71_867_392),
    ],
)
def test_the_parameters_of_the_rank_that_holds_most_by_hand(arrangement: Arrangement, parameters: int) -> None:
    assert parameters_on_rank(GPT, arrangement) == pytest.approx(parameters, rel=1e-9)


@pytest.mark.parametrize(
    ("optimizer", "arrangement", "each"),
    [
        ("adam", Arrangement(state_shards=4), 8 + (8 + 4) / 4),
        ("momentum", Arrangement(state_shards=2), 8 + (4 + 4) / 2),
        ("adam", Arrangement(state_shards=8, precision="mixed"), 10 + (8 + 4) / 8),
        ("sgd", Arrangement(), 8),
    ],
)
def test_sharded_states_by_hand(optimizer: str, arrangement: Arrangement, each: float) -> None:
    assert states_on_rank(GPT, optimizer, arrangement) == pytest.approx(each * 218_789_888)


def test_sharding_holds_what_the_ranks_hold() -> None:
    # tests/horovod count the same: 2 P / N values of Adam, and the rank's part of the weights.
    saved = states_on_rank(GPT, "adam", Arrangement()) - states_on_rank(GPT, "adam", Arrangement(state_shards=4))
    assert saved == pytest.approx((8 - 8 / 4 - 4 / 4) * GPT.parameters)


def test_activations_by_hand() -> None:
    one = activation_bytes(GPT.saved_bytes, 1)
    four = activations_on_rank(GPT, 1, Arrangement(tensor_parallel=4))
    assert four / one == pytest.approx((10 + (24 + 40) / 4) / 74)  # Korthikanti et al. 2022, equation 2
    recomputed = activations_on_rank(GPT, 1, Arrangement(recompute=True))
    assert recomputed == pytest.approx(1.1 * 512 * WIDTH * (12 * 4 + 74 * 2))
    unknown = Model(parameters=160e6, saved_bytes=160e6, largest_layer=10e6)  # 16 layers: 4 groups of 4
    assert activations_on_rank(unknown, 1, Arrangement(recompute=True)) == pytest.approx(1.1 * 80e6)


def test_the_largest_stage() -> None:
    known = Model(parameters=20, saved_bytes=1, layers=(8, 1, 1, 6, 4))
    assert [largest_stage(known, stages) for stages in (1, 2, 3, 5, 9)] == [20, 10, 8, 8, 8]
    guessed = Model(parameters=20, saved_bytes=1, largest_layer=8)
    assert [largest_stage(guessed, stages) for stages in (1, 2, 3)] == [20, 14, 12]


MODELS = st.builds(
    Model, parameters=st.floats(1e5, 1e10), saved_bytes=st.floats(1e4, 1e9), largest_layer=st.floats(0, 1e5)
)
ARRANGEMENTS = st.builds(
    Arrangement,
    precision=st.sampled_from(["float32", "mixed"]),
    recompute=st.booleans(),
    state_shards=st.integers(1, 64),
    tensor_parallel=st.integers(1, 16),
    pipeline_stages=st.integers(1, 16),
)
OPTIMIZERS = st.sampled_from(["sgd", "momentum", "adam"])


@given(MODELS, OPTIMIZERS, st.floats(8e9, 200e9), ARRANGEMENTS)
def test_the_largest_batch_fits_and_one_more_does_not(
    model: Model, optimizer: str, gpu: float, arrangement: Arrangement
) -> None:
    batch = largest_batch(model, optimizer, a_room(gpu), arrangement)
    assert not memory(model, optimizer, batch + 1, a_room(gpu * (1 - 1e-9)), arrangement).fits
    assert batch == 0 or memory(model, optimizer, batch, a_room(gpu), arrangement).fits


@given(MODELS, OPTIMIZERS, ARRANGEMENTS, st.integers(2, 8))
def test_more_ranks_never_need_more_memory_of_each(
    model: Model, optimizer: str, arrangement: Arrangement, times: int
) -> None:
    def needed(changed: Arrangement) -> float:
        return memory(model, optimizer, 4, a_room(40e9), changed).total

    most = needed(arrangement) * (1 + 1e-9)
    assert needed(replace(arrangement, tensor_parallel=times * arrangement.tensor_parallel)) <= most
    assert needed(replace(arrangement, pipeline_stages=times * arrangement.pipeline_stages)) <= most
    assert needed(replace(arrangement, recompute=True)) <= most
    sharded = replace(arrangement, state_shards=times * arrangement.state_shards)
    if arrangement.state_shards > 1:
        assert needed(sharded) <= most
    elif optimizer != "sgd":  # it has no values to share, and 4 / N bytes more
        # What the ranks send each other is copied, which a small model's values do not make up for.
        assert needed(sharded) <= most + copied_on_rank(model, sharded)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(any), st.integers(1, 9))
def test_a_known_division_never_exceeds_the_bound_of_an_unknown_one(layers: list[int], stages: int) -> None:
    sizes = tuple(map(float, layers))
    whole, largest = sum(sizes), max(sizes)
    known = largest_stage(Model(parameters=whole, saved_bytes=1, layers=sizes), stages)
    assert (
        largest <= known <= largest_stage(Model(parameters=whole, saved_bytes=1, largest_layer=largest), stages) + 1e-9
    )
    assert known >= whole / stages - 1e-9


def test_gradient_lag_holds_one_gradient_more() -> None:
    more = states_on_rank(GPT, "adam", Arrangement(gradient_lag=True)) - states_on_rank(GPT, "adam", Arrangement())
    assert more == pytest.approx(4 * GPT.parameters)
