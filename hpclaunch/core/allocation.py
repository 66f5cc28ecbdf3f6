"""An allocation in which a run begins, as its scheduler describes it."""

from __future__ import annotations

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
