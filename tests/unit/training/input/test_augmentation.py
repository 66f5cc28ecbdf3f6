"""Augmentation: streams that never overlap, exact moves, and mixing as published."""

from __future__ import annotations

import pytest

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    pytest.skip("group training: tensorflow is not installed", allow_module_level=True)

from typing import Any

from hpclaunch.training.input import augmentation, lens
from hpclaunch.training.input.augmentation import DRAWS, Augmentation, random_numbers
from hpclaunch.training.input.moves import Moves
from hpclaunch.training.rank.failure import TrainingError

IMAGES = np.random.RandomState(0).randint(1, 256, (6, 8, 8, 3)).astype(np.uint8)
LABELS = np.arange(6, dtype=np.int64)


def draws(count: int = 6, **columns: float) -> Any:
    """Numbers that change nothing but in the named columns."""
    made = np.full((count, DRAWS), 0.5, np.float32)
    for name, value in columns.items():
        made[:, getattr(augmentation, name)] = value
    return tf.constant(made)


def test_philox_gives_the_published_numbers() -> None:
    # Known answer of Random123 (Salmon et al. 2011, kat_vectors): philox4x32-10 of counter 0 and key 0.
    found = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[4],
        key=tf.constant([0], tf.uint64),
        counter=tf.constant([0, 0], tf.uint64),
        alg=augmentation.PHILOX,
        dtype=tf.uint32,
    )
    assert [hex(number) for number in found.numpy()] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_a_samples_numbers_do_not_depend_on_the_batch() -> None:
    whole = random_numbers(7, 3, 2, 0, 10).numpy()
    assert whole.shape == (10, DRAWS) and whole.min() >= 0 and whole.max() < 1
    parts = [random_numbers(7, 3, 2, first, min(4, 10 - first)).numpy() for first in (0, 4, 8)]
    assert (np.concatenate(parts) == whole).all()


def test_no_two_ranks_epochs_samples_or_seeds_share_a_block_of_numbers() -> None:
    worlds = [(seed, rank, epoch) for seed in (1, 2) for rank in (0, 1, 2, 63) for epoch in (0, 1, 2, 90)]
    blocks = [random_numbers(*world, 0, 64).numpy().reshape(-1, 4) for world in worlds]
    every = np.concatenate(blocks)
    assert len(np.unique(every, axis=0)) == len(every)


def test_the_trap_that_this_avoids_is_real() -> None:
    first, second = [tf.random.Generator.from_seed(5 + rank).uniform([64]).numpy() for rank in (0, 1)]
    assert np.intersect1d(first, second).size > 0


def test_every_grey_level_becomes_its_part_of_255() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    assert np.allclose(augmentation.to_float(levels), levels / 255.0, rtol=1e-7, atol=1e-7)


def test_doing_nothing_only_scales_to_0_to_1() -> None:
    images, labels = Augmentation().apply(IMAGES, LABELS, draws())
    assert images.dtype == tf.float32 and np.allclose(images, IMAGES / 255.0) and labels is LABELS


@pytest.mark.parametrize("height", [7, 8, 28, 32, 224])
def test_flips_and_shifts_copy_pixels_exactly(height: int) -> None:
    image = np.random.RandomState(1).randint(1, 256, (1, height, height + 1, 1)).astype(np.uint8)
    how = Augmentation(flip_horizontal=True, flip_vertical=True, crop=2)
    still = augmentation.moved(image, how, draws(1, FLIP_HORIZONTAL=0.5, FLIP_VERTICAL=0.5))
    assert (still.numpy() == image).all()
    mirrored = augmentation.moved(image, how, draws(1, FLIP_HORIZONTAL=0.49, FLIP_VERTICAL=0.5))
    assert (mirrored.numpy() == image[:, :, ::-1]).all()
    mirrored = augmentation.moved(image, how, draws(1, FLIP_HORIZONTAL=0.0, FLIP_VERTICAL=0.0))
    assert (mirrored.numpy() == image[:, ::-1, ::-1]).all()
    padded = np.pad(image, [(0, 0), (2, 2), (2, 2), (0, 0)])
    for place, (y, x) in enumerate([(0, 0), (4, 1), (2, 3)]):
        got = augmentation.moved(image, how, draws(1, SHIFT_Y=(y + 0.5) / 5, SHIFT_X=(x + 0.5) / 5))
        assert (got.numpy() == padded[:, y : y + height, x : x + height + 1]).all(), place


@pytest.mark.parametrize("shape", [(7, 8, 3), (40, 33, 1)])
@pytest.mark.parametrize(
    "how",
    [
        Augmentation(flip_horizontal=True, flip_vertical=True, crop=6),
        Augmentation(flip_horizontal=True),
        Augmentation(crop=3),
    ],
)
def test_images_moved_one_by_one_are_those_of_the_batch(shape: tuple[int, ...], how: Augmentation) -> None:
    images = np.random.RandomState(2).randint(1, 256, (48, *shape)).astype(np.uint8)
    numbers = random_numbers(1, 0, 0, 0, 48)
    moves = Moves(how)
    one_by_one = tf.data.Dataset.from_tensor_slices((images, moves.of_batch(numbers)))
    found = next(iter(one_by_one.map(moves.apply).batch(48)))
    expected = augmentation.moved(images, how, numbers).numpy()
    assert not (expected == images).all()
    np.testing.assert_array_equal(found, expected)


def test_scaling_enlarges_around_the_middle() -> None:
    ramp = np.broadcast_to(np.arange(9, dtype=np.float32)[:, None], (1, 9, 9))[..., None]
    for uniform, factor, seen in [(1.0, 1.5, slice(0, 9)), (0.0, 0.5, slice(2, 7))]:  # outside of `seen` are zeros
        got = augmentation.moved(ramp, Augmentation(scale=0.5), draws(1, SCALE=uniform)).numpy()[0, :, :, 0]
        expected = 4 + (np.arange(9) - 4) / factor  # bilinear interpolation keeps a ramp straight
        assert np.allclose(got[seen, seen], expected[seen, None], atol=1e-5)


def test_a_shear_slants_an_upright_line_around_the_middle_row() -> None:
    line = np.zeros((1, 9, 9, 1), np.float32)
    line[0, :, 4] = 1
    got = augmentation.moved(line, Augmentation(shear=0.5), draws(1, SHEAR=1.0)).numpy()[0, :, :, 0]
    for row, away in enumerate(np.arange(9) - 4):
        expected = np.interp(np.arange(9) + 0.5 * away, np.arange(9), line[0, row, :, 0])  # reads x + 0.5 * away
        assert np.allclose(got[row], expected, atol=1e-6), row
    other = augmentation.moved(line, Augmentation(shear=0.5), draws(1, SHEAR=0.0)).numpy()[0, :, :, 0]
    assert np.allclose(other, got[::-1])
    # Half of the columns are then read outside of the image, where zeros are.
    full = augmentation.moved(np.ones_like(line), Augmentation(shear=0.5), draws(1, SHEAR=1.0)).numpy()
    assert (full[0, 8, 7:] == 0).all() and (full[0, 4] == 1).all()


def test_whole_numbers_between_pixels_are_rounded_not_cut() -> None:
    numbers = random_numbers(1, 0, 0, 0, 6)
    for how in (Augmentation(scale=0.2), Augmentation(shear=0.3), Augmentation(shear=0.1, lens_distortion=0.2)):
        exact = augmentation.moved(IMAGES.astype(np.float32), how, numbers)
        np.testing.assert_array_equal(augmentation.moved(IMAGES, how, numbers), np.round(exact).astype(np.uint8))


def test_a_lens_moves_pixels_by_the_published_formula() -> None:
    side, strength = 9, 0.3
    y, x = np.mgrid[0:side, 0:side].astype(np.float32)
    squared = ((y - 4) ** 2 + (x - 4) ** 2) / 32  # 1 in the corners
    for uniform, k in [(1.0, strength), (0.25, -strength / 2), (0.5, 0.0)]:
        how = Augmentation(lens_distortion=strength)
        for ramp, expected in [(y, 4 + (y - 4) * (1 + k * squared)), (x, 4 + (x - 4) * (1 + k * squared))]:
            got = augmentation.moved(ramp[None, :, :, None], how, draws(1, DISTORTION=uniform)).numpy()[0, :, :, 0]
            inside = (np.abs(4 + (y - 4) * (1 + k * squared) - 4) <= 4) & (np.abs((x - 4) * (1 + k * squared)) <= 4)
            assert np.allclose(got[inside], expected[inside], atol=1e-5)  # bilinear pixels keep a ramp straight
            assert inside.sum() > 20 and got[4, 4] == 4


@pytest.mark.parametrize("size", [8, 128])  # all together, and one by one
def test_a_lens_without_curvature_changes_no_pixel(size: int) -> None:
    images = np.random.RandomState(3).randint(0, 256, (3, size, size + 1, 3)).astype(np.uint8)
    got = augmentation.moved(images, Augmentation(lens_distortion=0.2), draws(3))
    assert got.dtype == tf.uint8 and got.shape == images.shape
    np.testing.assert_array_equal(got, images)
    how = Augmentation(flip_horizontal=True, crop=2, lens_distortion=0.2)
    numbers = draws(3, FLIP_HORIZONTAL=0.1, SHIFT_Y=0.9)
    plain = augmentation.moved(images, Augmentation(flip_horizontal=True, crop=2), numbers)
    np.testing.assert_array_equal(augmentation.moved(images, how, numbers), plain)


def test_a_lens_bends_what_is_scaled_and_sheared_already() -> None:
    images = np.random.RandomState(4).uniform(size=(4, 12, 9, 3)).astype(np.float32)
    moves = {"flip_vertical": True, "crop": 2, "scale": 0.3, "shear": 0.3}
    numbers = random_numbers(1, 0, 0, 0, 4).numpy()
    numbers[:, augmentation.DISTORTION] = 0.5
    straight = augmentation.moved(images, Augmentation(**moves), numbers)
    np.testing.assert_allclose(
        augmentation.moved(images, Augmentation(**moves, lens_distortion=0.2), numbers), straight, atol=1e-5
    )


def test_large_images_are_bent_one_by_one_as_a_batch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    how, numbers = Augmentation(shear=0.2, lens_distortion=0.3), random_numbers(1, 0, 0, 0, 6)
    together = augmentation.moved(IMAGES, how, numbers).numpy()
    monkeypatch.setattr(lens, "LARGE", 1)
    np.testing.assert_array_equal(augmentation.moved(IMAGES, how, numbers), together)
    assert not (together == IMAGES).all()


def test_a_lens_bends_alike_in_a_graph() -> None:
    """TensorFlow's optimizer of graphs takes a slice with new axes for one without them."""
    how, numbers = Augmentation(lens_distortion=0.3), random_numbers(1, 0, 0, 0, 6)
    in_graph = tf.function(lambda images, draws: augmentation.moved(images, how, draws))(tf.constant(IMAGES), numbers)
    np.testing.assert_array_equal(in_graph, augmentation.moved(IMAGES, how, numbers))


def test_colours_keep_what_they_should() -> None:
    images = np.random.RandomState(2).uniform(0.3, 0.6, (2, 8, 8, 3)).astype(np.float32)
    grey = np.array(augmentation.GREY, np.float32)

    def changed(how: Augmentation, **columns: float) -> Any:
        return augmentation.coloured(tf.constant(images), how, draws(2, **columns)).numpy()

    bright = changed(Augmentation(brightness=0.2), BRIGHTNESS=0.75)
    assert np.allclose(bright, images * 1.1, atol=1e-6)
    pale = changed(Augmentation(saturation=0.5), SATURATION=0.0)
    assert np.allclose(pale @ grey, images @ grey, atol=1e-5)
    assert np.allclose(np.std(pale, axis=3), np.std(images, axis=3) / 2, atol=1e-5)
    flat = changed(Augmentation(contrast=0.5), CONTRAST=0.0)
    assert np.allclose((flat @ grey).mean(axis=(1, 2)), (images @ grey).mean(axis=(1, 2)), atol=1e-5)
    assert np.allclose(np.std(flat @ grey, axis=(1, 2)), np.std(images @ grey, axis=(1, 2)) / 2, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_shares_follow_the_beta_distribution(alpha: float) -> None:
    shares = augmentation._beta(alpha, random_numbers(1, 0, 0, 0, 20_000)[:, 0]).numpy()
    assert shares.mean() == pytest.approx(0.5, abs=0.01)
    assert shares.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)  # variance of Beta(alpha, alpha)
    assert shares.min() >= 0 and shares.max() <= 1


def test_mixup_mixes_images_and_labels_in_the_same_share() -> None:
    images, labels = Augmentation(mixup=1.0, classes=6).apply(IMAGES, LABELS, draws(SHARE=0.25))
    other = np.roll(IMAGES, 1, axis=0)
    assert np.allclose(images, (0.25 * IMAGES + 0.75 * other) / 255, atol=1e-5)
    assert np.allclose(labels, 0.25 * np.eye(6) + 0.75 * np.roll(np.eye(6), 1, axis=0), atol=1e-5)


@pytest.mark.parametrize(("centre", "part"), [(0.5, 16 / 64), (0.0, 4 / 64)])
def test_cutmix_counts_the_share_that_is_left(centre: float, part: float) -> None:
    how = Augmentation(cutmix=1.0, classes=6)
    images, labels = how.apply(IMAGES, LABELS, draws(SHARE=0.75, BOX_Y=centre, BOX_X=centre))
    from_other = np.isclose(images, np.roll(IMAGES, 1, axis=0) / 255.0, atol=1e-6).all(axis=3)
    assert (from_other.mean(axis=(1, 2)) == part).all()
    assert np.allclose(np.diag(labels), 1 - part) and np.allclose(np.sum(labels, axis=1), 1)


def test_with_both_mixings_every_image_gets_one() -> None:
    how = Augmentation(mixup=1.0, cutmix=1.0, classes=6)
    numbers = draws(SHARE=0.5).numpy()
    numbers[:3, augmentation.WHICH_MIX] = 0.1
    images, _ = how.apply(IMAGES, LABELS, tf.constant(numbers))
    half = np.isclose(images, (IMAGES / 2.0 + np.roll(IMAGES, 1, axis=0) / 2.0) / 255, atol=1e-5).all(axis=(1, 2, 3))
    assert list(half) == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 1.0},
        {"shear": 1.0},
        {"lens_distortion": 0.34},
        {"crop": -1},
        {"mixup": -0.1},
        {"mixup": 0.2},
        {"contrast": 2},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TrainingError):
        Augmentation(**wrong)
