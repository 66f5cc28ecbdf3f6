"""The variables of a person's shell that name the person and the terminal, and none that change a program."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = (
    *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
)
_BEGINNINGS = ("LC_", "HPCLAUNCH_RUNS_DIR", "HPCLAUNCH_SITE")
_OF_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_OF_DEVICES_TOO = ("ZE_AFFINITY_MASK",)


def person_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the person and the terminal: what a login shell begins with, and hpclaunch's folders."""
    return {name: value for name, value in environment.items() if name in _NAMES or name.startswith(_BEGINNINGS)}


def device_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a scheduler gives a process its GPUs."""
    return {name: environment[name] for name in (*_OF_DEVICES, *_OF_DEVICES_TOO) if name in environment}
