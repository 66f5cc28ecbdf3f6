"""Measures how long an all-reduce takes, by its size, with the ranks' own library; it fits and judges nothing."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable

GROWTH = 4
SIZES = tuple(GROWTH**power for power in range(5, 14))
"""Bytes: 1 KiB, 4 KiB, … 64 MiB. A size takes at most four times as long as the one before."""
WARM_UP = 2
"""Repeats of each size that do not count."""
FEWEST, MOST = 3, 20
"""The least and the greatest number of measured repeats of one size."""
SHARE_S, BUDGET_S = 0.5, 30.0
"""Seconds for the repeats of one size, if these are at least the fewest; and for all: larger sizes are left out."""
FLOAT_BYTES = 4

Reduce = Callable[[], None]


def measure(
    prepare: Callable[[int], Reduce], agree: Callable[[int], int], clock: Callable[[], float] = time.perf_counter
) -> list[dict[str, Any]]:
    """The median time of an all-reduce of every size on this rank, with the number of repeats. A collective.

    prepare: returns what reduces so many bytes once, and returns when this rank has the sum.
    agree: the number of rank 0, on every rank; the ranks must repeat equally often.
    """
    began, rows = clock(), []
    first = prepare(SIZES[0])
    first()  # connects the ranks
    estimate = _seconds(first, clock)
    for size in SIZES:
        repeats = agree(repeats_of(estimate, BUDGET_S - (clock() - began)))
        if not repeats:
            break
        once = prepare(size)
        for _ in range(WARM_UP):
            once()  # allocates the buffers of this size
        found = median(_seconds(once, clock) for _ in range(repeats))
        rows.append({"bytes": size, "seconds": found, "n": repeats})
        estimate = GROWTH * found
    return rows


def _seconds(once: Reduce, clock: Callable[[], float]) -> float:
    began = clock()
    once()
    return clock() - began


def repeats_of(one_s: float, left_s: float) -> int:
    """The number of repeats, given the time of one (at most) and what is left; 0 if the fewest would take longer."""
    wanted = max(FEWEST, min(MOST, int(SHARE_S / max(one_s, 1e-9))))
    return wanted if (WARM_UP + wanted) * one_s <= left_s else 0


def by_horovod(tf: Any, hvd: Any, process_set: Any = None, ranks: int = 0) -> dict[str, Any]:
    """The times with Horovod, which is started, and what carries its messages. A collective of all ranks.

    process_set: that of this rank, with so many ranks; without one all ranks reduce together.
    """
    group, size_of_group = process_set or hvd.global_process_set, ranks or hvd.size()
    on_gpu = bool(tf.config.get_visible_devices("GPU"))

    def prepare(size: int) -> Reduce:
        values = tf.ones([size // FLOAT_BYTES])

        def once() -> None:
            total = hvd.allreduce(values, op=hvd.Sum, name="doctor.{}".format(size), process_set=group)
            check_sum(float(total[0]), size_of_group)  # reading it also waits for a GPU

        return once

    def agree(number: int) -> int:
        return int(hvd.broadcast(tf.constant(number), 0, name="doctor.repeats"))

    through = "MPI" if hvd.mpi_enabled() else "Gloo"
    if on_gpu and hvd.nccl_built():
        through = "NCCL"
    return {"library": "Horovod", "through": through, "on_gpus": on_gpu, "rows": measure(prepare, agree)}


def by_torch(torch: Any, dist: Any, device: Any) -> dict[str, Any]:
    """The times with torch.distributed, whose process group is started. A collective."""

    def prepare(size: int) -> Reduce:
        ones = torch.ones(size // FLOAT_BYTES, device=device)
        values = torch.empty_like(ones)

        def once() -> None:
            values.copy_(ones)  # the sum replaces the values
            dist.all_reduce(values)
            check_sum(float(values[0]), dist.get_world_size())

        return once

    def agree(number: int) -> int:
        value = torch.tensor([number], device=device)
        dist.broadcast(value, 0)
        return int(value[0])

    through = {"nccl": "NCCL", "gloo": "Gloo"}.get(dist.get_backend(), dist.get_backend())
    rows = measure(prepare, agree)
    return {"library": "torch.distributed", "through": through, "on_gpus": device.type == "cuda", "rows": rows}


def check_sum(found: float, expected: int) -> None:
    """Raise ArithmeticError if a sum of ones over all ranks is not their number."""
    if found != expected:
        raise ArithmeticError("a sum of ones over {} ranks is {}".format(expected, found))
