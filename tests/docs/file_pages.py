"""docs/reference/files.md: every key of job files, site files and settings with its type and default, from the code."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from hpclaunch.config.fileformat import INTERNAL, Memory, Walltime
from hpclaunch.config.job import Job
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS

HEAD = """# File keys: all keys of job files, site files and settings

This page is written from the code that reads the files. What each key does is on the page of its file: [job
files](../job-files.md), [site files](../site-files.md), [settings](../settings.md). The files of a run are described in
[runs](../runs.md), and what a program may write there in [the contract with a rank](../contract.md).
"""
FILES = {
    "Job file: `jobs/NAME/job.yaml`": Job,
    "Site file: `site_configs/NAME.yaml`": Site,
    "Settings: `hpclaunch.yaml`, `~/.config/hpclaunch/settings.yaml`": Settings,
}
NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
FORMS = {Walltime: f"time: {WALLTIME_FORMS}", Memory: f"memory: {MEMORY_FORMS}"}


def document() -> str:
    """The whole page."""
    parts = [HEAD]
    seen: set[type] = set()
    for title, kind in FILES.items():
        parts.append(f"## {title}\n\n{_table(kind)}")
        for inner in _inside(kind, seen):
            parts.append(f"### `{inner.__name__}`\n\n{_table(inner)}")
    return "\n".join(parts)


def _inside(kind: Any, seen: set[type]) -> Iterator[type]:
    """The records that a record may hold, each once on the page."""
    for one in _fields(kind):
        for inner in _records(one.type):
            if inner not in seen:
                seen.add(inner)
                yield inner
                yield from _inside(inner, seen)


def _records(kind: Any) -> Iterator[type]:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
    for inner in typing.get_args(kind):
        yield from _records(inner)


def _fields(kind: Any) -> list[Any]:
    return [one for one in dataclasses.fields(kind) if one.metadata != INTERNAL]


def _table(kind: Any) -> str:
    rows = [f"| `{one.name}` | {_words(one.type)} | {_default(one)} |" for one in _fields(kind)]
    return "\n".join(["| key | value | default |", "|---|---|---|", *rows]) + "\n"


def _default(one: Any) -> str:
    if one.default is not dataclasses.MISSING:
        value = one.default
    elif one.default_factory is not dataclasses.MISSING:
        value = None
    else:
        return "required"
    if value in (None, (), ""):
        return ""
    text = str(value).lower() if isinstance(value, bool) else ", ".join(value) if isinstance(value, tuple) else value
    return f"`{text}`"


def _words(kind: Any) -> str:
    """A type in words."""
    arguments, origin = typing.get_args(kind), typing.get_origin(kind)
    if kind in FORMS:
        words = FORMS[kind]
    elif origin is typing.Annotated:
        words = _bounded(_words(arguments[0]), arguments[1:])
    elif origin is typing.Literal:
        words = ", ".join(f"`{value}`" for value in arguments)
    elif origin in (typing.Union, types.UnionType):
        words = " or ".join(dict.fromkeys(_words(one) for one in arguments if one is not type(None)))
    elif origin is tuple:
        words = f"list of: {_words(arguments[0])}"
    elif origin is dict:
        words = f"name: {_words(arguments[1])}"
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        words = f"[`{kind.__name__}`](#{kind.__name__.lower()})"
    else:
        words = NAMES.get(kind, re.sub(r"^<class '(.*)'>$", r"\1", str(kind)))
    return words


def _bounded(words: str, bounds: tuple[Any, ...]) -> str:
    """A type with its bounds, names or form."""
    for bound in bounds:
        if names := getattr(bound, "names", None):
            return ", ".join(f"`{name}`" for name in names)
        if (least := getattr(bound, "least", None)) is not None:
            words += f", at least {least}"
        if (most := getattr(bound, "most", None)) is not None:
            words += f", at most {most}"
        if what := getattr(bound, "what", None):
            words = what
    return words.replace("|", "\\|")
