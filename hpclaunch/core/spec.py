"""The values that pass between the steps: the request, its context, and the complete result of resolving."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from types import MappingProxyType
from typing import Any, TypedDict

from hpclaunch.core.array_size import digits_of
from hpclaunch.core.hardware import Hardware
from hpclaunch.core.keyword_types import Name, Names, Settings, Time, Value
from hpclaunch.core.records import record
from hpclaunch.core.spec_parts import (
    Allocation,
    Asked,
    Broadcast,
    Component,
    DataNeed,
    Predecessor,
    PredictedRate,
    TrialLayout,
)

Pairs = tuple[tuple[str, str], ...]
STRATEGIES = ("horovod", "mirrored", "multiworker", "central-storage", "one-device")
"""The ways to average a job's gradients: Horovod, or a strategy of TensorFlow."""
HOROVOD, MIRRORED, MULTIWORKER, CENTRAL_STORAGE, ONE_DEVICE = STRATEGIES
FRAMEWORKS = TENSORFLOW, PYTORCH, JAX, MPI, NO_FRAMEWORK = "tensorflow", "pytorch", "jax", "mpi", "none"
"""What a program trains or communicates with; ``mpi``: with MPI itself, as mpi4py does."""
GPU_VIEWS = ALL_GPUS, ONE_GPU = ("all", "one")
"""What a rank can see of the GPUs of its node's allocation: all of them, or one, which is then number 0."""
LIBRARY = "hpclaunch.sh"
"""The file of shell functions that every script needs beside it in its run directory."""
SAMPLER = "sampler.py"
"""The program beside it that measures every node while the ranks run."""
AS_IS = "as_is.sh.j2"
"""The template of a foreign batch script that is submitted unchanged."""
WITH_QUEUE = {"with_queue": True}
"""Marks a field of a request that has no meaning at a site without a queue."""


@record
class Request:
    """What a person typed, and nothing else; None means that job and settings decide.

    ``is_command``: the target is a command, typed after ``--``, and not a job, a script or a program to look for.
    ``further_nodes``: (node type, node count) of the second and further node types; ``nodes`` counts the first's.
    ``environment``: one that hpclaunch made, by its name or by the folder of its build.
    ``search``: the parameters whose values differ between the trials of a search; ``at_once`` is then of trials.
    Walltime is in seconds, memory in MB per node. ``setup``: lines of bash that the job's script runs before its ranks.
    ``as_is``: the target is a batch script, which is submitted as it stands.
    """

    target: str
    is_command: bool = False
    as_is: bool = False
    site: str | None = None
    node_type: str | None = None
    nodes: int | None = None
    further_nodes: Pairs = ()
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int | None = None
    gpu_view: str | None = None
    launcher: str | None = None
    strategy: str | None = None
    framework: str | None = None
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
    include: tuple[str, ...] = ()
    code_in_place: bool = False
    broadcast: bool | None = field(default=None, metadata=WITH_QUEUE)
    python: str | None = None
    venv: str | None = None
    conda: str | None = None
    environment: str | None = None
    modules: tuple[str, ...] = ()
    variables: Pairs = ()
    setup: tuple[str, ...] = ()
    settings: Pairs = ()
    sweep: Pairs = ()
    search: tuple[str, ...] = ()
    recipe: str | None = None
    name: str | None = None
    after: tuple[str, ...] = field(default=(), metadata=WITH_QUEUE)
    after_any: tuple[str, ...] = field(default=(), metadata=WITH_QUEUE)
    at_once: int | None = None
    sbatch: tuple[str, ...] = field(default=(), metadata=WITH_QUEUE)
    arguments: tuple[str, ...] = ()
    samples: bool | None = None
    accept_unverified: bool = False


_OTHER_FLAGS = {"hosts_file": "--hosts", "modules": "--module", "variables": "--env", "settings": "--set"}


def flag_of(name: str) -> str:
    """Return the flag that sets the field of a request with this name."""
    return _OTHER_FLAGS.get(name, f"--{name.replace('_', '-')}")


# A request in Python: the keywords of the interface, which become a Request as the flags do.


class PlaceOptions(TypedDict, total=False):
    """Where a job runs, on how much, and with which settings. What is left out, or None, hpclaunch chooses.

    ``walltime`` in seconds or as text; ``memory`` per node in MB or as text (``"64G"``). ``settings``: the job's
    hyper-parameters by name. ``hosts``: a file with hosts, for a site without a scheduler.
    """

    site: str | None
    nodes: int | None
    tasks_per_node: int | None
    cpus_per_task: int | None
    gpus_per_node: int | None
    account: str | None
    partition: str | None
    qos: str | None
    walltime: Time | None
    memory: int | str | None
    settings: Settings | None
    recipe: str | None
    hosts: Name | None
    accept_unverified: bool


class SubmitOptions(PlaceOptions, total=False):
    """The keywords of `submit`: the flags of ``hpclaunch submit``, each under its own name with underscores.

    Four flags have another word here: ``settings`` (``--set``), ``environment`` (``--env``), ``modules``
    (``--module``), ``from_trial`` (``--from``). ``node_type`` may be a mapping: ``{"cpu": 1, "gpu": 4}``. ``sweep``:
    the values of each parameter, ``{"learning_rate": [0.1, 0.01], "seed": range(5)}``. ``after``, ``after_any``: runs,
    or their names. ``arguments``: the program's own, as after ``--``. ``from_script``: the program is a batch script of
    Slurm to take in; ``as_is``: one to submit unchanged.
    """

    arguments: Sequence[Name]
    node_type: str | Mapping[str, int] | None
    gpu_view: str | None
    launcher: str | None
    strategy: str | None
    framework: str | None
    name: str | None
    after: Names | None
    after_any: Names | None
    restarts: int | None
    signal: str | None
    python: Name | None
    venv: Name | None
    conda: Name | None
    environment_name: Name | None
    modules: Names | None
    environment: Mapping[str, Value] | None
    setup: Names | None
    from_script: bool
    as_is: bool
    include: Names | None
    code_in_place: bool
    broadcast: bool | None
    from_trial: str | None
    sweep: Mapping[str, str | Iterable[Value]] | None
    at_once: int | None
    sbatch: Names | None
    data_dir: Name | None
    synthetic: bool
    samples: bool | None
    runs_dir: Name | None


@record
class LiveNodes:
    """Nodes of a partition that are alike, as the scheduler shows them: how many, and what each has for jobs.

    ``memory`` in MB. ``gpu_type``: empty for GPUs without a type, or of several. ``features``: what a constraint names.
    """

    number: int
    cores: int
    cpus: int
    memory: int
    gpus: int = 0
    gpu_type: str = ""
    features: frozenset[str] = frozenset()


@record
class LiveNames:
    """The names of all partitions, or of all QOS, that the scheduler of this machine has now.

    ``hidden``: those of them that may be named, and are never proposed. ``lifts``: QOS -> the limits of a partition
    that do not hold for its jobs, by their names in ``Limits``. ``nodes``: partition -> its kinds of nodes, the most
    frequent first, of those partitions that were asked about.
    """

    names: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    lifts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    nodes: Mapping[str, tuple[LiveNodes, ...]] = field(default_factory=lambda: MappingProxyType({}))


@record
class Context:
    """Facts from outside the program (clock, folders, environment), so that resolving itself can be pure.

    ``python`` is the interpreter that runs hpclaunch. ``hosts`` are the names in the request's hosts file.
    ``user_folder`` is the folder of the user's own files. ``site_origin``: who chose the site; ``is_lasting_site``: the
    settings or HPCLAUNCH_SITE name it, too. ``other_site``: the site of this machine, if it is another one.
    ``at_site``: this machine is known to be one of the site's. ``own_site``: the site file is the user's or the
    project's. ``notices``: remarks for the user on the files that were read. ``cluster``: the name of this machine's
    cluster, as files tell it. ``longest_job``: the longest walltime (seconds) that the scheduler accepts now; 0: not
    asked, or no limit.
    ``predecessors``: the runs that the request names with --after. ``active``: the environment that is active in the
    submitting shell, in words, if the request has it from there. ``allocation``: the one in which the run begins at
    once (None: it is submitted). ``hardware``: that of this machine, where the site is this machine (None: it is not,
    or nobody has looked). ``live``: the names of all partitions (by ``partition``) and QOS (``qos``) that the
    scheduler of this machine has; it is asked only if the request names one that the site file lacks.
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
    is_lasting_site: bool = False
    other_site: str = ""
    at_site: bool = False
    own_site: bool = False
    notices: tuple[str, ...] = ()
    cluster: str = ""
    longest_job: int = 0
    predecessors: tuple[Predecessor, ...] = ()
    active: str = ""
    allocation: Allocation | None = None
    hardware: Hardware | None = None
    live: Mapping[str, LiveNames] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@record
class Layout:
    """Nodes, tasks, CPUs and GPUs of a run. ``gpus_per_node`` are the requested ones, ``node_gpus`` those of the node.

    ``cpus_per_core``: Slurm's CPUs per core. ``whole_nodes``: no other job runs on these nodes. ``stand_in_gpus``: the
    GPUs are scheduled, but cannot compute. ``further``: the layouts of the job's further node types.
    """

    nodes: int
    tasks_per_node: int
    cpus_per_task: int
    cpus_per_core: int = 1
    gpus_per_node: int = 0
    node_gpus: int = 0
    whole_nodes: bool = False
    stand_in_gpus: bool = False
    further: tuple[Layout, ...] = ()

    @property
    def ranks(self) -> int:
        """The number of ranks on nodes of this type: nodes x tasks per node."""
        return self.nodes * self.tasks_per_node

    @property
    def world_size(self) -> int:
        """The number of all ranks (= ``hvd.size()``)."""
        return self.ranks + sum(one.world_size for one in self.further)

    @property
    def cores_per_task(self) -> int:
        """The physical cores of one rank, at least one: the right size of a thread pool."""
        return max(1, self.cpus_per_task // self.cpus_per_core)


@record
class Step:
    """One line of set-up; if it fails, the script stops and prints ``failure`` (empty: it goes on)."""

    line: str
    failure: str


@record
class Choice:
    """A chosen value, and the origin of the choice (flag, job, settings, site, …)."""

    key: str
    value: str
    origin: str


@record
class Declined:
    """A partition or QOS that was not chosen, and why. ``for_other_nodes``: it has no nodes of the requested type."""

    key: str
    value: str
    reason: str
    for_other_nodes: bool = False


@record
class Cost:
    """The most that a run can cost (it ends at its walltime), in ``unit``; ``note``: how, and what is not known."""

    amount: float
    unit: str
    note: str = ""


@record
class Code:
    """The user's code: ``folder`` is copied to RUN/code (``source_only``: not all, but by the rule of a user's script).

    ``in_place``: nothing is copied; the program is used where it is. ``include``: patterns of files beside a script.
    ``recorded``: the folder is an earlier run's copy of its code, and is copied whole, with its training library.
    """

    folder: str
    entry: str
    source_only: bool = False
    in_place: bool = False
    include: tuple[str, ...] = ()
    recorded: bool = False


@record
class Restarts:
    """How a script restarts after its program has saved its state: at most ``most`` times (0: never).

    ``by`` is ``requeue``, ``resubmit`` or ``none``. ``signal`` comes ``lead`` seconds before the end of the walltime.
    ``pass_on`` is the signal that the script passes on instead of the received one (empty: the same). ``signal_to`` is
    its receiver (empty: the launcher; the script's library knows ``group`` and ``ranks``).
    """

    most: int = 0
    by: str = "none"
    signal: str = ""
    lead: int = 0
    pass_on: str = ""
    signal_to: str = ""


def parameter_word(name: str, text: str, *, default: bool = False) -> str:
    """Return the word that gives a program the value of a parameter; as a ``default``, typed options override it."""
    option = name.replace("_", "-")
    return f"--default={option}={text}" if default else f"--{option}={text}"


def free_word(name: str, text: str, options: Pairs) -> str:
    """Return the word that gives a value to a program without parameters. ``options``: those of another spelling."""
    return f"{dict(options).get(name, f'--{name}=')}{text}"


@record
class Followers:
    """Parameters of a sweep that follow swept ones, because every run has the recipe of its own values.

    ``by``: the swept parameters that they follow, in the order of the axes. ``values``: (parameter, its value for every
    combination of ``by``; the last one varies fastest). ``typed``: those that the program gets like typed options,
    because it knows no --default.
    """

    by: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    typed: tuple[str, ...] = ()


@record
class Sweep:
    """The runs of a job array: one for each combination of values; the last parameter varies fastest.

    ``axes`` are (parameter, its values as the command line spells them). ``at_once``: how many may run at a time (0: no
    limit). ``position``: the place of a run's own words in the command. ``followers``: parameters that depend on swept
    ones. ``free``: the program declares no parameters, so names and values are passed on as they were typed.
    ``filled``: the names that stand as ``{NAME}`` in arguments of the command, where the value is put; the command has
    no other word for them. ``options``: what stands before the value of a name that the program spells in another way
    (``--learning-rate=``). ``arguments``: the number of typed arguments, the last words of the command.
    """

    axes: tuple[tuple[str, tuple[str, ...]], ...]
    at_once: int = 0
    position: int = 0
    followers: Followers | None = None
    free: bool = False
    filled: tuple[str, ...] = ()
    options: Pairs = ()
    arguments: int = 0

    @property
    def count(self) -> int:
        """The number of runs."""
        return math.prod(len(values) for _, values in self.axes)

    def word(self, name: str, text: str) -> str:
        """Return the word of a run that has the value of a swept parameter."""
        return free_word(name, text, self.options) if self.free else parameter_word(name, text)

    @property
    def digits(self) -> int:
        """The number of digits in the name of a run."""
        return digits_of(self.count)


@record
class RunRecipe:
    """The recipe of a run: what was advised, and what was typed or swept instead.

    ``name``: ``plan``, ``job`` (the job file as it is), or that of a recipe in the job file. ``advised``: all
    parameters that the recipe decides, with its values; ``applied``: those of them that the run has and the job file
    has not; ``typed``: those that were swept, or typed with another value, and this value. ``global_batch`` is in
    samples (None: not known, or not the same for all runs of a sweep). ``why``: the reasons in three to five lines.
    """

    name: str
    advised: Pairs = ()
    applied: Pairs = ()
    typed: Pairs = ()
    global_batch: int | None = None
    why: tuple[str, ...] = ()


CLUSTER = "cluster"
"""The key of the choice of another cluster."""
OWN = {"own": True}
"""Marks a field that differs between runs, or follows from other fields, so that comparing runs ignores it."""


@record
class JobSpec:
    """The complete result of resolving: everything that the script contains. Empty text is not written.

    ``rank_number``: bash's expression for a rank's number, if each rank writes its own log. ``rank_identity``: those
    for its number, its number on its node and that of the node, where the launcher tells them. ``rank_setup``: bash
    lines that every rank runs before its command. ``unverified``: remarks on site values that the centre's own pages do
    not confirm. ``secrets``: names of variables whose values only the job sees; ``secrets_folder``: the absolute path
    of their files, because the job's environment may differ. ``run_dir``: with a ``sweep``, the folder that contains
    the run directories 0000, 0001, … ``strategy``: what averages gradients, if the job offers a choice.
    ``before_launch``: calls of the script's library, one per line. ``parameters``: all parameters that are not swept,
    with their values; ``command`` has only those that differ from the program's defaults, or were typed. ``recipe``:
    None for a job without ``training`` and without recipes of its own. ``calibration_key``: the key under which a later
    plan finds this run's measurements; empty if no plan would use it. ``after``: the runs for which the job waits.
    ``broadcast``: None if nothing is copied to the nodes. ``further``: the further node types of a heterogeneous job.
    ``packages``: those that the Python in ``python_folder`` (empty: not known) must have. ``samples``: a sampler runs.
    ``clusters``: the other cluster that gets the script, or several, joined by commas, of which the scheduler chooses
    one; empty: that of the submitting machine. ``address_suffix``: that of MASTER_ADDR. ``defaults``: the variables of
    ``environment`` that count only where no line of set-up exports them. ``way_on``: the last of the ``warnings`` if
    the site has no software for the program. ``contained``: the ranks run in a container.
    ``asked``: the rest of what a scheduler is asked for (`job_request.job_request_of` has all of it).
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
    rank_identity: tuple[str, ...]
    rank_setup: tuple[str, ...]
    command: tuple[str, ...]
    before_launch: tuple[str, ...] = field(metadata=OWN)
    launch: tuple[str, ...]
    hosts: tuple[str, ...]
    secrets: tuple[str, ...]
    secrets_folder: str
    restarts: Restarts
    code: Code = field(metadata=OWN)
    data: DataNeed | None
    unverified: tuple[str, ...] = field(metadata=OWN)
    sweep: Sweep | None = field(default=None, metadata=OWN)
    trials: TrialLayout | None = field(default=None, metadata=OWN)
    strategy: str = ""
    parameters: Pairs = field(default=(), metadata=OWN)
    recipe: RunRecipe | None = field(default=None, metadata=OWN)
    predicted: PredictedRate | None = field(default=None, metadata=OWN)
    calibration_key: str = field(default="", metadata=OWN)
    after: tuple[str, ...] = field(default=(), metadata=OWN)
    broadcast: Broadcast | None = None
    choices: tuple[Choice, ...] = field(default=(), metadata=OWN)
    declined: tuple[Declined, ...] = field(default=(), metadata=OWN)
    warnings: tuple[str, ...] = field(default=(), metadata=OWN)
    further: tuple[Component, ...] = ()
    packages: tuple[str, ...] = field(default=(), metadata=OWN)
    python_folder: str = field(default="", metadata=OWN)
    samples: bool = field(default=True, metadata=OWN)
    defaults: tuple[str, ...] = ()
    address_suffix: str = ""
    asked: Asked = field(default_factory=Asked, metadata=OWN)
    way_on: str = field(default="", metadata=OWN)
    clusters: str = ""
    contained: bool = False

    @property
    def components(self) -> tuple[JobSpec, ...]:
        """The components of a heterogeneous job, each as a job of its own; of any other job the spec itself."""
        first = replace(self, layout=replace(self.layout, further=()), further=()) if self.further else self
        pairs = zip(self.further, self.layout.further, strict=True)
        return (first, *(replace(first, layout=layout, **asdict(one)) for one, layout in pairs))

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return asdict(self)


@record
class Script:
    """The submitted script, and what lies beside it in the run directory: the library of functions, the sampler."""

    text: str
    library: str
    sampler: str = ""
