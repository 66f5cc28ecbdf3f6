"""The flags that several commands share: their types and their help. ``typed_values`` reads their texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpclaunch.cli import complete
from hpclaunch.core.units import MEMORY_FORMS, WALLTIME_FORMS
from hpclaunch.launchers import LAUNCHERS

# The job.
Target = Annotated[
    str,
    typer.Argument(
        metavar="JOB|SCRIPT", autocompletion=complete.jobs, help="The name of a job, or the path of your own script."
    ),
]
Program = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB|SCRIPT|PROGRAM",
        autocompletion=complete.jobs,
        help="The name of a job, the path of your own script, or a program on PATH [default: the command after --].",
    ),
]
Job = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=complete.jobs, help="The name of a job. See: jobs list.")
]

# The site and the resources.
Site = Annotated[
    str | None, typer.Option(autocompletion=complete.sites, help="The cluster [default: detected]. See: sites list.")
]
NodeType = Annotated[
    str | None,
    typer.Option(autocompletion=complete.node_types, help="The node type of the site file. See: sites show."),
]
NodeTypes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|NAME:NODES,...",
        autocompletion=complete.node_types,
        help="The node type, by its name in the site file; or several in one job, each with its number of nodes: "
        "cpu:1,gpu:4. See: sites show.",
    ),
]
Nodes = Annotated[int | None, typer.Option(min=1, help="The number of nodes.")]
TasksPerNode = Annotated[int | None, typer.Option(min=1, help="Ranks per node [default: one per GPU].")]
CpusPerTask = Annotated[int | None, typer.Option(min=1, help="CPUs (hardware threads) per rank.")]
GpusPerNode = Annotated[int | None, typer.Option(min=0, help="GPUs to request per node.")]
GpuView = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.gpu_views,
        help="What a rank sees of its node's GPUs: all, nearest first, of which LOCAL_RANK is its own; or one, which "
        "is then number 0. [default: all]",
    ),
]
Launcher = Annotated[
    str | None, typer.Option(autocompletion=complete.launchers, help=f"What starts the ranks: {', '.join(LAUNCHERS)}.")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.strategies,
        help="How gradients are averaged: horovod, mirrored (one task uses all GPUs of a node), multiworker (gRPC), "
        "central-storage (as mirrored, with the variables in the node's memory) or one-device (one GPU, nothing to "
        "average). [default: horovod]",
    ),
]
Framework = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.frameworks,
        help="The program's framework, which chooses the site's software for it: tensorflow, pytorch, jax, mpi "
        "(mpi4py) or none. [default: the job's, or what a script imports]",
    ),
]
Account = Annotated[str | None, typer.Option(help="The account to charge.")]
Partition = Annotated[str | None, typer.Option(autocompletion=complete.partitions, help="The partition.")]
Qos = Annotated[str | None, typer.Option(autocompletion=complete.qos, help="The quality of service (QOS).")]
Walltime = Annotated[str | None, typer.Option(help=f"The time limit of the job: {WALLTIME_FORMS}.")]
Memory = Annotated[str | None, typer.Option(help=f"Memory per node: {MEMORY_FORMS}.")]
Sbatch = Annotated[list[str], typer.Option(metavar='"--any=option"', help="Any other sbatch option. Repeatable.")]
Hosts = Annotated[
    str | None,
    typer.Option("--hosts", help="A file that lists the hosts, for a site without a scheduler; $PBS_NODEFILE is one."),
]
AcceptUnverified = Annotated[
    bool,
    typer.Option(
        "--accept-unverified",
        help="Accept values that are not in the site file: names of partitions and QOS, Slurm's usual launcher.",
    ),
]
RunsDir = Annotated[str | None, typer.Option(help="The folder for run directories [default: the site's, else ./runs].")]

# The software.
Python = Annotated[
    str | None,
    typer.Option(help="The ranks' Python: a name, a path, or current, that of hpclaunch [default: the active one]."),
]
Venv = Annotated[str | None, typer.Option(metavar="DIR", help="The virtual environment to activate.")]
Conda = Annotated[str | None, typer.Option(metavar="NAME|DIR", help="The conda environment to activate.")]
Environment = Annotated[
    str | None,
    typer.Option(
        "--environment",
        metavar="NAME|DIR",
        autocompletion=complete.environments,
        help="An environment that hpclaunch made. See: environment list.",
    ),
]
Module = Annotated[
    list[str], typer.Option("--module", metavar="NAME", help="A module to load, instead of the site's. Repeatable.")
]
Env = Annotated[list[str], typer.Option("--env", metavar="NAME=VALUE", help="A variable for every rank. Repeatable.")]

# The code.
Setup = Annotated[
    list[str],
    typer.Option(
        metavar="LINE",
        help="A line of bash that the job's script runs before its ranks start, in the folder of the submission. "
        "Repeatable.",
    ),
]
FromScript = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take in a batch script of Slurm: its directives as the request, its lines as set-up, its launch line as "
        "the program. What else is typed counts more.",
    ),
]
AsIs = Annotated[
    bool,
    typer.Option("--as-is", help="Submit a batch script of your own unchanged, as a run with status, log and record."),
]
Include = Annotated[
    list[str],
    typer.Option(metavar="PATTERN", help="Files beside your script to copy with it, such as '*.csv'. Repeatable."),
]
CodeInPlace = Annotated[
    bool, typer.Option("--code-in-place", help="Copy no code: run what is there when the run begins.")
]

Broadcast = Annotated[
    bool | None,
    typer.Option(
        "--broadcast/--no-broadcast",
        help="Copy the environment and the code to each node before the ranks start, so that they do not burden the "
        "shared file system. [default: from 64 nodes, at sites that allow it]",
    ),
]

Samples = Annotated[
    bool | None,
    typer.Option(
        "--samples/--no-samples",
        help="Measure CPU, memory, GPUs, network and energy of every node while the ranks run: hpclaunch efficiency. "
        "[default: samples]",
    ),
]

# The run in the queue.
Name = Annotated[
    str | None,
    typer.Option(help="The run's name: of its job in the queue and of its directory [default: JOB]."),
]
After = Annotated[
    list[str],
    typer.Option(
        metavar="RUN",
        autocompletion=complete.runs,
        help="Start when this run, or any job, has completed (afterok); singleton: when no earlier job of yours with "
        "this run's name is left. Repeatable.",
    ),
]
AfterAny = Annotated[
    list[str],
    typer.Option(
        metavar="RUN",
        autocompletion=complete.runs,
        help="Start when this run, or any job, has ended in any way. Repeatable.",
    ),
]

# The training.
Restarts = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How many times to start the job again after it has saved its state, 0: never (hpclaunch docs contract).",
    ),
]
Signal = Annotated[
    str | None,
    typer.Option(help="The signal that asks the job to save its state, and when: USR2@120 (seconds before its end)."),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=complete.settings,
        help="A hyper-parameter of the job. Repeatable. See: jobs show.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="SEARCH@best",
        help="Take the settings of the best trial of a search, or of its trial 12 (@12); --set replaces single ones.",
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        autocompletion=complete.recipes,
        help="The source of batch, optimizer, rates and epochs: plan (the planner), job (the job file as it is), or a "
        "recipe of the job; see: jobs show. [default: plan]",
    ),
]
GlobalBatch = Annotated[int | None, typer.Option(min=1, help="The global batch size, in samples.")]
Deadline = Annotated[str | None, typer.Option(help=f"The longest time for the training: {WALLTIME_FORMS}.")]
Sweep = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=V1,V2,…",
        autocompletion=complete.settings,
        help="Values of a hyper-parameter, or a range 1..10. Every combination is one run of a job array. Repeatable.",
    ),
]
AtOnce = Annotated[
    int | None, typer.Option(min=1, help="How many runs of a sweep may run at the same time [default: no limit].")
]
DataDir = Annotated[str | None, typer.Option(help="The folder with the job's data set.")]
Synthetic = Annotated[
    bool, typer.Option("--synthetic", help="Train on generated data of the same shape, without the data set.")
]

# Runs.
RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=complete.runs,
        help="A run's name, directory or job ID, or @2 [default: the newest, @1].",
    ),
]
OneRun = Annotated[
    str,
    typer.Argument(metavar="RUN", autocompletion=complete.runs, help="A run's name, directory, job ID, or @2."),
]
Runs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN...",
        autocompletion=complete.runs,
        help="Names, directories, job IDs of runs, or @2 [default: all runs].",
    ),
]
NamedRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN...", autocompletion=complete.runs, help="Names, directories, job IDs of runs, or @2."),
]
NewestRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN...",
        autocompletion=complete.runs,
        help="Names, directories, job IDs of runs, or @2 [default: the newest run].",
    ),
]
EveryTask = Annotated[
    bool,
    typer.Option("--all", help="Show each run of a job array on a line [default: the number of its runs by state]."),
]

Wait = Annotated[
    bool, typer.Option("--wait", help="Follow the run until it has ended; the exit code is 0 if it completed.")
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the script; submit nothing.")]
TestOnly = Annotated[
    bool, typer.Option("--test-only", help="Validate with Slurm and estimate the start time; submit nothing.")
]

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME|DATE", help="Only runs of the last 7d (or 12h, …), or since 2026-11-24 (UTC)."),
]

# The output.
Json = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
