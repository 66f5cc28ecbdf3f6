"""Where messages go when hpclaunch is used from Python: to the logger ``hpclaunch``, and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hpclaunch.actions.system import System

LOGGER = logging.getLogger("hpclaunch")
"""A program that wants the messages gives it a handler; without one nothing is printed."""
LOGGER.addHandler(logging.NullHandler())


def this_system(warn: Callable[[str], None] = LOGGER.warning) -> System:
    """Return clock, folders and environment of this process. No question is asked: the answer to each is no."""
    return System(warn=warn, tell=LOGGER.info)
