"""psij-python 0.9.11: "Getting started" and "Executors" of exaworks.org/psij-python, and its own docstrings.

It starts ranks by its launcher `srun`. The template quotes names and values itself. It has no dry run: with
`keep_files` the script stays in ~/.psij/work after the submission.
"""

from __future__ import annotations

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

USER_SCRIPT = """
import datetime
import psij

command = {command!r}
job = psij.Job(psij.JobSpec(
    executable=command[0], arguments=command[1:], launcher="srun",
    inherit_environment={inherit!r}, environment={environment!r},
    resources=psij.ResourceSpecV1(
        node_count={nodes}, processes_per_node={tasks}, cpu_cores_per_process=1, gpu_cores_per_process={gpus!r}
    ),
    attributes=psij.JobAttributes(duration=datetime.timedelta(minutes={minutes}), queue_name={partition!r}),
))
psij.JobExecutor.get_instance("slurm").submit(job)
print(job.native_id)
"""


def files(case: Case, place: Place) -> dict[str, str]:
    text = USER_SCRIPT.format(
        command=place.command(case),
        inherit=not case.clean,
        # srun takes --export from this variable; without it, it would follow sbatch's NONE.
        environment={"SLURM_EXPORT_ENV": "ALL", **case.typed} if case.clean else None,
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        gpus=case.gpus_per_rank or None,
        minutes=MINUTES,
        partition=case.partition,
    )
    return {"submit.py": text}


PEER = Peer(
    name="psij-python",
    package="psij-python==0.9.11",
    documentation="exaworks.org/psij-python: Getting started, Executors",
    files=files,
    submit=lambda case, place: [str(place.python), "submit.py"],
    cannot={
        "dry_run": "has no dry run: the script is written when it is submitted",
        "render_cpu": "has no dry run",
    },
)
