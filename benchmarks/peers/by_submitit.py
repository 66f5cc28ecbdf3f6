"""submitit 1.5.4: README.md, docs/structure.md and docs/examples.md of its repository (facebookincubator/submitit).

It submits a Python function; the function of a user with a program starts it and ends with its exit code. It has no dry
run: the script is a file beside the pickled function once it is submitted. `clean_env` is its way to submit from a job.
"""

from __future__ import annotations

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

USER_SCRIPT = """
import contextlib, subprocess, sys
import submitit

def program():
    code = subprocess.call({command!r})
    if code:
        sys.exit(code)

executor = submitit.AutoExecutor(folder="logs", cluster="slurm")
executor.update_parameters(
    nodes={nodes}, tasks_per_node={tasks}, cpus_per_task=1, timeout_min={minutes}, slurm_partition={partition!r},
    {options}
)
with {context}:
    job = executor.submit(program)
print(job.job_id)
"""


def files(case: Case, place: Place) -> dict[str, str]:
    options = []
    if case.gpus_per_rank:
        options.append(f"slurm_gpus_per_task={case.gpus_per_rank}")
    if case.clean:
        setup = case.exports()
        options += ['slurm_additional_parameters={"export": "NONE"}', 'slurm_srun_args=["--export=ALL"]']
        options.append(f"slurm_setup={setup!r}")
    text = USER_SCRIPT.format(
        command=place.command(case),
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        minutes=MINUTES,
        partition=case.partition,
        options=", ".join(options),
        context="submitit.helpers.clean_env()" if case.inside else "contextlib.nullcontext()",
    )
    return {"submit.py": text}


PEER = Peer(
    name="submitit",
    package="submitit==1.5.4",
    documentation="github.com/facebookincubator/submitit: README.md, docs/examples.md",
    files=files,
    submit=lambda case, place: [str(place.python), "submit.py"],
    cannot={
        "dry_run": "has no dry run: the script is written when it is submitted",
        "render_cpu": "has no dry run",
    },
)
