"""The flags that several commands share: their types, their help, and how their texts are read."""

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
    """Return a flag's time in seconds; None if it was not typed. Raises InvalidRequest."""
    return _amount(flag, text, parse_walltime, WALLTIME_FORMS)


def megabytes_of(memory: str | None) -> int | None:
    """Return ``--memory`` in megabytes; None if it was not typed. Raises InvalidRequest."""
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


# The job.
Target = Annotated[
    str,
    typer.Argument(
        metavar="JOB|SCRIPT", autocompletion=complete.jobs, help="The name of a job, or the path of your own script."
    ),
]
Job = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=complete.jobs, help="The name of a job. See: jobs list.")
]

# The site and the resources.
Site = Annotated[
    str | None, typer.Option(autocompletion=complete.sites, help="The cluster [default: detected]. See: sites list.")
]
NodeType = Annotated[str | None, typer.Option(help="The node type, by its name in the site file. See: sites show.")]
Nodes = Annotated[int | None, typer.Option(min=1, help="The number of nodes.")]
TasksPerNode = Annotated[int | None, typer.Option(min=1, help="Ranks per node [default: one per GPU].")]
CpusPerTask = Annotated[int | None, typer.Option(min=1, help="CPUs (hardware threads) per rank.")]
GpusPerNode = Annotated[int | None, typer.Option(min=0, help="GPUs to request per node.")]
Launcher = Annotated[str | None, typer.Option(help=f"The program that starts the ranks: {', '.join(LAUNCHERS)}.")]
Strategy = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.strategies,
        help="How gradients are averaged: horovod, mirrored (one task uses all GPUs of a node) or multiworker (gRPC). "
        "[default: horovod]",
    ),
]
Account = Annotated[str | None, typer.Option(help="The account to charge.")]
Partition = Annotated[str | None, typer.Option(help="The partition.")]
Qos = Annotated[str | None, typer.Option(help="The quality of service (QOS).")]
Walltime = Annotated[str | None, typer.Option(help=f"The time limit of the job: {WALLTIME_FORMS}.")]
Memory = Annotated[str | None, typer.Option(help=f"Memory per node: {MEMORY_FORMS}.")]
Sbatch = Annotated[list[str], typer.Option(metavar='"--any=option"', help="Any other sbatch option. Repeatable.")]
Hosts = Annotated[
    str | None, typer.Option("--hosts", help="A file that lists the hosts, for a site without a scheduler.")
]
AcceptUnverified = Annotated[
    bool,
    typer.Option(
        "--accept-unverified",
        help="Accept values that are not in the site file: names of partitions and QOS, Slurm's usual launcher.",
    ),
]
RunsDir = Annotated[str | None, typer.Option(help="The folder for run directories [default: the site's, else ./runs].")]

# The training.
Restarts = Annotated[
    int | None,
    typer.Option(
        min=0, help="How many times to start the job again after it has saved its state (docs/contract.md); 0: never."
    ),
]
Signal = Annotated[
    str | None,
    typer.Option(help="The signal that asks the job to save its state, and when: USR2@120 (seconds before its end)."),
]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter of the job. Repeatable. See: jobs show."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.recipes,
        help="The source of batch, optimizer, rates and epochs: plan (the planner), job (the job file as it is), or a "
        "recipe of the job; see: jobs show. [default: plan]",
    ),
]
Sweep = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=V1,V2,…",
        help="Values of a hyper-parameter, or a range 1..10. Every combination is one run of a job array. Repeatable.",
    ),
]
AtOnce = Annotated[
    int | None, typer.Option(min=1, help="How many runs of a sweep may run at the same time [default: no limit].")
]
DataDir = Annotated[str | None, typer.Option(help="The folder with the job's data set.")]
Synthetic = Annotated[
    bool, typer.Option("--synthetic", help="Train on generated images of the same shape, without the data set.")
]

# Runs.
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job ID [default: the newest run]."
    ),
]
OneRun = Annotated[
    str, typer.Argument(metavar="RUN", autocompletion=complete.runs, help="A run's name, directory or job ID.")
]
Runs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN...",
        autocompletion=complete.runs,
        help="Names, directories or job IDs of runs [default: all runs].",
    ),
]
NamedRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN...", autocompletion=complete.runs, help="Names, directories or job IDs of runs."),
]
NewestRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN...",
        autocompletion=complete.runs,
        help="Names, directories or job IDs of runs [default: the newest run].",
    ),
]
EveryTask = Annotated[
    bool,
    typer.Option("--all", help="Show each run of a job array on a line [default: the number of its runs by state]."),
]

# The output.
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
