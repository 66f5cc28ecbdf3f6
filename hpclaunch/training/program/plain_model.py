"""Writes a trained model of PyTorch or JAX into the run directory, to be read without hpclaunch; rank 0 writes."""

from __future__ import annotations

import json
import os
import platform
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from hpclaunch.training.checkpoints.folders import sha256_of, write_arrays
from hpclaunch.training.exports import model_folder
from hpclaunch.training.input.source import Source
from hpclaunch.training.program.run import Run
from hpclaunch.training.rank import watch
from hpclaunch.training.rank.failure import TrainingError

WEIGHTS = "weights.npz"


def write(
    run: Run,
    source: Source,
    arrays: Callable[[], Iterable[tuple[str, np.ndarray]]],
    writers: Mapping[str, Callable[[str], None]],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """Write model/ in the run directory, unless the settings say export_model=false. A collective.

    arrays: gives the weights by name, of types that NumPy has: they become weights.npz. writers: more files, by name,
    each with what writes it to a path. Returns what the last line of the log tells: {"model", "model_files"}; empty if
    nothing is written. Raises AgreedError if the disk is full, or two arrays have one name.
    """
    if not run.settings.export_model:
        return {}
    watch.reached("the writing of the trained model")

    def fill(folder: str) -> list[str]:
        named = _named_arrays(arrays())
        with open(os.path.join(folder, WEIGHTS), "wb") as file:
            write_arrays(file, named.items())
        for name, writes in writers.items():
            writes(os.path.join(folder, name))
        names = [*writers, WEIGHTS]
        about = {
            "format": 1,
            "job": run.name,
            "files": names,
            "sha256": {name: sha256_of(os.path.join(folder, name)) for name in names},
            "arrays": [[name, array.dtype.name, list(array.shape)] for name, array in named.items()],
            **_inputs(source),
            "classes": list(getattr(source, "classes", ())),
            "epochs": run.made["epochs"],
            "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
        }
        with open(os.path.join(folder, model_folder.ABOUT), "w", encoding="utf-8") as file:
            json.dump(about, file, indent=2)
            file.write("\n")
        return names

    written = run.world.together(lambda: model_folder.write(run, fill) if run.is_root else [], long=True)
    return {"model": model_folder.FOLDER, "model_files": run.world.gather(written)[0]}


def _named_arrays(arrays: Iterable[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    named: dict[str, np.ndarray] = {}
    for name, array in arrays:
        if name in named:
            raise TrainingError(
                "the trained model has two arrays named {!r}, so {} cannot hold both: give them other names, or resume "
                "the run with --export-model=false".format(name, WEIGHTS)
            )
        named[name] = array
    return named


def _inputs(source: Source) -> dict[str, Any]:
    """What model.json says of the inputs; nothing if they are no single array."""
    if source.sample_type is None:
        return {}
    try:
        kind = np.dtype(source.sample_type).name
    except TypeError:  # a type that NumPy lacks
        kind = str(source.sample_type)
    return {"inputs": {"shape": [None, *source.wanted.shape], "type": kind}}
