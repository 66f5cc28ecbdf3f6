"""The flags that several commands share: their types, their help, and which commands have them; each stands here alone.

The names in ``REQUEST`` are those of `Request`, and ``typed_values.request_of`` makes one of what was typed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hpclaunch.cli import help_text
from hpclaunch.cli.offers import offer
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS
from hpclaunch.launchers import LAUNCHERS

# The job.
Target = Annotated[
    str,
    typer.Argument(
        metavar="JOB|SCRIPT|PROGRAM",
        autocompletion=offer("jobs"),
        help="The name of a job, the path of your own script, or a program on PATH.",
    ),
]
Program = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB|SCRIPT|PROGRAM",
        autocompletion=offer("jobs"),
        help="The name of a job, the path of your own script, or a program on PATH [default: the command after --].",
    ),
]
Job = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=offer("jobs"), help="The name of a job. See: jobs list.")
]

# The site and the resources.
Site = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("sites"),
        help="The cluster [default: detected]. See: sites list.",
        rich_help_panel=help_text.SITE,
    ),
]
NodeType = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("node_types"),
        help="The node type of the site file. See: sites show.",
        rich_help_panel=help_text.SITE,
    ),
]
NodeTypes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|NAME:NODES,...",
        autocompletion=offer("node_types"),
        help="The node type, by its name in the site file; or several in one job, each with its number of nodes: "
        "cpu:1,gpu:4. See: sites show.",
        rich_help_panel=help_text.SITE,
    ),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", "-N", min=1, help="The number of nodes.", rich_help_panel=help_text.SITE)
]
TasksPerNode = Annotated[
    int | None, typer.Option(min=1, help="Ranks per node [default: one per GPU].", rich_help_panel=help_text.SITE)
]
CpusPerTask = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-task", "-c", min=1, help="CPUs (hardware threads) per rank.", rich_help_panel=help_text.SITE
    ),
]
GpusPerNode = Annotated[
    int | None, typer.Option(min=0, help="GPUs to request per node.", rich_help_panel=help_text.SITE)
]
GpuView = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("gpu_views"),
        help="What a rank sees of its node's GPUs: all, nearest first, of which LOCAL_RANK is its own; or one, which "
        "is then number 0. [default: all]",
        rich_help_panel=help_text.RANKS,
    ),
]
Launcher = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("launchers"),
        help=f"What starts the ranks: {', '.join(LAUNCHERS)}.",
        rich_help_panel=help_text.RANKS,
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("strategies"),
        help="How gradients are averaged: horovod, mirrored (one task uses all GPUs of a node), multiworker (gRPC), "
        "central-storage (as mirrored, with the variables in the node's memory) or one-device (one GPU, nothing to "
        "average). [default: horovod]",
        rich_help_panel=help_text.RANKS,
    ),
]
Framework = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("frameworks"),
        help="The program's framework, which chooses the site's software for it: tensorflow, pytorch, jax, mpi "
        "(mpi4py) or none. [default: the job's, or what a script imports]",
        rich_help_panel=help_text.RANKS,
    ),
]
Account = Annotated[
    str | None, typer.Option("--account", "-A", help="The account to charge.", rich_help_panel=help_text.SITE)
]
Partition = Annotated[
    str | None,
    typer.Option(
        "--partition", "-p", autocompletion=offer("partitions"), help="The partition.", rich_help_panel=help_text.SITE
    ),
]
Qos = Annotated[
    str | None,
    typer.Option(autocompletion=offer("qos"), help="The quality of service (QOS).", rich_help_panel=help_text.SITE),
]
Walltime = Annotated[
    str | None,
    typer.Option(
        "--walltime", "-t", help=f"The time limit of the job: {WALLTIME_FORMS}.", rich_help_panel=help_text.SITE
    ),
]
Memory = Annotated[str | None, typer.Option(help=f"Memory per node: {MEMORY_FORMS}.", rich_help_panel=help_text.SITE)]
Sbatch = Annotated[
    list[str],
    typer.Option(metavar='"--any=option"', help="Any other sbatch option. Repeatable.", rich_help_panel=help_text.SITE),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        help="A file that lists the hosts, for a site without a scheduler; $PBS_NODEFILE is one.",
        rich_help_panel=help_text.SITE,
    ),
]
AcceptUnverified = Annotated[
    bool,
    typer.Option(
        "--accept-unverified",
        help="Accept values that are not in the site file: names of partitions and QOS, Slurm's usual launcher.",
        rich_help_panel=help_text.SITE,
    ),
]
RunsDir = Annotated[
    str | None,
    typer.Option(
        help="The folder for run directories [default: the site's, else ./runs].", rich_help_panel=help_text.RUN
    ),
]

# The software.
Python = Annotated[
    str | None,
    typer.Option(
        help="The ranks' Python: a name, a path, or current, that of hpclaunch [default: the active one].",
        rich_help_panel=help_text.RANKS,
    ),
]
Venv = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="The virtual environment to activate.", rich_help_panel=help_text.RANKS),
]
Conda = Annotated[
    str | None,
    typer.Option(metavar="NAME|DIR", help="The conda environment to activate.", rich_help_panel=help_text.RANKS),
]
Environment = Annotated[
    str | None,
    typer.Option(
        "--environment",
        metavar="NAME|DIR",
        autocompletion=offer("environments"),
        help="An environment that hpclaunch made. See: environment list.",
        rich_help_panel=help_text.RANKS,
    ),
]
Module = Annotated[
    list[str],
    typer.Option(
        "--module",
        metavar="NAME",
        help="A module to load, instead of the site's. Repeatable.",
        rich_help_panel=help_text.RANKS,
    ),
]
Env = Annotated[
    list[str],
    typer.Option(
        "--env", metavar="NAME=VALUE", help="A variable for every rank. Repeatable.", rich_help_panel=help_text.RANKS
    ),
]

# The code.
Setup = Annotated[
    list[str],
    typer.Option(
        metavar="LINE",
        help="A line of bash that the job's script runs before its ranks start, in the folder of the submission. "
        "Repeatable.",
        rich_help_panel=help_text.RANKS,
    ),
]
FromScript = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take in a batch script of Slurm: its directives as the request, its lines as set-up, its launch line as "
        "the program. What else is typed counts more.",
        rich_help_panel=help_text.START,
    ),
]
AsIs = Annotated[
    bool,
    typer.Option(
        "--as-is",
        help="Submit a batch script of your own unchanged, as a run with status, log and record.",
        rich_help_panel=help_text.START,
    ),
]
Include = Annotated[
    list[str],
    typer.Option(
        metavar="PATTERN",
        help="Files beside your script to copy with it, such as '*.csv'. Repeatable.",
        rich_help_panel=help_text.CODE,
    ),
]
CodeInPlace = Annotated[
    bool,
    typer.Option(
        "--code-in-place", help="Copy no code: run what is there when the run begins.", rich_help_panel=help_text.CODE
    ),
]

Broadcast = Annotated[
    bool | None,
    typer.Option(
        "--broadcast/--no-broadcast",
        help="Copy the environment and the code to each node before the ranks start, so that they do not burden the "
        "shared file system. [default: from 64 nodes, at sites that allow it]",
        rich_help_panel=help_text.RANKS,
    ),
]

Samples = Annotated[
    bool | None,
    typer.Option(
        "--samples/--no-samples",
        help="Measure CPU, memory, GPUs, network and energy of every node while the ranks run: hpclaunch efficiency. "
        "[default: samples]",
        rich_help_panel=help_text.RANKS,
    ),
]

# The run in the queue.
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        "-J",
        help="The run's name: of its job in the queue and of its directory [default: JOB].",
        rich_help_panel=help_text.RUN,
    ),
]
After = Annotated[
    list[str],
    typer.Option(
        metavar="RUN",
        autocompletion=offer("runs"),
        help="Start when this run, or any job, has completed (afterok); singleton: when no earlier job of yours with "
        "this run's name is left. Repeatable.",
        rich_help_panel=help_text.RUN,
    ),
]
AfterAny = Annotated[
    list[str],
    typer.Option(
        metavar="RUN",
        autocompletion=offer("runs"),
        help="Start when this run, or any job, has ended in any way. Repeatable.",
        rich_help_panel=help_text.RUN,
    ),
]

# The training.
Restarts = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How many times to start the job again after it has saved its state, 0: never (hpclaunch docs contract).",
        rich_help_panel=help_text.RUN,
    ),
]
Signal = Annotated[
    str | None,
    typer.Option(
        help="The signal that asks the job to save its state, and when: USR2@120 (seconds before its end).",
        rich_help_panel=help_text.RUN,
    ),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=offer("settings"),
        help="A hyper-parameter of the job. Repeatable. See: jobs show.",
        rich_help_panel=help_text.TRAINING,
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="SEARCH@best",
        help="Take the settings of the best trial of a search, or of its trial 12 (@12); --set replaces single ones.",
        rich_help_panel=help_text.TRAINING,
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        autocompletion=offer("recipes"),
        help="The source of batch, optimizer, rates and epochs: plan (the planner), job (the job file as it is), or a "
        "recipe of the job; see: jobs show. [default: plan]",
        rich_help_panel=help_text.TRAINING,
    ),
]
GlobalBatch = Annotated[
    int | None, typer.Option(min=1, help="The global batch size, in samples.", rich_help_panel=help_text.TRAINING)
]
Deadline = Annotated[str | None, typer.Option(help=f"The longest time for the training: {WALLTIME_FORMS}.")]
Sweep = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=V1,V2,…",
        autocompletion=offer("settings"),
        help="Values of a hyper-parameter, or a range 1..10. Every combination is one run of a job array. Repeatable.",
        rich_help_panel=help_text.TRAINING,
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many runs of a sweep may run at the same time [default: no limit].",
        rich_help_panel=help_text.TRAINING,
    ),
]
DataDir = Annotated[
    str | None, typer.Option(help="The folder with the job's data set.", rich_help_panel=help_text.CODE)
]
Synthetic = Annotated[
    bool,
    typer.Option(
        "--synthetic",
        help="Train on generated data of the same shape, without the data set.",
        rich_help_panel=help_text.CODE,
    ),
]


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the script; submit nothing.", rich_help_panel=help_text.START)
]
TestOnly = Annotated[
    bool,
    typer.Option(
        "--test-only",
        help="Validate with Slurm and estimate the start time; submit nothing.",
        rich_help_panel=help_text.START,
    ),
]


_SUBMISSIONS = ("submit", "render")
_ALLOCATIONS = (*_SUBMISSIONS, "shell")
_MEASURED = ("profile", "scale")
_OF_LAYOUTS = (*_ALLOCATIONS, *_MEASURED)
_TRAINED = (*_SUBMISSIONS, "search", *_MEASURED)
_ALL = (*_ALLOCATIONS, "search", *_MEASURED)

REQUEST: tuple[tuple[str, Any, Sequence[str]], ...] = (
    ("site", Site, _ALL),
    ("node_type", NodeTypes, _SUBMISSIONS),
    ("node_type", NodeType, ("shell", "search", *_MEASURED)),
    ("nodes", Nodes, (*_ALLOCATIONS, "search", "profile")),
    ("tasks_per_node", TasksPerNode, _OF_LAYOUTS),
    ("cpus_per_task", CpusPerTask, _OF_LAYOUTS),
    ("gpus_per_node", GpusPerNode, _ALL),
    ("gpu_view", GpuView, (*_SUBMISSIONS, *_MEASURED)),
    ("launcher", Launcher, _OF_LAYOUTS),
    ("strategy", Strategy, _SUBMISSIONS),
    ("framework", Framework, _ALL),
    ("account", Account, _ALL),
    ("partition", Partition, _ALL),
    ("qos", Qos, _ALL),
    ("walltime", Walltime, _ALL),
    ("memory", Memory, _ALL),
    ("name", Name, (*_ALLOCATIONS, "search")),
    ("after", After, _SUBMISSIONS),
    ("after_any", AfterAny, _SUBMISSIONS),
    ("restarts", Restarts, (*_SUBMISSIONS, "search")),
    ("signal", Signal, (*_SUBMISSIONS, "search")),
    ("python", Python, _ALL),
    ("venv", Venv, _ALL),
    ("conda", Conda, _ALL),
    ("environment", Environment, _ALL),
    ("module", Module, _ALL),
    ("env", Env, _ALL),
    ("setup", Setup, _SUBMISSIONS),
    ("include", Include, (*_SUBMISSIONS, "search")),
    ("code_in_place", CodeInPlace, (*_SUBMISSIONS, "search")),
    ("broadcast", Broadcast, _SUBMISSIONS),
    ("recipe", Recipe, _SUBMISSIONS),
    ("set_", Set, _TRAINED),
    ("from_", From, _SUBMISSIONS),
    ("sweep", Sweep, _SUBMISSIONS),
    ("at_once", AtOnce, _SUBMISSIONS),
    ("sbatch", Sbatch, _ALL),
    ("data_dir", DataDir, _TRAINED),
    ("synthetic", Synthetic, _TRAINED),
    ("hosts", Hosts, (*_SUBMISSIONS, *_MEASURED)),
    ("samples", Samples, _SUBMISSIONS),
    ("accept_unverified", AcceptUnverified, _ALL),
)
"""The flags of which a request is made, in the order of --help: parameter, type, and the commands that have it."""

Typed = Mapping[str, Any]
"""Parameter -> its value, of the flags in ``REQUEST`` that a command has."""


def of_request(command: str, **own_types: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command its flags of ``REQUEST`` in place of its parameter ``typed``.

    ``own_types``: another type, with another help, that a flag has at this command alone.
    """
    rows = {name: own_types.get(name, kind) for name, kind, commands in REQUEST if command in commands}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for one in inspect.signature(function).parameters.values():
            if one.name == "typed":
                parameters += [_parameter(name, kind) for name, kind in rows.items()]
            else:
                parameters.append(one)

        def run(**values: Any) -> None:
            typed = {name: values.pop(name) for name in rows}
            function(typed=typed, **values)

        # What Typer reads of a command.
        run.__doc__ = function.__doc__
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(name: str, kind: Any) -> inspect.Parameter:
    """Return the parameter of a flag; if it is not typed it is None, a repeatable one an empty list, a switch False."""
    defaults: dict[Any, Any] = {list[str]: [], bool: False}
    default = defaults.get(kind.__origin__)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
