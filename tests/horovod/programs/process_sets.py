"""The process sets of `hpclaunch doctor` on real ranks, with three sizes; rank 0 prints what it found."""

import json
import os

import horovod.tensorflow as hvd
import tensorflow as tf

from hpclaunch.training.doctor import all_reduce, process_sets

os.environ[process_sets.DYNAMIC] = "1"
all_reduce.SIZES = all_reduce.SIZES[:3]
hvd.init()
found = process_sets.by_horovod(tf, hvd)
if hvd.rank() == 0:
    print(json.dumps(found), flush=True)
