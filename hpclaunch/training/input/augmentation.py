"""Random flips, crops, scales, shears, colours and mixing of image batches; holds no random state.

Every number is a function of (seed, rank, epoch, sample): a resumed run draws what the first would
have drawn, whatever the batch size.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from hpclaunch.training.input import lens
from hpclaunch.training.rank.failure import TrainingError

# The columns of a sample's random numbers. Each technique has fixed columns, so that one technique does not change the
# numbers of another. Philox makes four numbers at a time, so the width is a multiple of four.
DRAWS = 16
FLIP_HORIZONTAL, FLIP_VERTICAL, SHIFT_Y, SHIFT_X, SCALE, BRIGHTNESS, CONTRAST, SATURATION = range(8)
WHICH_MIX, SHARE, BOX_Y, BOX_X = range(8, 12)
SHEAR, DISTORTION = range(12, 14)

PHILOX = 1  # tf.random.Algorithm.PHILOX, as the raw operation wants it
GREY = (0.299, 0.587, 0.114)  # luma of ITU-R BT.601
QUANTILES = 1024


@dataclass(frozen=True)
class Augmentation:
    """The augmentation of training images; the defaults change nothing.

    flip_horizontal, flip_vertical: mirror every second image. crop: shift by up to this many pixels in each direction,
    and fill with zeros (the same as zero padding and a random crop). scale: enlarge or shrink by a factor in
    1 - scale .. 1 + scale. shear: move rows sideways by a part of their distance from the middle row, in
    -shear .. shear. lens_distortion: bend straight lines as a lens does, with a strength k in -x .. x (lens.py).
    brightness, contrast, saturation: a factor in 1 - x .. 1 + x. mixup, cutmix: the alpha of Beta(alpha, alpha) from
    which an image's share in the mixture is drawn (0: off; with both, one of them by chance).
    Mixing makes labels float32 [b, classes]; `loss` names the loss that fits.
    """

    flip_horizontal: bool = False
    flip_vertical: bool = False
    crop: int = 0
    scale: float = 0.0
    shear: float = 0.0
    lens_distortion: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    classes: int = 0

    def __post_init__(self) -> None:
        for name in ("scale", "shear", "brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingError("{}={}: a number from 0 and below 1 is expected".format(name, getattr(self, name)))
        if not 0 <= self.lens_distortion < lens.FOLDS_FROM:
            message = "lens_distortion={}: a number from 0 and below 1/3 is expected; more would fold the corners"
            raise TrainingError(message.format(self.lens_distortion))
        for name in ("crop", "mixup", "cutmix"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise TrainingError("{}={}: a number from 0 is expected".format(name, getattr(self, name)))
        if self.mixes and self.classes < 1:
            raise TrainingError("mixup and cutmix need the number of classes")

    @property
    def mixes(self) -> bool:
        """Whether labels become float32 [b, classes]."""
        return self.mixup > 0 or self.cutmix > 0

    @property
    def loss(self) -> str:
        """Keras's name of the cross-entropy for the resulting labels."""
        return "categorical_crossentropy" if self.mixes else "sparse_categorical_crossentropy"

    @property
    def changes(self) -> bool:
        """Whether any technique is requested."""
        return self.moves or self.colours or self.mixes

    @property
    def moves(self) -> bool:
        return self.flip_horizontal or self.flip_vertical or self.crop > 0 or self.interpolates

    @property
    def interpolates(self) -> bool:
        """Whether new pixels lie between old ones."""
        return self.scale > 0 or self.shear > 0 or self.lens_distortion > 0

    @property
    def only_copies(self) -> bool:
        """Whether images move so that every new pixel is a copy of an old one."""
        return self.moves and not self.interpolates

    @property
    def still(self) -> Augmentation:
        """The same without moves, for images that have been moved before."""
        straight = replace(self, scale=0.0, shear=0.0, lens_distortion=0.0)
        return replace(straight, flip_horizontal=False, flip_vertical=False, crop=0)

    @property
    def colours(self) -> bool:
        return self.brightness > 0 or self.contrast > 0 or self.saturation > 0

    def apply(self, images: Any, labels: Any, draws: Any, as_pixels: bool = False) -> tuple[Any, Any]:
        """Augment a batch: uint8 [b, h, w, c], int64 [b], draws [b, DRAWS] -> float32 in 0..1, labels (see above).

        as_pixels: images stay in 0..255: uint8, or float32 if colours or mixing make fractions of them.
        """
        if self.moves:
            images = moved(images, self, draws)
        if as_pixels and not (self.colours or self.mixes):
            return images, labels
        images = to_float(images)
        if self.colours:
            images = coloured(images, self, draws)
        if self.mixes:
            images, labels = mixed(images, tf.one_hot(labels, self.classes), self, draws)
        return (images * 255.0 if as_pixels else images), labels


def from_options(asked: Any, classes: int) -> Augmentation:
    """The augmentation that a job's options request (parameters.json), for a data set with `classes` classes."""
    return Augmentation(
        flip_horizontal=asked.flip_horizontal,
        flip_vertical=asked.flip_vertical,
        crop=asked.crop,
        scale=asked.scale_images,
        shear=asked.shear,
        lens_distortion=asked.lens_distortion,
        brightness=asked.brightness,
        contrast=asked.contrast,
        saturation=getattr(asked, "saturation", 0.0),  # a job with grey images has no such option
        mixup=asked.mixup,
        cutmix=asked.cutmix,
        classes=classes,
    )


def to_float(images: Any) -> Any:
    """Images uint8 as float32 in 0..1.

    The values are those of tf.cast and a multiplication, but they are written to memory only once: a batch is larger
    than the processor's caches.
    """
    return tf.quantization.dequantize(tf.bitcast(images, tf.quint8), 0.0, 1.0, mode="MIN_FIRST")


def random_numbers(seed: int, rank: Any, epoch: Any, first: Any, count: Any) -> Any:
    """Uniform float32 [count, DRAWS] in [0, 1) for the samples first .. first + count - 1 of a rank's epoch.

    Philox-4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") numbers its blocks of four with a
    128-bit counter. The key comes from the seed. The upper half of the counter is (epoch, rank), and the lower half
    counts the sample's blocks, so that no two samples, epochs or ranks share a block.
    tf.random.Generator.from_seed(seed + rank) would give every rank the same stream, shifted by four numbers. rank and
    epoch must be below 2**32.
    """
    key = int.from_bytes(hashlib.sha256("{}/augmentation".format(seed).encode("utf-8")).digest()[:8], "little")
    low = tf.cast(first, tf.uint64) * (DRAWS // 4)
    high = tf.bitwise.left_shift(tf.cast(epoch, tf.uint64), tf.constant(32, tf.uint64)) + tf.cast(rank, tf.uint64)
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=tf.stack([tf.cast(count, tf.int64), DRAWS]),
        key=tf.constant([key], tf.uint64),
        counter=tf.stack([low, high]),
        alg=PHILOX,
        dtype=tf.float32,
    )


def moved(images: Any, how: Augmentation, draws: Any) -> Any:
    """Flip, shift, scale, shear and distort a batch (any number type, [b, h, w, c]) in one pass.

    Pixels from outside are 0. Without scale, shear and distortion pixels are copied exactly; pixels between others are
    bilinear, and rounded if they are whole numbers.
    """
    images = tf.convert_to_tensor(images)
    transforms = _places(images, how, draws)
    if how.lens_distortion:
        return lens.distorted(images, transforms, how.lens_distortion * (2.0 * draws[:, DISTORTION] - 1.0))
    rounds = how.interpolates and images.dtype.is_integer  # the operation would cut fractions off, and darken images
    found = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(images, tf.float32) if rounds else images,
        transforms=transforms,
        output_shape=images.shape[1:3],
        fill_value=0.0,
        interpolation="BILINEAR" if how.interpolates else "NEAREST",
        fill_mode="CONSTANT",
    )
    return tf.cast(tf.round(found), images.dtype) if rounds else found


def _places(images: Any, how: Augmentation, draws: Any) -> Any:
    """Where the new pixels lie in the images, as ImageProjectiveTransform wants it, float32 [b, 8].

    An output pixel x reads the input at s * (x - middle) + middle + shift, with s negative for a mirror image; without
    scaling all of these are whole numbers in float32. A sheared image reads the row y at x + shear * (y - middle of y).
    """
    height, width = images.shape[1], images.shape[2]
    zoom = 1.0 / _factor(how.scale, draws[:, SCALE]) if how.scale else tf.ones_like(draws[:, SCALE])
    step_y = tf.where(coin(how.flip_vertical, draws[:, FLIP_VERTICAL]), -zoom, zoom)
    step_x = tf.where(coin(how.flip_horizontal, draws[:, FLIP_HORIZONTAL]), -zoom, zoom)
    middle_y, middle_x = (height - 1) / 2.0, (width - 1) / 2.0
    start_y = middle_y - step_y * middle_y + shift(how.crop, draws[:, SHIFT_Y])
    start_x = middle_x - step_x * middle_x + shift(how.crop, draws[:, SHIFT_X])
    zero = tf.zeros_like(zoom)
    slant = zero
    if how.shear:
        slant = step_x * how.shear * (2.0 * draws[:, SHEAR] - 1.0)
        start_x -= slant * middle_y
    return tf.stack([step_x, slant, start_x, zero, step_y, start_y, zero, zero], axis=1)


def coloured(images: Any, how: Augmentation, draws: Any) -> Any:
    """Change brightness, contrast (around the image's mean grey) and saturation, in this order; float32 in 0..1."""

    def factor(most: float, column: int) -> Any:
        return _factor(most, draws[:, column])[:, None, None, None]

    if how.brightness:
        images = images * factor(how.brightness, BRIGHTNESS)
    if how.contrast:
        middle = tf.reduce_mean(_grey(images), axis=[1, 2, 3], keepdims=True)
        images = middle + (images - middle) * factor(how.contrast, CONTRAST)
    if how.saturation and images.shape[3] == 3:  # a grey image has no saturation
        grey = _grey(images)
        images = grey + (images - grey) * factor(how.saturation, SATURATION)
    return tf.clip_by_value(images, 0.0, 1.0)


def mixed(images: Any, labels: Any, how: Augmentation, draws: Any) -> tuple[Any, Any]:
    """Mix every image with its neighbour in the batch; labels float32 [b, classes] are mixed in the same shares.

    mixup (Zhang et al. 2018): share * own + (1 - share) * other. cutmix (Yun et al. 2019): a box with 1 - share of the
    area and a random centre comes from the other image; the border may cut the box, so the share is computed from its
    actual area. The batch is in random order, so the neighbour is any sample of the rank's shard.
    """
    others, other_labels = tf.roll(images, 1, axis=0), tf.roll(labels, 1, axis=0)
    by_box = coin(how.cutmix > 0, draws[:, WHICH_MIX]) if how.mixup else tf.fill([tf.shape(images)[0]], True)
    share = tf.where(by_box, _beta(how.cutmix, draws[:, SHARE]), _beta(how.mixup, draws[:, SHARE]))
    own = tf.cast(~_box(share, draws, images.shape[1], images.shape[2]), tf.float32)
    weight = tf.where(by_box[:, None, None], own, share[:, None, None])  # [b, h, w]: the own image's share of a pixel
    share = tf.reduce_mean(weight, axis=[1, 2])[:, None]
    weight = weight[:, :, :, None]
    return weight * images + (1 - weight) * others, share * labels + (1 - share) * other_labels


def _box(share: Any, draws: Any, height: int, width: int) -> Any:
    """Which pixels lie in the box, bool [b, h, w]."""
    side = tf.sqrt(1.0 - share)

    def inside(length: int, column: int) -> Any:
        centre = tf.floor(draws[:, column] * length)
        half = tf.floor(side * length) / 2.0
        places = tf.range(length, dtype=tf.float32)[None]
        return (places >= tf.floor(centre - half)[:, None]) & (places < tf.floor(centre + half)[:, None])

    return inside(height, BOX_Y)[:, :, None] & inside(width, BOX_X)[:, None, :]


def _beta(alpha: float, uniform: Any) -> Any:
    """Values of Beta(alpha, alpha), from uniform numbers and the inverse of its distribution; zeros if alpha is 0."""
    if not alpha:
        return tf.zeros_like(uniform)
    place = uniform * QUANTILES
    below = tf.minimum(tf.cast(place, tf.int32), QUANTILES - 1)
    table = tf.constant(beta_quantiles(alpha), tf.float32)
    low, high = tf.gather(table, below), tf.gather(table, below + 1)
    return low + (high - low) * (place - tf.cast(below, tf.float32))


def beta_quantiles(alpha: float) -> np.ndarray:
    """The quantiles of Beta(alpha, alpha) at 0, 1/QUANTILES, …, 1 as float64, by bisection."""
    wanted = np.linspace(0, 1, QUANTILES + 1)
    low, high = np.zeros_like(wanted), np.ones_like(wanted)
    with tf.init_scope():  # computed once, not in every batch
        for _ in range(40):
            middle = (low + high) / 2
            under = tf.math.betainc(np.full_like(middle, alpha), np.full_like(middle, alpha), middle).numpy() < wanted
            low, high = np.where(under, middle, low), np.where(under, high, middle)
    found = (low + high) / 2
    found[0], found[-1] = 0.0, 1.0
    return found


def coin(on: bool, uniform: Any) -> Any:
    """Every second one of the uniform numbers as True if `on`, else none, bool."""
    return uniform < (0.5 if on else 0.0)


def shift(most: int, uniform: Any) -> Any:
    """A whole number in -most .. most."""
    return tf.floor(uniform * (2 * most + 1)) - most


def _factor(most: float, uniform: Any) -> Any:
    return 1.0 - most + 2.0 * most * uniform


def _grey(images: Any) -> Any:
    if images.shape[3] != 3:
        return tf.reduce_mean(images, axis=3, keepdims=True)
    return tf.reduce_sum(images * tf.constant(GREY), axis=3, keepdims=True)
