"""simple_slurm 0.3.6: README.md of its repository (amq92/simple_slurm).

Its commands are shell text, which the user quotes. `job_file` and `convert=False` keep the text as it is written;
without them it goes through a here document of the login shell. Printing the object is its way to look at the script.
"""

from __future__ import annotations

import shlex

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

USER_SCRIPT = """
import sys
from simple_slurm import Slurm

slurm = Slurm(
    nodes={nodes}, ntasks_per_node={tasks}, cpus_per_task=1, time="00:{minutes}:00", partition={partition!r},
    {options}
)
for line in {lines!r}:
    slurm.add_cmd(line)
if "--dry-run" in sys.argv:
    print(slurm.script(convert=False), end="")
else:
    print(slurm.sbatch(convert=False, job_file="job.sh"))
"""


def files(case: Case, place: Place) -> dict[str, str]:
    options, lines, srun = [], [], ["srun"]
    if case.gpus_per_rank:
        options.append(f"gpus_per_task={case.gpus_per_rank}")
    if case.requeue:
        options.append("requeue=True")
    if case.clean:
        options.append('export="NONE"')
        lines = case.exports()
        srun = ["srun", "--export=ALL"]
    text = USER_SCRIPT.format(
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        minutes=MINUTES,
        partition=case.partition,
        options=", ".join(options),
        lines=[*lines, shlex.join([*srun, *place.command(case)])],
    )
    return {"submit.py": text}


PEER = Peer(
    name="simple_slurm",
    package="simple-slurm==0.3.6",
    documentation="github.com/amq92/simple_slurm: README.md",
    files=files,
    submit=lambda case, place: [str(place.python), "submit.py"],
    dry_run=lambda case, place: [str(place.python), "submit.py", "--dry-run"],
)
