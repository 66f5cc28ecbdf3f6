"""Types commands of the documents in forked children, or looks up whether their verbs and options exist."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer.main

from hpclaunch.cli import app
from tests.cli.conftest import forking_server
from tests.forked.server import Trial


def fault_of(words: Sequence[str], folder: Path, **variables: str) -> str:
    """What a command says that does not end with 0, typed in a folder that is also the home folder; else nothing."""
    strays = ("HPCLAUNCH", "SBATCH", "SLURM", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(strays)}
    environment |= {"HOME": str(folder), "COLUMNS": "200", **variables}
    done = forking_server().run(Trial(words=words, cwd=str(folder), environment=environment, seconds=120))
    return "" if done.code == 0 else f"exit code {done.code}: {done.err}"


def unknown_in(words: Sequence[str]) -> str:
    """The verb or the options of a command that hpclaunch does not have; else nothing."""
    command: Any = typer.main.get_command(app)
    rest = list(words[: words.index("--")] if "--" in words else words)
    while rest and isinstance(getattr(command, "commands", None), Mapping) and rest[0] in command.commands:
        command = command.commands[rest[0]]
        del rest[0]
    if command.name == "hpclaunch" and not (rest and rest[0].startswith("-")):
        return f"no such verb: {' '.join(rest)}"
    if "start" in getattr(command, "commands", {}) and rest:  # `search JOB` is short for `search start JOB`
        command = command.commands["start"]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    known |= {"-h", "--help", "--help-all", "-q", "--quiet", "-v", "--verbose"}  # of every verb
    return " ".join(word for word in rest if word.startswith("-") and word.partition("=")[0] not in known)
