"""The command that makes a request again, flag by flag; it reads nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from hpclaunch.core.spec import Request, flag_of
from hpclaunch.core.units import format_memory, format_walltime

_OWN_FORMS = (
    *("target", "is_command", "arguments", "node_type", "nodes", "further_nodes", "walltime", "memory"),
    "search",  # its space stands in a file of its own
)
"""The fields of a request that have a form of their own here; of the others, the type of the field tells the form."""


def typed_command(request: Request) -> str:
    """Return ``hpclaunch submit …`` with every flag of the request, as text for a shell."""
    words = ["hpclaunch", "submit"]
    words += [] if request.is_command else [request.target]
    words += [word for flag, value in _flags(request) for word in _words_of_flag(flag, value)]
    last = [request.target, *request.arguments] if request.is_command else [*request.arguments]
    return shlex.join([*words, "--", *last] if last else words)


def _words_of_flag(flag: str, value: str | None) -> list[str]:
    """Return the words of a flag; ``--sbatch=--x`` in one word, as its value begins with a dash."""
    if value is None:
        return [flag]
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def _flags(request: Request) -> Iterator[tuple[str, str | None]]:
    yield from _size_flags(request)
    for field in fields(Request):
        if field.name not in _OWN_FORMS:
            yield from _spell_flag(str(field.type), flag_of(field.name), getattr(request, field.name))


def _spell_flag(kind: str, flag: str, value: Any) -> list[tuple[str, str | None]]:
    """Return a flag as often as the value of a field of this type asks. Raises TypeError for a type without a form."""
    if kind in ("str | None", "int | None"):
        return [] if value is None else [(flag, str(value))]
    if kind == "bool":
        return [(flag, None)] if value else []
    if kind == "bool | None":  # a switch of two forms: --broadcast, --no-broadcast
        return [] if value is None else [(flag if value else flag.replace("--", "--no-", 1), None)]
    if kind == "tuple[str, ...]":
        return [(flag, text) for text in value]
    if kind == "Pairs":
        return [(flag, f"{key}={text}") for key, text in value]
    raise TypeError(f"{flag}: nothing says how a {kind} is typed")


def _size_flags(request: Request) -> Iterator[tuple[str, str | None]]:
    if request.further_nodes:
        types = ((request.node_type, str(request.nodes)), *request.further_nodes)
        yield "--node-type", ",".join(f"{name}:{nodes}" for name, nodes in types)
    else:
        if request.node_type is not None:
            yield "--node-type", request.node_type
        if request.nodes is not None:
            yield "--nodes", str(request.nodes)
    if request.walltime is not None:
        yield "--walltime", format_walltime(request.walltime)
    if request.memory is not None:
        yield "--memory", format_memory(request.memory)
