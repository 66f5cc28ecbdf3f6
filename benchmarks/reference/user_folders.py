"""The variables that lead hpclaunch to a person's own files: settings, list of runs, measurements and cache.

A study sets them for what it submits, so that a person's own stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from unittest import mock

XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


@contextlib.contextmanager
def of_a_new_user() -> Iterator[None]:
    """Within it, hpclaunch finds no file of the person who runs this process."""
    with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, dict.fromkeys(("HOME", *XDG), empty)):
        yield
