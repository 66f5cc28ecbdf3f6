"""Finds a data set on disk and opens it by its layout; never downloads, never invents data."""

from __future__ import annotations

import os
from typing import Callable

from hpclaunch.training.input import cifar_pickles, idx_files, image_folders, npz_file, tfds_folder, tfrecords
from hpclaunch.training.input.source import ImageSet, Source, data_error


def open_dataset(data_dir: str | None, wanted: ImageSet) -> Source:
    """Open the data set in `data_dir`: its own folder, the parent folder, or an .npz file.

    Raises DataError if it is missing or unreadable.
    """
    if not data_dir:
        raise data_error(wanted, "no data folder was given", "--data-dir and HPCLAUNCH_DATA_DIR are empty")
    if not os.path.exists(data_dir):
        raise data_error(wanted, "does not exist", data_dir)
    for folder in (data_dir, os.path.join(data_dir, wanted.name)):
        if os.path.splitext(os.path.basename(os.path.normpath(folder)))[0] in wanted.others:
            continue  # images of the same shape, but of something else
        for layout in _layouts():
            source = layout(wanted, folder)
            if source is not None:
                return source
    raise data_error(wanted, "contains no data set of a known layout (found: {})".format(_list(data_dir)), data_dir)


def _layouts() -> list[Callable[[ImageSet, str], Source | None]]:
    # tensorflow_datasets first: its folder has TFRecords, and says what is in them
    return [tfds_folder.find, image_folders.find, tfrecords.find, cifar_pickles.find, idx_files.find, npz_file.find]


def _list(folder: str) -> str:
    if not os.path.isdir(folder):
        return "a file"
    names = sorted(os.listdir(folder))
    return ", ".join(names[:6] + (["…"] if len(names) > 6 else [])) or "nothing"
