"""One's own arrays in an npz file, divided among the ranks."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Union

from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data, data, own_path, source

Names = Union[str, Sequence[str], Mapping[str, str]]


def arrays(
    run: Run, path: str = "", inputs: Names = "x", targets: Names = "y", held_out: float = 0.1, weights: Names = ""
) -> Data:
    """One's own arrays in an npz file, divided among the ranks. A collective.

    path: without one, the file that the settings name (data_dir). inputs, targets: the names of the arrays, [n, ...] of
    any number type: INPUTS_train, TARGETS_train, INPUTS_test and TARGETS_test (and ..._validation, if there are samples
    for it), or INPUTS and TARGETS, of which `held_out` (0 to 1) is kept for the test, chosen by the seed. Whole-number
    targets [n] are classes; all others are numbers to predict. For a model of several inputs or outputs: a tuple of
    names, in the order of the model's, or a dictionary by the names of its inputs or outputs. weights: those of the
    samples, float [n], as Keras takes them; for several outputs also in such a form. Raises AgreedError for a file that
    is missing or has other arrays.
    """
    path = own_path(run, path)
    seed = run.settings.seed
    names: tuple[Any, ...] = (inputs, targets, weights) if weights else (inputs, targets)
    return data(run, source(run, lambda: ArrayFile(path, names, held_out, seed)))
