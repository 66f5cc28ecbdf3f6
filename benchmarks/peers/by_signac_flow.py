"""signac-flow 0.29.1: "Cluster submission" and "Templates" of docs.signac.io, and `submit --template-help`.

An operation's command is shell text, which the user quotes; the layout stands in the project's own template, as the
documentation teaches for a cluster without a bundled one. `submit --pretend` shows the script.
"""

from __future__ import annotations

import shlex

from cases import MINUTES, NODES, RANKS_PER_NODE, Case
from peer import Peer, Place

PROJECT = """
import flow

class Environment(flow.environment.DefaultSlurmEnvironment):
    hostname_pattern = ".*"

class Project(flow.FlowProject):
    pass

@Project.operation(cmd=True)
def peers(job):
    return {command!r}

if __name__ == "__main__":
    Project().main()
"""
TEMPLATE = """{{% extends "slurm.sh" %}}
{{% block tasks %}}
#SBATCH --partition={partition} --nodes={nodes} --ntasks-per-node={tasks} --cpus-per-task=1 --time={minutes}{options}
{{% endblock tasks %}}
{{% block custom_content %}}
{lines}
{{% endblock custom_content %}}
"""
INIT = "import signac; signac.init_project().open_job({'peers': 1}).init()\n"


def files(case: Case, place: Place) -> dict[str, str]:
    options, lines, srun = "", [], ["srun"]
    options += f" --gpus-per-task={case.gpus_per_rank}" if case.gpus_per_rank else ""
    options += " --requeue" if case.requeue else ""
    if case.clean:
        options, srun = f"{options} --export=NONE", ["srun", "--export=ALL"]
        lines = case.exports()
    template = TEMPLATE.format(
        partition=case.partition,
        nodes=NODES,
        tasks=RANKS_PER_NODE,
        minutes=MINUTES,
        options=options,
        lines="\n".join(lines),
    )
    project = PROJECT.format(command=shlex.join([*srun, *place.command(case)]))
    return {"project.py": project, "templates/script.sh": template, "init.py": INIT}


def command(case: Case, place: Place, *more: str) -> list[str]:
    return [str(place.python), "project.py", "submit", *more]


def shown(output: str, place: Place) -> str:
    """Two empty lines and the submit command follow the script."""
    return output.rpartition("\n\n\n# Submit command")[0] + "\n"


PEER = Peer(
    name="signac-flow",
    package="signac-flow==0.29.1",
    documentation="docs.signac.io/en/latest: Cluster submission, Templates",
    files=files,
    prepare=lambda case, place: [str(place.python), "init.py"],
    submit=command,
    dry_run=lambda case, place: command(case, place, "--pretend"),
    shown=shown,
)
