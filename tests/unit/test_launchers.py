from __future__ import annotations

from dataclasses import replace

import pytest

from hpclaunch.core.errors import NotFound
from hpclaunch.core.spec import Layout
from hpclaunch.launchers import (
    LAUNCHERS,
    Launch,
    direct,
    horovodrun,
    ibrun,
    launcher_row,
    local,
    mpirun,
    srun,
    torchrun,
)

TWO_BY_FOUR = Layout(nodes=2, tasks_per_node=4, cpus_per_task=8, gpus_per_node=4)
SRUN = "srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8"
END = "--kill-on-bad-exit=1 --wait=60"


@pytest.mark.parametrize(
    ("launch", "command"),
    [
        (Launch(layout=TWO_BY_FOUR), f"{SRUN} {END}"),
        (Launch(layout=TWO_BY_FOUR, mpi="pmix"), f"{SRUN} --mpi=pmix {END}"),
        (Launch(layout=TWO_BY_FOUR, cpu_bind="cores"), f"{SRUN} --cpu-bind=cores {END}"),
        (Launch(layout=TWO_BY_FOUR, gpu_bind="none"), f"{SRUN} --gpu-bind=none {END}"),
        (Launch(layout=TWO_BY_FOUR, gpus_by="gpus-per-node"), f"{SRUN} --gpus-per-node=4 {END}"),
        (Launch(layout=TWO_BY_FOUR, gpus_by="gpus-per-task"), f"{SRUN} --gpus-per-task=1 {END}"),
        (Launch(layout=TWO_BY_FOUR, exit_wait=5), f"{SRUN} --kill-on-bad-exit=1 --wait=5"),
        (Launch(layout=TWO_BY_FOUR, extra=("--network=x",)), f"{SRUN} {END} --network=x"),
    ],
)
def test_srun(launch: Launch, command: str) -> None:
    assert srun(launch) == tuple(command.split())


def test_srun_joins_the_components_of_a_heterogeneous_job_into_one_step() -> None:
    one = Launch(layout=Layout(nodes=1, tasks_per_node=1, cpus_per_task=2), cpu_bind="cores", mpi="pmix")
    first = "--het-group=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --cpu-bind=cores --mpi=pmix"
    further = f"--het-group=1 {SRUN.removeprefix('srun ')} --mpi=pmix {END}"
    command = srun(replace(one, further=(Launch(layout=TWO_BY_FOUR, mpi="pmix"),)))
    assert command == tuple(f"srun {first} {END} : {further}".split())


def test_srun_binds_no_gpu_where_none_is_asked_for() -> None:
    layout = Layout(nodes=1, tasks_per_node=2, cpus_per_task=1)
    assert not [word for word in srun(Launch(layout=layout, gpu_bind="none")) if "gpu" in word]


@pytest.mark.parametrize("by", ["gpus-per-node", "gpus-per-task"])
def test_srun_asks_for_no_gpu_where_there_is_none(by: str) -> None:
    layout = Layout(nodes=1, tasks_per_node=2, cpus_per_task=1)
    assert not [word for word in srun(Launch(layout=layout, gpus_by=by)) if "gpu" in word]


@pytest.mark.parametrize(
    ("launch", "step"),
    [
        (Launch(layout=TWO_BY_FOUR), "--cpu-bind=none"),
        (Launch(layout=TWO_BY_FOUR, cpu_bind="cores", gpu_bind="closest"), "--cpu-bind=none --gpu-bind=none"),
        (Launch(layout=TWO_BY_FOUR, gpus_by="gpus-per-task"), "--gpus-per-task=4 --cpu-bind=none"),
        (
            Launch(layout=TWO_BY_FOUR, gpus_by="gpus-per-node", mpi="pmix"),
            "--gpus-per-node=4 --cpu-bind=none --mpi=pmix",
        ),
    ],
)
def test_torchrun_is_one_task_on_every_node_that_starts_the_nodes_ranks(launch: Launch, step: str) -> None:
    command = f"srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=32 {step} {END} torchrun"
    ranks = "--nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --no_python"
    assert torchrun(launch) == (*command.split(), *ranks.split())


@pytest.mark.parametrize(
    ("hosts_file", "step"), [("", "spawn_ranks 1"), ("/run/hosts", "spawn_over_ssh 2 1 /run/hosts")]
)
def test_without_a_scheduler_the_script_itself_starts_a_torchrun_on_every_host(hosts_file: str, step: str) -> None:
    ranks = "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --no_python"
    launch = Launch(layout=TWO_BY_FOUR, hosts_file=hosts_file, started_by="local")
    assert torchrun(launch) == (*step.split(), *ranks.split())


@pytest.mark.parametrize(
    ("hosts_file", "call"), [("", "spawn_ranks 4"), ("/run/hosts", "spawn_over_ssh 2 4 /run/hosts")]
)
def test_the_launcher_local_is_a_call_of_the_library(hosts_file: str, call: str) -> None:
    assert local(Launch(layout=TWO_BY_FOUR, hosts_file=hosts_file)) == tuple(call.split())


def test_the_programs_of_a_launcher_are_those_of_what_starts_it_too() -> None:
    row = launcher_row("torchrun")
    assert (row.programs_at("slurm"), row.programs_at("local")) == (("srun", "torchrun"), ("torchrun",))


def test_ibrun_needs_no_numbers() -> None:
    assert ibrun(Launch(layout=TWO_BY_FOUR, extra=("-v",))) == ("ibrun", "-v")


def test_row_02_srun_always_says_cpus_per_task() -> None:
    assert "--cpus-per-task=8" in srun(Launch(layout=TWO_BY_FOUR))


def test_row_06_srun_ends_the_other_ranks_when_one_has_failed() -> None:
    assert {"--kill-on-bad-exit=1", "--wait=60"} <= set(srun(Launch(layout=TWO_BY_FOUR)))


@pytest.mark.parametrize(
    ("launch", "command"),
    [
        (Launch(layout=TWO_BY_FOUR), "mpirun -np 8 --map-by ppr:4:node --bind-to none"),
        (
            Launch(layout=TWO_BY_FOUR, tcp=True),
            "mpirun -np 8 --map-by ppr:4:node --bind-to none -mca pml ob1 -mca btl ^openib",
        ),
        (Launch(layout=TWO_BY_FOUR, exported=("A", "B")), "mpirun -np 8 --map-by ppr:4:node --bind-to none -x A -x B"),
        (
            Launch(layout=TWO_BY_FOUR, hosts_file="/run/hosts", extra=("--mca", "a", "b")),
            "mpirun -np 8 --map-by ppr:4:node --bind-to none --hostfile /run/hosts --mca a b",
        ),
    ],
)
def test_mpirun(launch: Launch, command: str) -> None:
    assert mpirun(launch) == tuple(command.split())


@pytest.mark.parametrize(("hosts_file", "hosts"), [("", "-H localhost:4"), ("/run/hosts", "--hostfile /run/hosts")])
def test_horovodrun(hosts_file: str, hosts: str) -> None:
    launch = Launch(layout=TWO_BY_FOUR, hosts_file=hosts_file)
    assert horovodrun(launch) == tuple(f"horovodrun --gloo -np 8 {hosts}".split())


@pytest.mark.parametrize(
    ("launcher", "signal", "pass_on"),
    [
        ("srun", "USR2", "USR2"),
        ("mpirun", "USR1", "USR1"),
        ("mpirun", "TERM", "TERM"),
        ("horovodrun", "USR2", "TERM"),
        ("torchrun", "USR1", "TERM"),
    ],
)
def test_a_launcher_gets_a_signal_that_it_passes_on(launcher: str, signal: str, pass_on: str) -> None:
    assert launcher_row(launcher).pass_on(signal) == pass_on


def test_a_launcher_that_is_no_row_is_not_found() -> None:
    with pytest.raises(NotFound, match="no launcher is called 'jsrun'; did you mean 'srun'"):
        launcher_row("jsrun")


def test_one_rank_needs_no_launcher() -> None:
    assert direct(Launch(layout=Layout(nodes=1, tasks_per_node=1, cpus_per_task=1))) == ()


def test_the_table_names_every_launcher_as_its_program_is_called() -> None:
    assert {name: row.argv(Launch(layout=TWO_BY_FOUR))[:1] for name, row in LAUNCHERS.items()} == {
        "direct": (),
        "local": ("spawn_ranks",),
        "srun": ("srun",),
        "mpirun": ("mpirun",),
        "horovodrun": ("horovodrun",),
        "ibrun": ("ibrun",),
        "torchrun": ("srun",),
    }
