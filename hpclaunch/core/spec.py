"""The values that the steps hand on: what was typed, what surrounds it, and the resolved, complete result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, field
from types import MappingProxyType
from typing import Any

from hpclaunch.core.records import record

Pairs = tuple[tuple[str, str], ...]
STRATEGIES = HOROVOD, MIRRORED, MULTIWORKER = "horovod", "mirrored", "multiworker"
"""What can average the gradients of a job: Horovod, or a strategy of TensorFlow."""
LIBRARY = "hpclaunch.sh"
"""The file of functions that every script needs beside it in its run directory."""


WITH_QUEUE = {"with_queue": True}
"""Marks a field of a request that means nothing at a site without a queue."""


@record
class Request:
    """What a person typed, and nothing else: None means "as the files say". Walltime in seconds, memory in MB."""

    target: str
    site: str | None = None
    node_type: str | None = None
    nodes: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int | None = None
    launcher: str | None = None
    strategy: str | None = None
    account: str | None = field(default=None, metadata=WITH_QUEUE)
    partition: str | None = field(default=None, metadata=WITH_QUEUE)
    qos: str | None = field(default=None, metadata=WITH_QUEUE)
    walltime: int | None = None
    memory: int | None = field(default=None, metadata=WITH_QUEUE)
    data_dir: str | None = None
    synthetic: bool = False
    hosts_file: str | None = None
    restarts: int | None = None
    signal: str | None = None
    settings: Pairs = ()
    sweep: Pairs = ()
    at_once: int | None = None
    sbatch: tuple[str, ...] = field(default=(), metadata=WITH_QUEUE)
    arguments: tuple[str, ...] = ()
    accept_unverified: bool = False


@record
class Context:
    """What the program found around it, so that resolving looks at nothing itself: clock, folders, environment.

    ``python`` is the interpreter that runs hpclaunch; ``hosts`` are the names in the request's hosts file;
    ``user_folder`` is that of the user's own files. ``site_origin``: who chose the site; ``other_site``: the site that
    this machine belongs to, if it is another one. ``notices``: what a person should know of the files that were read.
    """

    now: str
    cwd: str
    run_dir: str
    python: str
    version: str
    cpus: int = 1
    hosts: tuple[str, ...] = ()
    user_folder: str = ""
    site_origin: str = ""
    other_site: str = ""
    notices: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@record
class Layout:
    """Who runs where. ``gpus_per_node`` are asked for; ``stand_in_gpus`` are scheduled but compute nothing.

    ``cpus_per_core``: what Slurm counts as CPUs of one core. ``whole_nodes``: no other job runs on these nodes.
    """

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_core: int = 1
    gpus_per_node: int = 0
    node_gpus: int = 0
    whole_nodes: bool = False
    stand_in_gpus: bool = False

    @property
    def world_size(self) -> int:
        """Number of ranks: nodes x tasks per node (= ``hvd.size()``)."""
        return self.nodes * self.tasks_per_node

    @property
    def cores_per_task(self) -> int:
        """Physical cores of one rank, at least one: what a thread pool should be sized to."""
        return max(1, self.cpus_per_task // self.cpus_per_core)


@record
class Step:
    """One line of set-up; when it fails, the script stops and says ``failure``."""

    line: str
    failure: str


@record
class Choice:
    """A value that somebody could have chosen otherwise, and who chose it (flag, job, settings, site, …)."""

    key: str
    value: str
    origin: str


@record
class Declined:
    """A partition or QOS that was not chosen, and why."""

    key: str
    value: str
    reason: str


@record
class Cost:
    """The most that a run can cost (it ends at its walltime), in ``unit``; ``note`` is how, or what is not known."""

    amount: float
    unit: str
    note: str = ""


@record
class Code:
    """What the run needs of the user's code: ``folder`` is copied (``source_only``: its source files) to RUN/code."""

    folder: str
    entry: str
    source_only: bool = False


@record
class DataNeed:
    """The data set a job reads: one of ``layouts`` must exist in ``folder`` or in ``folder``/``name``.

    ``address``: whether the job file says where it can be fetched.
    """

    name: str
    folder: str
    layouts: tuple[str, ...]
    origin: str
    address: bool = True


@record
class Restarts:
    """How a script continues after its program has saved its state: at most ``most`` times (0: never), by ``by``.

    ``signal`` comes ``lead`` seconds before the walltime's end. ``passed`` is what the script passes on in place of any
    signal that it gets (empty: the same one), ``passed_to`` who gets it (empty: the launcher): the script's library
    knows ``group`` and ``ranks``.
    """

    most: int = 0
    by: str = "none"
    signal: str = ""
    lead: int = 0
    passed: str = ""
    passed_to: str = ""


@record
class Sweep:
    """The runs of a job array: one for each combination of the values of some parameters, the last one fastest.

    ``axes`` are (parameter, its values as the command line spells them); ``at_once`` may run at a time (0: all that
    fit); ``position`` is where in the command a run's own words stand.
    """

    axes: tuple[tuple[str, tuple[str, ...]], ...]
    at_once: int = 0
    position: int = 0

    @property
    def count(self) -> int:
        """How many runs there are."""
        return math.prod(len(values) for _, values in self.axes)

    @property
    def digits(self) -> int:
        """How many digits the name of a run has."""
        return digits_of(self.count)


MOST_RUNS = 100_000
"""What arrays were made for and measured with; Slurm's own limit (MaxArraySize) is asked for at submission."""


def digits_of(count: int) -> int:
    """Return how many digits name each of so many runs: 0000 to 9999, or as many as it takes."""
    return max(4, len(str(count - 1)))


OWN = {"own": True}
"""Marks a field that differs from run to run, or follows from others: runs are not compared by it."""


@record
class JobSpec:
    """The resolved, complete result: everything that the script says. Empty text means "not emitted".

    ``rank_number`` is bash's expression for a rank's number where each writes a log of its own; ``rank_setup`` are
    bash lines that every rank runs before its command; ``unverified`` says which of the site's values are not the
    centre's own word. ``secrets`` are names of variables, whose values only the job sees; ``secrets_folder`` is where
    their files are, spelled out, because the job may see another environment. With a ``sweep`` ``run_dir`` is the
    folder of all its runs, whose own are 0000, 0001, … in it. ``strategy``: what averages gradients, where the job
    offers a choice; under multiworker the script tells every rank where all others listen. ``parameters``: all of the
    job's with their values, but those of the sweep; ``command`` holds only what the program must be told.
    ``calibration_key``: where a later plan finds what this run measures; empty for a run that a plan would not choose.
    """

    name: str
    target: str
    site: str
    site_status: str
    node_type: str
    scheduler: str
    template: str
    launcher: str
    layout: Layout
    account: str
    partition: str
    qos: str
    walltime: int
    cost: Cost | None
    run_dir: str = field(metadata=OWN)
    created: str = field(metadata=OWN)
    version: str
    shell: str
    chdir: str = field(metadata=OWN)
    directives: Pairs = field(metadata=OWN)
    steps: tuple[Step, ...]
    environment: Pairs
    unset: tuple[str, ...]
    interpreter: str
    rank_number: str
    rank_setup: tuple[str, ...]
    command: tuple[str, ...]
    launch: tuple[str, ...]
    hosts: tuple[str, ...]
    secrets: tuple[str, ...]
    secrets_folder: str
    restarts: Restarts
    code: Code = field(metadata=OWN)
    data: DataNeed | None
    unverified: tuple[str, ...] = field(metadata=OWN)
    sweep: Sweep | None = field(default=None, metadata=OWN)
    strategy: str = ""
    parameters: Pairs = field(default=(), metadata=OWN)
    calibration_key: str = field(default="", metadata=OWN)
    choices: tuple[Choice, ...] = field(default=(), metadata=OWN)
    declined: tuple[Declined, ...] = field(default=(), metadata=OWN)
    warnings: tuple[str, ...] = field(default=(), metadata=OWN)

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return asdict(self)


@record
class Script:
    """What is submitted, and the file of functions that stands beside it in the run directory."""

    text: str
    library: str
