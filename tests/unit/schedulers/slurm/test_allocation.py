"""The allocation in Slurm's answers, the variables of a run in it, and the command of a shell in a new one."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hpclaunch.core.errors import SchedulerError
from hpclaunch.core.spec import Layout
from hpclaunch.core.spec_parts import Allocation
from hpclaunch.schedulers.slurm.allocation import _parts_in, _read, allocation, shell_command, variables_in
from hpclaunch.schedulers.slurm.programs import Answer
from tests.builders import planned

ME = os.getuid()
LINE = f"4711|RUNNING|{ME}|batch|m1|normal|1-00:00:00|59:30|node[2-3]|(null)\n"
HELD = Allocation(job_id="4711", hosts=("node2", "node3"), nodes="node[2-3]")
LAYOUT = Layout(nodes=2, tasks_per_node=4, cpus_per_task=2)


def test_a_running_job_of_this_user_is_an_allocation() -> None:
    assert _read("4711", Answer(ok=True, text=LINE)) == replace(
        HELD, account="m1", partition="batch", qos="normal", walltime=86400, left=3570
    )


def test_of_a_heterogeneous_job_it_is_the_first_component() -> None:
    first = LINE.replace("4711|", "4711+0|", 1)
    further = LINE.replace("4711|", "4711+1|", 1).replace("node[2-3]", "node9")
    for text in (first + further, further + first):
        assert _read("4711", Answer(ok=True, text=text)).hosts == ("node2", "node3")
    assert _read("4711", Answer(ok=True, text=LINE.replace("4711|", "4700_3|", 1))).hosts == ("node2", "node3")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer(ok=True, text=LINE.replace("RUNNING", "COMPLETED")), "this job is COMPLETED"),
        (Answer(ok=True, text=LINE.replace(f"|{ME}|", f"|{ME + 1}|")), f"belongs to the user with uid {ME + 1}"),
        (Answer(ok=True, text=""), "Slurm knows no such job any more"),
        (Answer(ok=False, messages="slurm_load_jobs error: Invalid job id specified"), "knows no such job any more"),
        (Answer(ok=False, messages="Unable to contact slurm controller"), "Unable to contact slurm controller"),
    ],
)
def test_anything_else_is_refused_with_what_to_do(answer: Answer, what: str) -> None:
    with pytest.raises(SchedulerError) as caught:
        _read("4711", answer)
    (fault,) = caught.value.faults
    assert what in fault.what
    assert (fault.where, "hpclaunch shell" in fault.next) == ("SLURM_JOB_ID=4711", True)


def test_a_limit_that_there_is_not_is_none() -> None:
    assert _read("4711", Answer(ok=True, text=LINE.replace("1-00:00:00|59:30", "UNLIMITED|UNLIMITED"))).left == 0


@pytest.mark.parametrize("value", ["", "4711; rm -r /", "-1", "4711_3", "9" * 19])
def test_without_the_number_of_a_job_slurm_is_not_asked(value: str) -> None:
    assert allocation({"SLURM_JOB_ID": value}) is None


def test_the_parts_of_nodes_are_counted_for_each_group() -> None:
    text = "TRES=cpu=12 Nodes=node1 CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-3) Nodes=n2 CPU_IDs=0-1,4-5 Mem=0 GRES= X=1"
    assert list(_parts_in(text)) == [(8, 4), (4, 0)]


def test_the_variables_of_a_shells_own_step_do_not_reach_the_run() -> None:
    shell = {
        "PATH": "/bin",
        "SLURM_JOB_ID": "4711",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_NTASKS": "1",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_STEP_ID": "4294967290",
        "SLURM_EXPORT_ENV": "ALL",
        "SLURM_MPI_TYPE": "none",
        "SBATCH_ACCOUNT": "m2",
        "PMIX_RANK": "0",
    }
    assert variables_in(HELD, LAYOUT, shell) == {
        "PATH": "/bin",
        "SLURM_JOB_ID": "4711",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_JOB_NODELIST": "node[2-3]",
        "SLURM_NODELIST": "node[2-3]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "8",
        "SLURM_NPROCS": "8",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "SLURM_CPUS_PER_TASK": "2",
    }


def test_the_run_in_a_heterogeneous_job_is_one_of_a_single_component() -> None:
    found = variables_in(HELD, LAYOUT, {"SLURM_HET_SIZE": "2", "SLURM_NODELIST_HET_GROUP_1": "node9"})
    assert found["SLURM_HET_SIZE"] == "1" and "SLURM_NODELIST_HET_GROUP_1" not in found
    assert "SLURM_HET_SIZE" not in variables_in(HELD, LAYOUT, {})


def test_a_run_on_fewer_nodes_has_the_first_and_one_in_an_ordinary_step_shares_its_cpus() -> None:
    found = variables_in(HELD, replace(LAYOUT, nodes=1), {"SLURM_STEP_ID": "0"})
    assert (found["SLURM_JOB_NODELIST"], found["SLURM_TASKS_PER_NODE"], found["SLURM_OVERLAP"]) == ("node2", "4", "1")


def test_a_shell_is_opened_by_salloc_with_the_options_of_a_job_but_those_of_its_script() -> None:
    typed = ("--comment=a b", "--signal=B:USR1@60", "--propagate=ALL", "--batch=x", "--ignore-pbs")
    command = shell_command(planned(nodes=2, account="m1", sbatch=typed), ["/bin/bash"])
    words = list(command)
    assert words[0] == "salloc"
    assert words[words.index("srun") :] == ["srun", "--interactive", "--preserve-env", "--pty", "/bin/bash"]
    options = words[1 : words.index("srun")]
    assert {"--account=m1", "--nodes=2", "--comment=a b", "--partition=batch"} <= set(options)
    names = {word.partition("=")[0] for word in options}
    assert not names & {"--chdir", "--output", "--open-mode", "--no-requeue", "--requeue", "--export"}
    assert not names & {"--signal", "--propagate", "--batch", "--ignore-pbs"}
