"""Ends a training under a TensorFlow strategy at once: the data sets of its replicas are not tuned."""

from __future__ import annotations

from typing import Any


def leave_untuned(tf: Any) -> None:
    """Switch autotune off for the data sets that a strategy makes, one for each replica, to copy batches to a device.

    The options of a program's own data set do not reach them. TensorFlow's tuning thread wakes after 0.01, 0.02, 0.04,
    ... up to 60 seconds. Deleting an iterator, as model.fit does at its end, waits for the thread, once for each
    replica. The buffers of these data sets have a fixed size, so there is nothing to tune.

    TensorFlow has no option for this, so a function of its package is replaced, as 2.15 and 2.20 name it. If
    it has another name, all stays as it is (decision 23).
    """
    try:
        from tensorflow.python.data.ops import multi_device_iterator_ops as module
    except ImportError:
        return
    make = getattr(module, "_create_device_dataset", None)
    if make is None or getattr(make, "is_untuned", False):
        return
    options = tf.data.Options()
    options.autotune.enabled = False

    def untuned(*arguments: Any, **keywords: Any) -> Any:
        return make(*arguments, **keywords).with_options(options)

    untuned.is_untuned = True  # type: ignore[attr-defined]
    module._create_device_dataset = untuned
