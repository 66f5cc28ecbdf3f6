"""The command that makes a request again, flag by flag; it reads nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from hpclaunch.core.spec import Request
from hpclaunch.core.units import format_memory, format_walltime

_VALUES = {
    "site": "--site",
    "tasks_per_node": "--tasks-per-node",
    "cpus_per_task": "--cpus-per-task",
    "gpus_per_node": "--gpus-per-node",
    "gpu_view": "--gpu-view",
    "launcher": "--launcher",
    "strategy": "--strategy",
    "framework": "--framework",
    "account": "--account",
    "partition": "--partition",
    "qos": "--qos",
    "data_dir": "--data-dir",
    "hosts_file": "--hosts",
    "restarts": "--restarts",
    "signal": "--signal",
    "python": "--python",
    "venv": "--venv",
    "conda": "--conda",
    "environment": "--environment",
    "recipe": "--recipe",
    "name": "--name",
    "at_once": "--at-once",
}
"""Field of a request -> its flag, for those whose text is the value."""
_LISTS = {
    "include": "--include",
    "modules": "--module",
    "setup": "--setup",
    "after": "--after",
    "after_any": "--after-any",
}
_PAIRS = {"variables": "--env", "settings": "--set", "sweep": "--sweep"}
_SWITCHES = {
    "as_is": "--as-is",
    "synthetic": "--synthetic",
    "code_in_place": "--code-in-place",
    "accept_unverified": "--accept-unverified",
}
_EITHER = ("broadcast", "samples")
"""Switches of two forms: ``--broadcast``, ``--no-broadcast``."""
HANDLED = frozenset(
    [*_VALUES, *_LISTS, *_PAIRS, *_SWITCHES, *_EITHER]
    + ["target", "is_command", "node_type", "nodes", "further_nodes", "walltime", "memory", "sbatch", "arguments"]
)
"""The fields that the command repeats: all but ``search``, whose space stands in a file of its own."""


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
    for name, flag in _VALUES.items():
        value = getattr(request, name)
        if value is not None:
            yield flag, str(value)
    for name, flag in _LISTS.items():
        yield from ((flag, text) for text in getattr(request, name))
    for name, flag in _PAIRS.items():
        yield from ((flag, f"{key}={text}") for key, text in getattr(request, name))
    yield from (("--sbatch", text) for text in request.sbatch)
    yield from ((flag, None) for name, flag in _SWITCHES.items() if getattr(request, name))
    for name in _EITHER:
        if (value := getattr(request, name)) is not None:
            yield (f"--{name}" if value else f"--no-{name}"), None


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
