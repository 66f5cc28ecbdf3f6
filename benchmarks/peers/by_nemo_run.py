"""NeMo-Run 0.11.1: "Slurm executor", "Configuration" and "Execution" of docs.nvidia.com/nemo/run.

`LocalTunnel` is its way on a login node. The documentation expects containers with Pyxis; without an image it starts
the ranks by srun alone. An inline script is shell text, which the user quotes. `dryrun` shows the script.
Its `leptonai` is the oldest that it allows: `import nemo_run` fails with the newest, 0.47.1.
"""

from __future__ import annotations

import shlex

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

USER_SCRIPT = """
import sys
import nemo_run as run

executor = run.SlurmExecutor(
    account="research", partition={partition!r}, nodes={nodes}, ntasks_per_node={tasks}, cpus_per_task=1,
    time="00:{minutes}:00", tunnel=run.LocalTunnel(job_dir=""), packager=run.Packager(),
    poll_estimated_start_time=False,
    retries={retries}, {options}
)
script = run.Script(inline={inline!r})
with run.Experiment("peers") as experiment:
    experiment.add(script, executor=executor, name="peers")
    if "--dry-run" in sys.argv:
        experiment.dryrun(delete_exp_dir=False)
    else:
        experiment.run(detach=True)
"""


def files(case: Case, place: Place) -> dict[str, str]:
    options = []
    if case.gpus_per_rank:
        options.append(f"gpus_per_task={case.gpus_per_rank}")
    if case.clean:
        options += ['additional_parameters={"export": "NONE"}', 'srun_args=["--export=ALL"]']
    lines = case.exports()
    text = USER_SCRIPT.format(
        partition=case.partition,
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        minutes=MINUTES,
        retries=3 if case.requeue else 0,
        options=", ".join(options),
        inline="\n".join([*lines, shlex.join(place.command(case))]) + "\n",
    )
    return {"submit.py": text}


def shown(output: str, place: Place) -> str:
    """The dry run writes the script that it shows into the home folder, too."""
    found = sorted((place.folder.parent / "home").rglob("*_sbatch.sh"))
    return found[0].read_text() if found else ""


PEER = Peer(
    name="NeMo-Run",
    package="nemo-run==0.11.1 leptonai==0.26.6",
    documentation="docs.nvidia.com/nemo/run: Slurm executor, Configuration, Execution",
    files=files,
    submit=lambda case, place: [str(place.python), "submit.py"],
    dry_run=lambda case, place: [str(place.python), "submit.py", "--dry-run"],
    shown=shown,
    run_names=(r"peers_\d+",),
)
