"""Measures the matrix product and the copy rate of a rank's device, in two to six seconds; it judges nothing.

The values are random, as those of a training: of equal ones a GPU may need less power, and multiply them faster.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable

SMALLEST, LARGEST = 256, 16384
"""Rows of the square matrices. They double until one product takes `LONG_S`."""
LONG_S = 0.05
SHARE_S = 0.6
"""Seconds for one arithmetic, and for the copy, if these are at least the fewest repeats."""
FEWEST = 3
"""The least number of measured repeats."""
COPIED_BYTES = 256 * 2**20
"""Larger than the caches of processors and GPUs, and small enough for every memory."""
FLOAT_BYTES = 4

Once = Callable[[], None]


def measure(
    product: Callable[[int, str], Once],
    copy: Callable[[int], Once],
    kinds: "list[str]",
    clock: Callable[[], float] = time.perf_counter,
) -> "dict[str, list[float]]":
    """The TFLOP/s of the product of two square matrices in each arithmetic, and the GB/s that a copy reads and writes.

    product: returns what multiplies matrices of so many rows in an arithmetic of ``kinds`` once, and returns when that
    is done; copy: the same for a copy of so many bytes. Each figure is [the fastest repeat, the median]: where others
    disturb the device, the two differ.
    """
    found: "dict[str, list[float]]" = {}
    for kind in kinds:
        rows = SMALLEST
        once = product(rows, kind)
        while rows < LARGEST and min(_seconds(once, clock) for _ in range(FEWEST)) < LONG_S:
            rows *= 2
            once = product(rows, kind)
        found[kind] = [2 * rows**3 / seconds / 1e12 for seconds in _fastest_and_median(once, clock)]
    amount = 2 * COPIED_BYTES / 1e9
    found["copy"] = [amount / seconds for seconds in _fastest_and_median(copy(COPIED_BYTES), clock)]
    return found


def _fastest_and_median(once: Once, clock: Callable[[], float]) -> "list[float]":
    once()  # the first one loads and allocates
    began, repeats = clock(), []  # type: float, list[float]
    while len(repeats) < FEWEST or clock() - began < SHARE_S:
        repeats.append(_seconds(once, clock))
    return [min(repeats), median(repeats)]


def _seconds(once: Once, clock: Callable[[], float]) -> float:
    began = clock()
    once()
    return clock() - began


def by_torch(torch: Any, device: Any) -> "dict[str, Any]":
    """The speed of a device by PyTorch; on a GPU also TF32, where it has that, and 16 bits (bfloat16)."""
    on_gpu = device.type == "cuda"

    def finish() -> None:
        if on_gpu:
            torch.cuda.synchronize(device)

    def product(rows: int, kind: str) -> Once:
        left = torch.randn(rows, rows, device=device, dtype=torch.bfloat16 if kind == "mixed" else torch.float32)

        def once() -> None:
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            torch.mm(left, left)
            finish()

        return once

    def copy(size: int) -> Once:
        source = torch.rand(size // FLOAT_BYTES, device=device)
        target = torch.empty_like(source)

        def once() -> None:
            target.copy_(source)
            finish()

        return once

    kinds = ["float32"]
    if on_gpu:
        if torch.version.cuda is None:
            kinds += ["mixed"]
        elif torch.cuda.get_device_capability(device)[0] >= 8:
            kinds += ["tf32", "mixed"]
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        found = measure(product, copy, kinds)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    name = torch.cuda.get_device_name(device) if on_gpu else ""
    return {"library": "PyTorch", "name": name, "on_gpu": on_gpu, "speed": found}


def by_tensorflow(tf: Any) -> "dict[str, Any]":
    """The speed of a rank's device by TensorFlow; on a GPU also 16 bits (bfloat16), and TF32 where that is in use."""
    gpus = tf.config.get_visible_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    is_nvidia = "compute_capability" in details
    has_tensor_cores = is_nvidia and details["compute_capability"][0] >= 8
    switch = tf.config.experimental

    def product(rows: int, kind: str) -> Once:
        left = tf.random.normal([rows, rows], dtype=tf.bfloat16 if kind == "mixed" else tf.float32)

        def once() -> None:
            switch.enable_tensor_float_32_execution(kind == "tf32")
            float(tf.matmul(left, left)[0, 0])  # reading it waits for a GPU

        return once

    def copy(size: int) -> Once:
        source = tf.random.uniform([size // FLOAT_BYTES])
        target = tf.Variable(tf.zeros([size // FLOAT_BYTES]))

        def once() -> None:
            target.assign(tf.negative(source))  # an assignment alone may share the memory
            float(target[0])

        return once

    before = switch.tensor_float_32_execution_enabled()
    try:
        kinds = ["float32"]
        if has_tensor_cores:
            kinds += ["tf32", "mixed"]
        elif gpus and not is_nvidia:
            kinds += ["mixed"]
        found = measure(product, copy, kinds)
    finally:
        switch.enable_tensor_float_32_execution(before)
    name = str(details.get("device_name", "")) if gpus else ""
    return {"library": "TensorFlow", "name": name, "on_gpu": bool(gpus), "speed": found}
