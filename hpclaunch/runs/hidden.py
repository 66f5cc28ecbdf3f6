"""The values that a page or an export of a run does not show: those of its variables and of its secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpclaunch.core.errors import Refused
from hpclaunch.core.files import read_text
from hpclaunch.core.hidden_values import HiddenValues, hidden_values, variables_in
from hpclaunch.runs.record import Run
from hpclaunch.runs.request_file import read_request


def hidden_values_of(run: Run) -> HiddenValues:
    """Return the values of a run's variables and its lines of set-up, and its secrets as far as they can be read now.

    A record holds only the names of secrets (``secret_env``). Their values are taken from where the script takes them:
    from the environment, and from the first line of a file in the folder of secrets.
    """
    spec = run.spec()
    try:
        request = read_request(run.home)[0]
    except Refused:
        request = None
    command = spec.get("command")
    words = [*map(str, command if isinstance(command, list) else ()), *(request.arguments if request else ())]
    return hidden_values(
        variables_in(spec),
        request.variables if request else (),
        secrets=[*_secrets_of(spec)],
        lines=_setup_of(spec),
        arguments=[*run.parameters().items(), *(request.settings if request else ()), *_options_in(words)],
    )


def _options_in(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values: ``--name=value``, ``name=value``, and ``--name`` with the word behind it."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if equals or name.startswith("-"):
            yield name, value if equals else following


def _setup_of(spec: Mapping[str, Any]) -> Iterator[str]:
    steps, of_ranks = spec.get("steps"), spec.get("rank_setup")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield str(step.get("line", ""))
    yield from map(str, of_ranks if isinstance(of_ranks, list) else ())


def _secrets_of(spec: Mapping[str, Any]) -> Iterator[str]:
    names, folder = spec.get("secrets"), str(spec.get("secrets_folder") or "")
    for name in map(str, names if isinstance(names, list) else ()):
        yield os.environ.get(name, "")
        if os.path.isabs(folder):
            yield read_text(os.path.join(folder, name)).partition("\n")[0]
