"""What a job asks of a scheduler, in words that are no scheduler's: its template writes them as its directives."""

from __future__ import annotations

from hpclaunch.core.records import record
from hpclaunch.core.spec import JobSpec


@record
class JobRequest:
    """One job, on nodes of one type. Empty text, 0, an empty tuple and False ask for nothing.

    - ``nodes``, ``ranks_per_node``, ``cpus_per_rank``, ``gpus_per_node``; ``memory`` in MB per node.
    - ``gpu_type``: as the scheduler calls it. ``gpu_part``: a part of one GPU is enough. ``features``: of its nodes.
    - ``walltime`` in seconds; ``account`` pays; ``queue``, and in it the ``priority_class``.
    - ``array``: the number of its tasks, which count from 0; ``at_once``: how many may run at a time.
    - ``after_success``, ``after_end``: IDs of jobs that must have completed, or ended; ``after_same_name``: also every
      earlier job of the user with its name.
    - ``signal`` comes ``lead`` seconds before the end of the walltime. ``requeue``: its script has the scheduler start
      it again.
    - ``mail_to`` gets mail of the ``mail_events``, in the words of the settings. ``folder``: where it starts.
    """

    name: str
    nodes: int
    ranks_per_node: int
    cpus_per_rank: int
    gpus_per_node: int
    gpu_type: str
    gpu_part: bool
    memory: int
    features: str
    walltime: int
    account: str
    queue: str
    priority_class: str
    array: int
    at_once: int
    after_success: tuple[str, ...]
    after_end: tuple[str, ...]
    after_same_name: bool
    signal: str
    lead: int
    requeue: bool
    mail_to: str
    mail_events: tuple[str, ...]
    folder: str


def job_request_of(spec: JobSpec) -> JobRequest:
    """Return what the job of a spec asks for; of a heterogeneous job, its first component."""
    layout, asked, sweep, restarts = spec.layout, spec.asked, spec.sweep, spec.restarts
    return JobRequest(
        name=asked.name,
        nodes=layout.nodes,
        ranks_per_node=layout.tasks_per_node,
        cpus_per_rank=layout.cpus_per_task,
        gpus_per_node=layout.gpus_per_node,
        gpu_type=asked.gpu_type,
        gpu_part=asked.gpu_part,
        memory=asked.memory,
        features=asked.features,
        walltime=spec.walltime,
        account=spec.account,
        queue=spec.partition,
        priority_class=spec.qos,
        array=sweep.count if sweep else 0,
        at_once=sweep.at_once if sweep else 0,
        after_success=asked.after_success,
        after_end=asked.after_end,
        after_same_name=asked.after_same_name,
        signal=restarts.signal if restarts.most else "",
        lead=restarts.lead,
        requeue=bool(restarts.most) and restarts.by == "requeue",
        mail_to=asked.mail_to,
        mail_events=asked.mail_events,
        folder=spec.run_dir,
    )
