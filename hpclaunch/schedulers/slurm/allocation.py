"""Allocations in which a person works: the one that a shell is in, and the command that opens a shell in a new one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.spec import JobSpec, Layout
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.core.units import parse_walltime
from hpclaunch.runs.node_lists import names_in
from hpclaunch.schedulers.slurm.components import job_of
from hpclaunch.schedulers.slurm.programs import Answer, ask, leaking

_JOB = re.compile("[0-9]{1,18}")
_FORMAT = "%i|%T|%U|%P|%a|%q|%l|%L|%N|%f"
_UNKNOWN = ("", "(null)", "N/A", "UNLIMITED", "INVALID", "NOT_SET")
_PER_NODE = re.compile(r"\bNodes=\S+ CPU_IDs=([0-9,-]*) Mem=\S* GRES=(\S*)")
"""What a job has of some of its nodes, in the answer of ``scontrol --detail show job``."""
_SPAN = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?")
_OF_A_JOB = ("SLURM_JOB_", "SLURM_GPUS", "SLURM_MEM_PER_", "SLURM_SUBMIT_", "SLURM_CLUSTER", "SLURM_TOPOLOGY_")
_NOT_OF_A_JOB = ("SLURM_CLUSTERS",)
"""What looks like one of them: it would send what the run asks Slurm to another cluster."""
_OF_A_JOB_TOO = ("SLURM_CONF", "SLURM_JOBID", "SLURM_NODE_ALIASES", "SLURM_TIME_FORMAT")
"""The variables that Slurm sets for the script of a job. Others belong to the step in which a shell runs, or are
options that it was given: srun would take them for the options of the ranks' step."""
_STEP = re.compile("[0-9]{1,9}")
"""The number of an ordinary step; those of a job's script and of an interactive step are larger than 4,294,000,000."""
_OF_THE_SCRIPT = (
    *("array", "batch", "chdir", "error", "export", "export-file", "ignore-pbs", "input", "kill-on-invalid-dep"),
    *("no-requeue", "open-mode", "output", "propagate", "requeue", "signal"),
)
"""Options of sbatch that concern the script of a job: salloc starts none, and has no such options (seen with 22.05; a
signal for the script, ``B:USR1@60``, is refused, too)."""


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that SLURM_JOB_ID names, as squeue and scontrol describe it; None without the variable.

    Of a heterogeneous job it is the first component.
    Raises SchedulerError if it does not run, is another user's, or if Slurm does not answer.
    """
    job_id = environment.get("SLURM_JOB_ID", "")
    if not _JOB.fullmatch(job_id):
        return None
    unseen = ["SLURM_TIME_FORMAT"]
    answer = ask(["squeue", "--noheader", "--states=all", f"--jobs={job_id}", f"--format={_FORMAT}"], without=unseen)
    found = _read(job_id, answer)
    detail = ask(["scontrol", "--oneliner", "--detail", "show", "job", job_id], without=unseen)
    own = [line for line in detail.text.split("\n") if line.startswith(f"JobId={job_id} ")]
    parts = list(_parts_in("\n".join(own))) if detail.ok else []
    if not parts:
        return found
    return replace(found, cpus=min(cpus for cpus, _ in parts), gpus=min(gpus for _, gpus in parts))


def _read(job_id: str, answer: Answer) -> Allocation:
    """Return the allocation in the answer of squeue. Raises SchedulerError.

    squeue lists the components of a heterogeneous job in any order; a task of an array has another name there.
    """
    lines = answer.text.split("\n")
    line = next((one for one in lines if job_of(one.partition("|")[0]) == job_id), lines[0])
    _, state, uid, partition, account, qos, walltime, left, nodes, features = [*line.split("|", 9), *[""] * 10][:10]
    where, what = f"SLURM_JOB_ID={job_id}", ""
    if not answer.ok and "Invalid job id" not in answer.messages:
        what = f"Slurm does not tell whether this job runs: {answer.words}"
    elif not state:
        what = "Slurm knows no such job any more"
    elif state != "RUNNING":
        what = f"this job is {state}"
    elif uid != str(os.getuid()):
        what = f"this job belongs to the user with uid {uid}"
    if what:
        next_step = "leave this shell (exit), or unset SLURM_JOB_ID; hpclaunch shell opens a new allocation"
        raise SchedulerError(Fault(where=where, what=what, next=next_step, subject="scheduler"))
    return Allocation(
        job_id=job_id,
        hosts=names_in(nodes),
        nodes=nodes,
        account=_value_of(account),
        partition=_value_of(partition),
        qos=_value_of(qos),
        features=_value_of(features),
        walltime=_seconds(walltime),
        left=_seconds(left),
    )


def _value_of(text: str) -> str:
    return "" if text in _UNKNOWN else text


def _seconds(text: str) -> int:
    try:
        return parse_walltime(text)
    except ValueError:
        return 0


def _parts_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield (CPUs, GPUs) of each group of the job's nodes; CPUs 0: Slurm's answer is damaged."""
    from hpclaunch.sites.describe.answers import gpus_of

    for cpu_ids, gres in _PER_NODE.findall(text):
        spans = [_SPAN.fullmatch(part) for part in cpu_ids.split(",") if part]
        cpus = sum(int(span[2] or span[1]) - int(span[1]) + 1 for span in spans if span) if all(spans) else 0
        yield max(0, cpus), sum(number for _, number in gpus_of(gres))


def variables_in(allocation: Allocation, layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a shell in the allocation, with Slurm's own as the script of a job would have them.

    Inside an ordinary step, which holds its CPUs and GPUs, the steps of the run share those: else they would wait for
    its end for ever.
    """
    foreign = {name for name in leaking(environment) if not name.startswith(_OF_A_JOB) and name not in _OF_A_JOB_TOO}
    kept = {name: value for name, value in environment.items() if name not in foreign and name not in _NOT_OF_A_JOB}
    hosts = allocation.hosts[: layout.nodes]
    nodes = allocation.nodes if len(hosts) == len(allocation.hosts) else ",".join(hosts)
    by_node = f"{layout.tasks_per_node}(x{layout.nodes})" if layout.nodes > 1 else f"{layout.tasks_per_node}"
    own = {
        "SLURM_JOB_ID": allocation.job_id,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(layout.nodes),
        "SLURM_NNODES": str(layout.nodes),
        "SLURM_NTASKS": str(layout.world_size),
        "SLURM_NPROCS": str(layout.world_size),
        "SLURM_NTASKS_PER_NODE": str(layout.tasks_per_node),
        "SLURM_TASKS_PER_NODE": by_node,
        "SLURM_CPUS_PER_TASK": str(layout.cpus_per_task),
    }
    if "SLURM_HET_SIZE" in environment:  # without it srun starts nothing in a heterogeneous job (seen with 22.05)
        own["SLURM_HET_SIZE"] = "1"
    if _STEP.fullmatch(environment.get("SLURM_STEP_ID", "")):
        own["SLURM_OVERLAP"] = "1"
    return {**kept, **own}


def shell_command(spec: JobSpec, shell: Sequence[str]) -> tuple[str, ...]:
    """Return salloc with the job's options, and the step that opens the shell on the first node.

    The step is the one that salloc itself starts with ``LaunchParameters=use_interactive_step`` (slurm.conf manual,
    InteractiveStepOptions): it holds no CPUs, so that other steps can run beside it.
    """
    options = [
        f"--{name}={value}" if value else f"--{name}" for name, value in spec.directives if name not in _OF_THE_SCRIPT
    ]
    options += [f"--clusters={spec.clusters}"] if spec.clusters else []
    return ("salloc", *options, "srun", "--interactive", "--preserve-env", "--pty", *shell)
