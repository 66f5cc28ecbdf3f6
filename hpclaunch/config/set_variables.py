"""Whether a file of settings, a job file or a site file sets variables whose values stay on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from hpclaunch.config.catalog import JOB, SITE
from hpclaunch.config.documents import yaml_values
from hpclaunch.config.settings import PROJECT_FILE, SETTINGS_FILE
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.secret_names import is_public_variable, may_set_secret

_FILES = (JOB.entry.rpartition("/")[2], PROJECT_FILE, SETTINGS_FILE, f"{SITE.folder}/{SITE.entry.format('*')}")


def may_set_variables(path: str) -> bool:
    """Whether a file in a project is one that hpclaunch takes variables from, by its relative path."""
    return any(fnmatchcase(f"/{path}", f"*/{pattern}") for pattern in _FILES)


def settings_reason(content: bytes) -> str:
    """Return why such a file is not packed: it has values of variables, or cannot be read; else empty."""
    try:
        values = yaml_values("", content.decode("utf-8"))
    except (InvalidFile, UnicodeDecodeError):
        return "it may set variables, and is not valid YAML"
    names = list(dict.fromkeys(_variables_in(values)))
    if names:
        return f"it holds the values of variables ({', '.join(names)})"
    return "its lines of set-up may set variables" if any(map(may_set_secret, _setup_in(values))) else ""


def _setup_in(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key in ("setup", "rank_setup"):
        yield value
    inner = [(key, one) for one in value] if isinstance(value, list) else []
    inner += value.items() if isinstance(value, dict) else []
    for name, one in inner:
        yield from _setup_in(one, str(name))


def _variables_in(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _variables_in(one)
    if not isinstance(value, dict):
        return
    for name, one in value.items():
        if key == "variables" and one not in ("", None) and not is_public_variable(str(name)):
            yield str(name)
        yield from _variables_in(one, str(name))
