"""The parts of a spec and of its context that are values of their own."""

from __future__ import annotations

from hpclaunch.core.json_values import finite
from hpclaunch.core.records import record


@record
class Allocation:
    """A job of this user that runs now, as Slurm describes it, in which a run can begin at once (``submit --here``).

    ``hosts``: the names of its nodes, in order; ``nodes``: the same as Slurm spells them. ``cpus``, ``gpus``: what it
    has of every node, at least (``cpus`` 0: not known, nor are the GPUs). ``features``: its constraint. ``walltime``
    and ``left`` are in seconds (0: no limit).
    """

    job_id: str
    hosts: tuple[str, ...]
    nodes: str
    cpus: int = 0
    gpus: int = 0
    account: str = ""
    partition: str = ""
    qos: str = ""
    features: str = ""
    walltime: int = 0
    left: int = 0


@record
class Predecessor:
    """A run that another one waits for: that it has completed (``must_complete``), or that it has ended.

    ``is_run``: whether it is a run of hpclaunch, and not any other job of the scheduler. Then ``site`` is empty.
    ``jobs``: the IDs of its jobs that have not ended, and ``cluster`` where they are (empty: not known). ``sent_from``:
    the cluster from which they were sent to that other one. ``has_failed``: it, or a run of the array, has ended
    without completing. ``refusal`` and ``next``: why no run can wait for it, and what to do instead (empty: it can).
    ``command``: the words of its program, without the values of a sweep. ``is_same_name``: it is no single job, but all
    earlier ones of the user that have the new run's name, whichever these are.
    """

    run: str
    must_complete: bool
    site: str
    state: str
    jobs: tuple[str, ...] = ()
    cluster: str = ""
    sent_from: str = ""
    has_failed: bool = False
    refusal: str = ""
    next: str = ""
    command: tuple[str, ...] = ()
    is_run: bool = True
    is_same_name: bool = False

    def names(self, folder: str) -> bool:
        """Whether a word of its command contains this folder, as it would if it wrote there."""
        return any(folder.rstrip("/") in word for word in self.command)


@record
class Component:
    """One of the further node types of a heterogeneous job; ``Layout.further`` has its layout, at the same place."""

    node_type: str
    partition: str
    qos: str


@record
class Asked:
    """What a job asks its scheduler for beside its nodes, its place and its time; see `job_request.JobRequest`."""

    name: str = ""
    memory: int = 0
    gpu_type: str = ""
    gpu_part: bool = False
    features: str = ""
    after_success: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()
    after_same_name: bool = False
    mail_to: str = ""
    mail_events: tuple[str, ...] = ()


CONDA_PREFIX = "$CONDA_PREFIX"
"""The folder of a conda environment that is known by its name: only the job knows it, after its activation."""


@record
class Broadcast:
    """What a job copies to each of its nodes before the ranks start, beside the code that it has copied.

    ``source``: the folder of a venv or conda environment (or CONDA_PREFIX), or the file of a container's image; empty
    if there is none. ``folder``: where the nodes keep their copies. ``required``: the job stops if that fails.
    """

    source: str
    folder: str
    required: bool


@record
class DataNeed:
    """The data set a job reads: one of ``layouts`` must exist in ``folder`` or in ``folder``/``name``.

    Without layouts ``folder`` is a typed folder or file, which must exist; only the program knows what is in it.
    ``address``: whether the job file has an address to fetch it from, or a program that makes it. ``setting``: the
    setting that chooses it among several data sets of the job, as ``NAME=VALUE``.
    """

    name: str
    folder: str
    layouts: tuple[str, ...]
    origin: str
    address: bool = True
    setting: str = ""


@record
class TrialLayout:
    """The trials of a search inside one allocation: on every node one worker, with ``per_node`` trials at a time.

    - ``cpus``, ``gpus``: those of one trial. ``python``: the interpreter of the workers, which is that of hpclaunch.
    - ``names``: the parameters whose values differ. ``free``: the program declares no parameters, so names are passed
      on as they were typed, or as ``options`` has them. ``filled``: the names that stand as ``{NAME}`` in typed
      arguments, where the value is put.
    - ``position``: the place of a trial's own words in the command. ``arguments``: the number of typed arguments, the
      last words of the command.
    """

    per_node: int
    cpus: int
    gpus: int
    python: str
    names: tuple[str, ...]
    free: bool = False
    filled: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    position: int = 0
    arguments: int = 0


@record
class PredictedRate:
    """Predicted samples/s of all ranks, with their 80 % interval. ``measured``: it rests on measurements of the job.

    A spec has none if the planner could predict nothing or was not asked, and for a sweep. ``mfu``: the model FLOP
    utilization at this rate, of the ``peak`` in words (None: not known). It is proportional to the rate.
    """

    samples_per_s: float
    low: float
    high: float
    measured: bool
    mfu: float | None = None
    peak: str = ""


def utilization_at(predicted: object, samples_per_s: float) -> tuple[float, float, str] | None:
    """Return the utilization that a measured rate reaches, the expected one, and the peak that both refer to.

    ``predicted``: what a run's spec has recorded. None if it has recorded no utilization.
    """
    if not isinstance(predicted, dict):
        return None
    rate, expected = finite(predicted.get("samples_per_s")), finite(predicted.get("mfu"))
    if not rate or not expected or rate < 0 or expected < 0:
        return None
    return expected * samples_per_s / rate, expected, str(predicted.get("peak", ""))
