"""python cpu_replicas.py REPLICAS SCRIPT ARGUMENTS… runs a training script with so many CPU devices in one process.

CPU_REPLICAS_CORES=N keeps it on N of the cores that it may use.
"""

import os
import runpy
import sys
from pathlib import Path

from hpclaunch import training  # before TensorFlow, so that tf.keras is Keras 2

# isort: split
import tensorflow as tf

assert training

replicas, script = int(sys.argv[1]), sys.argv[2]
if "CPU_REPLICAS_CORES" in os.environ:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["CPU_REPLICAS_CORES"])])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
sys.argv = sys.argv[2:]
sys.path.insert(0, str(Path(script).parent))
runpy.run_path(script, run_name="__main__")
