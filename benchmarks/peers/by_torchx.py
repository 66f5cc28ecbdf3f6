"""torchx 0.7.0: "Quickstart", "Custom components" and "Slurm" of pytorch.org/torchx, and the scheduler's docstring.

One replica of a role is one task, and each replica is a component of a heterogeneous job, which Slurm places on a node
of its own. So a replica starts the ranks of its node, as torchrun does in the bundled component `dist.ddp`; a script of
the user does this here, because the program needs no PyTorch. The Slurm scheduler has no option for sbatch's --export.
`torchx run --dryrun` shows the script below a line of its own.
"""

from __future__ import annotations

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

COMPONENT = """
import torchx.specs as specs

def job() -> specs.AppDef:
    "The job of the comparison."
    command = ["{ranks_py}", specs.macros.replica_id, *{command!r}]
    return specs.AppDef(name="peers", roles=[specs.Role(
        name="peers", image="", entrypoint="/usr/bin/python3", args=command, env={environment!r}, num_replicas={nodes},
        max_retries={retries}, resource=specs.Resource(cpu={tasks}, gpu={gpus}, memMB=-1),
    )])
"""
RANKS = """
import os, subprocess, sys

node, command = int(sys.argv[1]), sys.argv[2:]
ranks = range(node * {tasks}, node * {tasks} + {tasks})
started = [subprocess.Popen(command, env={{**os.environ, "RANK": str(rank)}}) for rank in ranks]
sys.exit(max(process.wait() for process in started))
"""


def files(case: Case, place: Place) -> dict[str, str]:
    text = COMPONENT.format(
        ranks_py=place.folder / "ranks.py",
        command=place.command(case),
        environment=case.typed,
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        retries=3 if case.requeue else 0,
        gpus=case.gpus_per_rank * RANKS_PER_NODE,
    )
    return {"component.py": text, "ranks.py": RANKS.format(tasks=RANKS_PER_NODE)}


def command(case: Case, place: Place, *more: str) -> list[str]:
    options = f"partition={case.partition},time=00:{MINUTES}:00"
    words = [str(place.programs / "torchx"), "run", *more, "--workspace", "", "--scheduler", "slurm"]
    return [*words, "--scheduler_args", options, "component.py:job"]


def shown(output: str, place: Place) -> str:
    """The script stands below the title of the request."""
    return output.partition("# SBATCH_SCRIPT\n#----------------\n")[2].rstrip("\n") + "\n"


PEER = Peer(
    name="torchx",
    package="torchx==0.7.0",
    documentation="pytorch.org/torchx/0.7.0: Quickstart, Slurm",
    files=files,
    submit=command,
    dry_run=lambda case, place: command(case, place, "--dryrun"),
    shown=shown,
    run_names=(r"/\S*/torchx-sbatch\.sh", r"# Run with: .*"),
)
