"""No data set of a strategy's iterator is tuned, so nothing waits for the tuning when the iterator is deleted."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow", reason="group training: tensorflow is not installed")

SCRIPT = """
import sys
import tensorflow as tf
from tensorflow.python.data.ops import iterator_ops, multi_device_iterator_ops
from hpclaunch.training.rank import strategies

def watched(kind):
    begin = kind.__init__
    def init(self, dataset=None, *arguments, **keywords):
        if dataset is not None:
            print(kind.__name__, "autotune", dataset.options().autotune.enabled)
        begin(self, dataset, *arguments, **keywords)
    kind.__init__ = init

watched(iterator_ops.OwnedIterator)
watched(multi_device_iterator_ops.OwnedMultiDeviceIterator)
processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, 2 * [tf.config.LogicalDeviceConfiguration()])
strategy = strategies.begin(sys.argv[1], 0, 1, 0)
options = tf.data.Options()
options.autotune.enabled = False
numbers = tf.data.Dataset.range(8).batch(2).with_options(options)
shared = strategy.distribute_datasets_from_function(lambda context: numbers)
values = [strategy.experimental_local_results(value) for value in shared]
print("replicas", len(values[0]), "sum", sum(int(tf.reduce_sum(one)) for value in values for one in value))
"""


REPLICAS = {"mirrored": 2, "central-storage": 2, "one-device": 1, "multiworker": 1}


@pytest.mark.parametrize(("name", "replicas"), REPLICAS.items())
def test_no_data_set_is_tuned(name: str, replicas: int) -> None:
    command = [sys.executable, "-c", SCRIPT, name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if not line.startswith("warning:")]
    assert lines[-1] == f"replicas {replicas} sum 28"
    assert lines[:-1] == ["OwnedMultiDeviceIterator autotune False", *["OwnedIterator autotune False"] * replicas]
