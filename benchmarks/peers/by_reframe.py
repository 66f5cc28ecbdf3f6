"""ReFrame 4.10.4: "Tutorial", "Regression test API" and "Configuration" of reframe-hpc.readthedocs.io/en/v4.10.4.

A test's options are shell text, which the user quotes. It follows the job to its end, so its times are taken until
sbatch has answered. `--dry-run` writes the script into the test's stage folder. Nodes
are named by its option `use_nodes_option`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from cases import MINUTES, RANKS, RANKS_PER_NODE, Case
from peer import Peer, Place

SETTINGS = """
site_configuration = {{"systems": [{{
    "name": "peers", "hostnames": [".*"], "prefix": ".",
    "partitions": [{{
        "name": "nodes", "scheduler": "slurm", "launcher": "srun", "environs": ["builtin"],
        "access": ["--partition={partition}"], "sched_options": {{"use_nodes_option": True}},
    }}],
}}]}}
"""
TEST = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Peers(rfm.RunOnlyRegressionTest):
    valid_systems, valid_prog_environs = ["*"], ["*"]
    num_tasks, num_tasks_per_node, num_cpus_per_task, time_limit = {ranks}, {tasks}, 1, "{minutes}m"
    executable, executable_opts, env_vars = {executable!r}, {options!r}, {variables!r}

    @run_before("run")
    def options(self):
        self.job.options += {sbatch!r}
        self.job.launcher.options += {srun!r}

    @sanity_function
    def ended(self):
        return True
"""


def files(case: Case, place: Place) -> dict[str, str]:
    words = place.command(case)
    sbatch = [f"--gpus-per-task={case.gpus_per_rank}"] if case.gpus_per_rank else []
    sbatch += ["--requeue"] if case.requeue else []
    sbatch += ["--export=NONE"] if case.clean else []
    test = TEST.format(
        ranks=RANKS,
        tasks=RANKS_PER_NODE,
        minutes=MINUTES,
        executable=words[0],
        options=[shlex.quote(word) for word in words[1:]],
        variables={name: shlex.quote(value) for name, value in case.typed.items()},
        sbatch=sbatch,
        srun=["--export=ALL"] if case.clean else [],
    )
    return {"settings.py": SETTINGS.format(partition=case.partition), "test.py": test}


def command(case: Case, place: Place, what: str) -> list[str]:
    return [str(place.programs / "reframe"), "-C", "settings.py", "-c", "test.py", "--keep-stage-files", what]


def shown(output: str, place: Place) -> str:
    found: list[Path] = sorted(place.folder.rglob("rfm_job.sh"))
    return found[0].read_text() if found else ""


PEER = Peer(
    name="ReFrame",
    package="reframe-hpc==4.10.4",
    documentation="reframe-hpc.readthedocs.io/en/v4.10.4: Tutorial, Regression test API, Configuration",
    files=files,
    submit=lambda case, place: command(case, place, "--run"),
    dry_run=lambda case, place: command(case, place, "--dry-run"),
    shown=shown,
    stays=True,
)
