"""What a study needs before it begins: images that fit its experiment, and matplotlib for its pictures.

Each function ends the program with 1 and one error if that is missing. Neither writes a file, or imports TensorFlow.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hpclaunch.core.errors import Refused
from hpclaunch.reports.charts.canvas import need_matplotlib
from hpclaunch.training.input.datasets import open_dataset
from hpclaunch.training.input.image_folders import ImageFolders
from hpclaunch.training.input.source import DataError, ImageSet, Source, data_error

CIFAR10 = ImageSet("cifar10", shape=(32, 32, 3), classes=10, job="cifar")
MNIST = ImageSet("mnist", shape=(28, 28, 1), classes=10, job="mnist", others=("fashion_mnist",))
FASHION_MNIST = ImageSet(
    "fashion_mnist",
    shape=(28, 28, 1),
    classes=10,
    job="mnist",
    others=("mnist",),
    fetch="mnist --set dataset=fashion_mnist",
)
"""As in the model.py of their jobs, which imports TensorFlow."""
FLAG, VARIABLE = "--data-dir", "HPCLAUNCH_DATA_DIR"
"""Both give the data folder; the flag comes first."""


def images(data_dir: str, *wanted: ImageSet, least: int = 0) -> str:
    """Open the data sets in a folder, and return it as a path that every run can use, whatever its own folder is.

    least: training images that the study takes of each. An error says whether the folder is that of the variable.
    """
    folder = os.path.abspath(data_dir) if data_dir else ""
    origin = VARIABLE if data_dir == os.environ.get(VARIABLE) else FLAG
    try:
        for one in wanted:
            _check(open_dataset(folder, one), one, least)
    except DataError as error:
        _end(_add_origin(str(error), folder, origin))
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}\n  next: name another folder with {FLAG}"
        _end(_add_origin(fault, folder, origin))
    return folder


def matplotlib(flag: str) -> None:
    """Import matplotlib, which draws what a flag or a command asks for."""
    try:
        need_matplotlib(flag)
    except Refused as error:
        _end(str(error))


def _check(source: Source, wanted: ImageSet, least: int) -> None:
    """Raise DataError if there are too few images, or if the first one of a class folder has another size."""
    if source.counts["train"] < least:
        what = f"{source.counts['train']:,} training images, and the study takes {least:,}"
        raise data_error(wanted, what, source.path)
    if isinstance(source, ImageFolders) and importlib.util.find_spec("PIL"):
        for split in source.counts:
            source.read_with_pillow(split, [0])


def _add_origin(error: str, folder: str, origin: str) -> str:
    """Return an error about a path in the folder, with the folder's origin behind the path as in `hpclaunch submit`."""
    if not folder or not error.startswith(folder):
        return error
    below, _, fault = error.removeprefix(folder).partition(": ")
    return f"{folder}{below} (from {origin}): {fault}"


def _end(text: str) -> NoReturn:
    raise SystemExit(f"{Path(sys.argv[0]).stem}: {text}")
