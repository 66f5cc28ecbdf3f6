"""Programs beside Keras 3, in the newest environment: what trains, and what is refused with which advice."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.site_environment.environments import CASES, ROOT, made
from tests.tiers import LONG

START = "with training.start(training.settings(epochs=1, batch_size_per_rank=4)) as run:\n"
OF_TF_KERAS = "lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)])"
DATA = '    data = training.arrays(run, "numbers.npz", inputs="x", targets="y")\n'
FIT = DATA + "    import tensorflow as tf\n    training.fit(run, {network}, data, loss='mse')\n    print('trained')\n"
OWN_LOOP = """\
    import horovod.tensorflow as hvd, tensorflow as tf
    weights = tf.Variable(tf.zeros([6, 1]))
    for x, y in data.feed.batches_from(0, 0).take(data.feed.steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(((x @ weights)[:, 0] - y) ** 2)
        weights.assign_sub(0.1 * hvd.allreduce(tape.gradient(loss, weights)))
    print("trained")
"""
LIBRARY_FIRST = "from hpclaunch import training\n" + START
TENSORFLOW_FIRST = "import tensorflow as tf\n" + LIBRARY_FIRST
KERAS_FIRST = "from tensorflow import keras\nkeras.layers\n" + LIBRARY_FIRST
WITHOUT_TF_KERAS = "import sys\nsys.modules['tf_keras'] = None\n" + LIBRARY_FIRST
ADD = "error: .* is Keras 3 here.*add the line `from hpclaunch import training` above .* `export TF_USE_LEGACY_KERAS=1`"
INSTALL = r"error: .* is Keras 3 here.*pip install --no-deps 'tf-keras==2\.20\.\*'"
TRAINED = "^trained$"


PROGRAMS = {
    "library first": (LIBRARY_FIRST + FIT.format(network=OF_TF_KERAS), {}, TRAINED),
    "TensorFlow first": (TENSORFLOW_FIRST + FIT.format(network=OF_TF_KERAS), {}, ADD),
}
if LONG:
    PROGRAMS |= {
        "without tf-keras": (WITHOUT_TF_KERAS + FIT.format(network=OF_TF_KERAS), {}, INSTALL),
        "own loop, TensorFlow first": (TENSORFLOW_FIRST + DATA + OWN_LOOP, {}, TRAINED),
        "exported": (TENSORFLOW_FIRST + FIT.format(network=OF_TF_KERAS), {"TF_USE_LEGACY_KERAS": "1"}, TRAINED),
        "Keras first": (KERAS_FIRST + DATA, {}, ADD),
        "switched off": (
            LIBRARY_FIRST + FIT.format(network=OF_TF_KERAS),
            {"TF_USE_LEGACY_KERAS": "0"},
            r"\(it is '0' now\)",
        ),
        "a model of Keras 3": (
            LIBRARY_FIRST + FIT.format(network="lambda: __import__('keras').Sequential([])"),
            {},
            r"error: the network is of keras\..*\.Sequential, not a tf\.keras\.Model",
        ),
        "own loop, without tf-keras": (WITHOUT_TF_KERAS + DATA + OWN_LOOP, {}, TRAINED),
    }


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("program", "variables", "message"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_trains_or_is_told_what_to_do(
    tmp_path: Path, program: str, variables: dict[str, str], message: str
) -> None:
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    numbers = "import numpy; numpy.savez('numbers.npz', x=numpy.ones((40, 6), 'f4'), y=numpy.ones(40, 'f4'))"
    python = made(CASES["newest"]) / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH_", "TF_USE"))}
    own = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "HPCLAUNCH_RUN_DIR": str(tmp_path),
        **variables,
    }
    subprocess.run([python, "-c", numbers], cwd=tmp_path, check=True)
    done = subprocess.run(
        [python, "train.py"], cwd=tmp_path, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert (done.returncode == 0) is (message == TRAINED), done.stdout
    assert re.search(message, done.stdout, re.MULTILINE), done.stdout
    assert "Traceback" not in done.stdout
