"""The types of the values that a Python program gives to the keywords of the interface."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta

Name = str | os.PathLike[str]
"""A text, a path, or a run (whose path is its run directory)."""
Names = Name | Sequence[Name]
Value = bool | int | float | str
Settings = Mapping[str, Value | Sequence[Value]]
Time = int | str | timedelta
"""Whole seconds, a text as on the command line (``"2:00:00"``, ``"30m"``), or a timedelta."""
