"""Every flag that several commands share, once: its type, its help, and how its text is read; it builds no command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from hpclaunch.cli import complete
from hpclaunch.core.errors import Fault, InvalidRequest
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS, parse_memory, parse_walltime
from hpclaunch.launchers import LAUNCHERS


def seconds_of(text: str | None, flag: str = "--walltime") -> int | None:
    """Return the seconds of a flag's text; None where it was not typed. Raises InvalidRequest."""
    return _amount(flag, text, parse_walltime, WALLTIME_FORMS)


def megabytes_of(memory: str | None) -> int | None:
    """Return the megabytes of ``--memory``; None where it was not typed. Raises InvalidRequest."""
    return _amount("--memory", memory, parse_memory, MEMORY_FORMS)


def _amount(flag: str, text: str | None, parse: Callable[[str], int], forms: str) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise InvalidRequest(Fault(where=flag, what=str(error), allowed=forms)) from None


def settings_of(set_: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``--set KEY=VALUE``. Raises InvalidRequest."""
    return tuple(_pair("--set", text, "KEY=VALUE") for text in set_)


def axes_of(sweep: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``--sweep NAME=VALUES``. Raises InvalidRequest."""
    return tuple(_pair("--sweep", text, "NAME=V1,V2,… or NAME=1..10") for text in sweep)


def _pair(flag: str, text: str, form: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise InvalidRequest(Fault(where=flag, what=f"{os.fsdecode(text)!r} is not {form}"))
    return key, value


# What is to run.
Target = Annotated[
    str,
    typer.Argument(
        metavar="JOB|SCRIPT", autocompletion=complete.jobs, help="A job's name, or a path to a script of your own."
    ),
]
Job = Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete.jobs)]

# Where it runs, and on how much of it.
Site = Annotated[
    str | None, typer.Option(autocompletion=complete.sites, help="The cluster [default: detected]. See: sites list.")
]
NodeType = Annotated[str | None, typer.Option(help="The kind of node, by its name in the site file.")]
Nodes = Annotated[int | None, typer.Option(min=1, help="How many nodes.")]
TasksPerNode = Annotated[int | None, typer.Option(min=1, help="Ranks on every node [default: one per GPU].")]
CpusPerTask = Annotated[int | None, typer.Option(min=1, help="CPUs (hardware threads) of every rank.")]
GpusPerNode = Annotated[int | None, typer.Option(min=0, help="GPUs to ask for on every node.")]
Launcher = Annotated[str | None, typer.Option(help=f"What starts the ranks: {', '.join(LAUNCHERS)}.")]
Strategy = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.strategies,
        help="What averages gradients: horovod, mirrored (one task with all GPUs of its node) or multiworker (gRPC). "
        "[default: horovod]",
    ),
]
Account = Annotated[str | None, typer.Option(help="The account that pays.")]
Partition = Annotated[str | None, typer.Option(help="The partition.")]
Qos = Annotated[str | None, typer.Option(help="The quality of service.")]
Walltime = Annotated[str | None, typer.Option(help=f"The longest it may run: {WALLTIME_FORMS}.")]
Memory = Annotated[str | None, typer.Option(help=f"Memory of a node: {MEMORY_FORMS}.")]
Sbatch = Annotated[list[str], typer.Option(metavar='"--any=option"', help="Any other sbatch option. Repeatable.")]
Hosts = Annotated[str | None, typer.Option("--hosts", help="Without a scheduler: a file that names the hosts.")]
AcceptUnverified = Annotated[
    bool,
    typer.Option(
        "--accept-unverified",
        help="Take what the site file does not know: names of partitions and QOS, Slurm's usual launcher.",
    ),
]
RunsDir = Annotated[str | None, typer.Option(help="Where run directories are made [default: ./runs or the site's].")]

# What the job does.
Restarts = Annotated[
    int | None,
    typer.Option(min=0, help="How often to start it again when it has saved its state (docs/contract.md); 0: never."),
]
Signal = Annotated[str | None, typer.Option(help="What asks it to save, and when: USR2@120 [seconds before the end].")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter of the job. Repeatable.")]
Sweep = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=V1,V2,…",
        help="Values of a hyper-parameter, also 1..10: every combination is one run of a job array. Repeatable.",
    ),
]
AtOnce = Annotated[int | None, typer.Option(min=1, help="How many runs of a sweep may run at a time [default: any].")]
DataDir = Annotated[str | None, typer.Option(help="The folder that holds the job's data set.")]
Synthetic = Annotated[bool, typer.Option("--synthetic", help="Train on stand-in images of the same shape.")]

# Which runs.
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job id [default: newest]."
    ),
]
OneRun = Annotated[
    str, typer.Argument(metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job id.")
]
Runs = Annotated[
    list[str] | None, typer.Argument(metavar="RUN...", autocompletion=complete.runs, help="Runs [default: all].")
]
NamedRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN...", autocompletion=complete.runs, help="Runs, by name, directory or job id."),
]
NewestRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN...", autocompletion=complete.runs, help="Runs [default: the newest]."),
]
EveryTask = Annotated[
    bool, typer.Option("--all", help="Every run of a job array on a line of its own [default: their number by state].")
]

# What is answered.
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
