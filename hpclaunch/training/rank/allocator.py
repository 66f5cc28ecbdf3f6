"""Settings of glibc's memory allocator in a rank's process; another C library keeps its own."""

from __future__ import annotations

import ctypes
import os
from typing import Mapping

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # from glibc's malloc.h
MIB = 2**20
KEPT = 1024 * MIB
"""Unused bytes at the end of the heap that a rank keeps for its next step."""
LARGEST = 32 * MIB
"""Larger blocks than these come from the kernel, and go back to it; glibc takes no more."""


def bound_arenas() -> None:
    """Let glibc use two memory arenas; by default it keeps up to eight per core, each with its own unused memory."""
    _set({M_ARENA_MAX: 2}, "MALLOC_ARENA_MAX")


def keep_freed() -> None:
    """Let glibc keep what one step frees for the next one.

    By default it gives the end of the heap back as soon as 128 KiB of it are free, or twice the largest block that was
    freed. Then every step of PyTorch on a CPU has its activations from new pages (docs/measurements.md).
    """
    _set({M_TRIM_THRESHOLD: KEPT, M_MMAP_THRESHOLD: LARGEST}, "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def _set(values: Mapping[int, int], *variables: str) -> None:
    """Set parameters of mallopt, unless the user has set one of the environment variables for them."""
    if any(name in os.environ for name in variables):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for parameter, value in values.items():
        mallopt(parameter, value)
