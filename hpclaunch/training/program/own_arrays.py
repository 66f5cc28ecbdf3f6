"""One's own arrays in an npz file, divided among the ranks."""

from __future__ import annotations

from hpclaunch.training.input.array_file import ArrayFile
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data, data, own_path, source


def arrays(run: Run, path: str = "", inputs: str = "x", targets: str = "y", held_out: float = 0.1) -> Data:
    """One's own arrays in an npz file, divided among the ranks. A collective.

    path: without one, the file that the settings name (data_dir). inputs, targets: the names of the arrays, [n, ...] of
    any number type: INPUTS_train, TARGETS_train, INPUTS_test and TARGETS_test (and ..._validation, if there are samples
    for it), or INPUTS and TARGETS, of which `held_out` (0 to 1) is kept for the test, chosen by the seed. Whole-number
    targets [n] are classes; all others are numbers to predict. Raises AgreedError for a file that is missing or has
    other arrays.
    """
    path = own_path(run, path)
    seed = run.settings.seed
    return data(run, source(run, lambda: ArrayFile(path, (inputs, targets), held_out, seed)))
