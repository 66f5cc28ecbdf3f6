"""Writes synthetic data into a folder, completely or not at all; it never changes data that already exist."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Callable

from hpclaunch.training.input.source import DataError

NEXT = "  next: name another folder, or remove this one"


def place(run_dir: str, *settings: Any) -> str:
    """The folder of a run's synthetic data; other settings have another folder."""
    return os.path.join(run_dir, "made-up", "-".join(str(one) for one in settings))


def written_once(folder: str, settings: tuple[Any, ...], write: Callable[[str], None]) -> str:
    """`folder`, filled by `write`, which gets the folder to write to; data of the same `settings` are used again.

    settings: everything that determines the data, such as samples, shape and seed. The data are written beside `folder`
    and renamed, so that an interrupted program leaves no incomplete data. Raises DataError if the folder contains
    anything else, or cannot be written.
    """
    folder = os.path.abspath(folder)
    mark = ".complete-" + "-".join(str(one) for one in settings)
    if os.path.exists(os.path.join(folder, mark)):
        return folder
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise DataError("{}: holds other data than the made-up ones that are to be written\n{}".format(folder, NEXT))
    partial = folder + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        os.makedirs(partial)
        write(partial)
        with open(os.path.join(partial, mark), "w"):
            pass
        os.rename(partial, folder)
    except _failures() as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = str(error).split("\n")[0]
        raise DataError("{}: made-up data cannot be written: {}\n{}".format(folder, reason, NEXT)) from None
    return folder


def _failures() -> tuple[type[Exception], ...]:
    """The errors of a file that cannot be written; TensorFlow, if a program uses it, has one of its own."""
    tensorflow = sys.modules.get("tensorflow")
    return (OSError,) if tensorflow is None else (OSError, tensorflow.errors.OpError)
