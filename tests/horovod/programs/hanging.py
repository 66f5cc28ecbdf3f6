"""Trains a small model through the public face; rank 1 hangs or fails at the place that is named.

hanging.py PLACE stop|wait|fail|fail-everywhere, and options of the library. The watch gets its short time only when
rank 1 hangs: until then, no rank is too slow for it.
"""

import os
import signal
import sys
import threading
import time

from hpclaunch import training
from hpclaunch.training.rank import watch

PLACE, HOW = sys.argv[1:3]
STALL_S = 3.0


def at(run, place):
    """Hang or fail, on rank 1, if this is the place."""
    if place == PLACE and HOW == "fail-everywhere":
        raise ValueError("a fault of every rank")
    if place != PLACE or run.rank != 1:
        return
    if HOW == "fail":
        raise ValueError("a fault of rank 1 alone")
    open(os.path.join(run.folder, "hangs"), "x").close()
    if HOW == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    os.read(os.pipe()[0], 1)  # a system call that never returns


def shorten(run):
    """Give the watch its short time as soon as rank 1 hangs."""
    while not os.path.exists(os.path.join(run.folder, "hangs")):
        time.sleep(0.1)
    watch.this_rank.seconds = STALL_S


def network():
    import tensorflow as tf

    at(this_run, "model")
    return tf.keras.Sequential([tf.keras.layers.Dense(1)])


def samples(run):
    import tensorflow as tf

    at(run, "data")
    rows = tf.data.Dataset.from_tensor_slices((tf.random.stateless_normal([32, 3], [1, 2]), tf.zeros([32])))
    return training.samples(run, rows, test=rows)


def callback(run):
    import tensorflow as tf

    return tf.keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: at(run, "step"))


asked = training.settings(words=sys.argv[3:], epochs=2, batch_size_per_rank=4, stall_minutes=1000.0, export_model=False)
with training.start(asked) as this_run:
    threading.Thread(target=shorten, args=(this_run,), daemon=True).start()
    data = samples(this_run)
    model = training.fit(this_run, network, data, loss="mse", callbacks=[callback(this_run)])
    at(this_run, "evaluation")
    training.evaluate(this_run, model, data)
at(this_run, "exit")
