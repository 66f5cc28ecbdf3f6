"""The folders of the installed package and of the user (XDG base directory specification)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's own sites, jobs, templates and settings."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config")


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of state that is kept between commands, such as the list of runs."""
    return _folder(environment, "XDG_STATE_HOME", ".local/state")


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of measurements."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of files that can be computed again."""
    return _folder(environment, "XDG_CACHE_HOME", ".cache")


def _folder(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    home = environment.get("HOME") or os.path.expanduser("~")
    if home == "~":  # a user without a name and without HOME
        home = "/"
    return Path(environment.get(variable) or Path(home, below_home)) / "hpclaunch"
