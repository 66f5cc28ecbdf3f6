"""Writes the trained model into the run directory, so that it can be read without hpclaunch; rank 0 writes."""

from __future__ import annotations

import functools
import json
import os
import shutil
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from hpclaunch.training.exports import files, layers, model_folder, portable, whole_model
from hpclaunch.training.exports.model_folder import ABOUT, FOLDER
from hpclaunch.training.input.source import Kind, Source
from hpclaunch.training.model_parallel import groups
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank import strategies, watch


def write(run: Run, model: Any, data: Data) -> dict[str, Any]:
    """Write model/ in the run directory, unless the settings say export_model=false. A collective.

    Returns what the last line of the log tells of it: {"model", "model_files"}; empty if nothing is written. What
    cannot be written of a model is reported and left out. Raises AgreedError if the disk is full.
    """
    if not run.settings.export_model:
        return {}
    watch.reached("the writing of the trained model")
    alone = strategies.alone(model, run.world)
    values = None
    if run.world.mesh is not None or whole_model.is_made_again(model):
        values = whole_model.weights_of(model, keep=run.is_root)
    written: list[str] = run.world.together(
        lambda: _write_folder(run, alone, values, data) if run.is_root else [], long=True
    )
    return {"model": FOLDER, "model_files": written}


def _write_folder(run: Run, model: Any, values: list[Any] | None, data: Data) -> list[str]:
    """values: the whole weights of a model that several ranks share."""

    def fill(folder: str) -> list[str]:
        with groups.whole_models():  # what is made or read there is on this rank alone
            return _write_all(run, model, values, data, folder)

    return model_folder.write(run, fill)


def _write_all(run: Run, model: Any, values: list[Any] | None, data: Data, folder: str) -> list[str]:
    source = data.source
    sample = _sample_of(source)
    copy, reason = None, ""
    try:
        if values is not None:
            model, values = whole_model.copy_of(model, values), None
        copy = portable.copy_of(model, sample)
    except portable.NotPortable as error:
        reason = str(error)
    plain = model if copy is None else copy
    missing: dict[str, str] = {}
    keras = files.keras_names(tf.__version__)
    for name in keras:
        if copy is None:
            missing[name] = reason
        else:
            _attempt(missing, os.path.join(folder, name), functools.partial(files.write_keras, copy, folder, name))
    if values is not None:  # only the ranks together could compute it
        missing[files.SAVED_MODEL] = reason
    else:
        path = os.path.join(folder, files.SAVED_MODEL)
        _attempt(missing, path, lambda: files.write_saved_model(plain, sample, folder))
    files.write_weights(plain, folder, values)
    for why in dict.fromkeys(missing.values()):
        without = ", ".join(name for name in missing if missing[name] == why)
        print("note: the trained model has no {}: {}".format(without, why), flush=True)
    names = [name for name in (*keras, files.SAVED_MODEL, files.WEIGHTS) if name not in missing]
    about = {
        "format": 1,
        "job": run.name,
        "files": names,
        "missing": missing,
        "inputs": tf.nest.map_structure(_shape_and_type, sample),
        "classes": list(getattr(source, "classes", ())),
        "own_classes": sorted(portable.own_classes(plain)),
        "layers": layers.layers_of(plain),
        "epochs": run.settings.epochs,
        "versions": {"tensorflow": tf.__version__, "numpy": np.__version__},
    }
    with open(os.path.join(folder, ABOUT), "w", encoding="utf-8") as file:
        json.dump(about, file, indent=2)
        file.write("\n")
    return names


def _sample_of(source: Source) -> Any:
    """The tf.TensorSpec of one sample's input; of several inputs as a tuple or dictionary."""
    kinds = source.several_inputs or Kind(source.wanted.shape, source.sample_type)
    return tf.nest.map_structure(lambda kind: tf.TensorSpec(kind.shape, tf.as_dtype(kind.dtype)), kinds)


def _shape_and_type(spec: tf.TensorSpec) -> dict[str, Any]:
    return {"shape": [None, *spec.shape], "type": spec.dtype.name}


def _attempt(missing: dict[str, str], path: str, work: Callable[[], Any]) -> None:
    """Do `work`, which writes to `path`; note in `missing` why the model cannot be written so."""
    try:
        work()
    except OSError:
        raise
    except portable.NotPortable as error:
        missing[os.path.basename(path)] = str(error)
    except Exception as error:  # of Keras, or of the layers of the program
        shutil.rmtree(path, ignore_errors=True)
        missing[os.path.basename(path)] = portable.in_a_line(error)
