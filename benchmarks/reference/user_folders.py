"""The variables that lead hpclaunch to a person's own files: settings, list of runs, measurements and cache.

A study sets them for what it submits, so that a person's own stay as they are.
"""

from __future__ import annotations

XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
