"""Draws synthetic photographs of potato chips, as class folders of the documented shape.

python drawing.py FOLDER [--samples 769] [--image-size 500] writes FOLDER/train and FOLDER/test, each with Defective and
Non-Defective.
"""

import argparse
import os

import numpy as np

from hpclaunch.training.input.made_up import written_once
from hpclaunch.training.input.shards import stream_seed

CLASSES = ("Defective", "Non-Defective")
DEFECTIVE_PART = 369 / 769  # of the original training images
TEST_PART = 4  # one test image for every four training images, as in the original


def draw(size: int, defective: bool, seed: int) -> np.ndarray:
    """One chip, uint8 [size, size, 3]: an uneven yellow disc on grey; a defective chip has dark burns."""
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:size, 0:size] / size - 0.5
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    edge = 0.36 + 0.05 * np.sin(random.randint(2, 5) * angle + random.uniform(0, 6.3))
    chip = np.clip((edge - radius) * 40, 0, 1)[..., None]
    colour = np.array([225, 185, 95]) + random.uniform(-20, 20, 3)
    image = chip * colour + (1 - chip) * random.uniform(110, 150)
    for _ in range(random.randint(2, 6) if defective else 0):
        away, where = random.uniform(0, 0.25), random.uniform(0, 6.3)
        distance = np.hypot(x - away * np.cos(where), y - away * np.sin(where))
        burn = np.clip((random.uniform(0.04, 0.1) - distance) * 40, 0, 1)[..., None]
        image = image * (1 - 0.7 * burn)
    return np.clip(image + random.normal(0, 8, image.shape), 0, 255).astype(np.uint8)


def write(folder: str, samples: int, size: int, seed: int) -> str:
    """Write `samples` training images and a quarter as many test images as JPEG class folders; returns `folder`.

    Files of the same arguments are used again. Raises DataError if the folder contains anything else.
    """
    return written_once(folder, (samples, size, seed), lambda fresh: _draw_all(fresh, samples, size, seed))


def _draw_all(folder: str, samples: int, size: int, seed: int) -> None:
    import tensorflow as tf

    for split, count in (("train", samples), ("test", max(2, samples // TEST_PART))):
        spoilt = min(count - 1, max(1, round(count * DEFECTIVE_PART)))  # at least one of each class
        for number in range(count):
            place = os.path.join(folder, split, CLASSES[number >= spoilt])
            os.makedirs(place, exist_ok=True)
            image = draw(size, number < spoilt, stream_seed(seed, "chip", split, number))
            with open(os.path.join(place, "chip-{:05d}.jpg".format(number)), "wb") as file:
                file.write(tf.io.encode_jpeg(image, quality=90).numpy())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--samples", type=int, default=769)
    parser.add_argument("--image-size", type=int, default=500)
    parser.add_argument("--seed", type=int, default=123)
    typed = parser.parse_args()
    print(write(typed.folder, typed.samples, typed.image_size, typed.seed))
