"""Which launcher starts the ranks, whether it can here, and what every rank runs first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Resources
from hpclaunch.config.limits import Limits
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Container, GpuRequest, LauncherOptions, Launchers, Site, WholeNode
from hpclaunch.render import render
from tests.builders import (
    CONTEXT,
    ROOTS,
    a_context,
    a_job,
    a_site,
    bundled_site,
    origin_of,
    planned,
    refused,
)

ORDER = "export CUDA_VISIBLE_DEVICES=3,2,1,0"
MASK = "mask_cpu:ff,ff00,ff0000,ff000000"


def ordered(whole_nodes: bool = True, **changes: Any) -> Site:
    """A site with an order of GPUs and a mask of CPUs for full nodes."""
    fixed = WholeNode(variables={"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, cpu_bind=MASK)
    gpu = replace(a_site().node_types["gpu"], whole_node=fixed, whole_nodes=whole_nodes)
    launchers = Launchers(
        default="srun", options={"srun": LauncherOptions(cpu_bind="cores"), "mpirun": LauncherOptions()}
    )
    return a_site(**{"node_types": {**a_site().node_types, "gpu": gpu}, "launchers": launchers, **changes})


def launching(name: str, **options: Any) -> Site:
    """A site with that launcher only."""
    return a_site(launchers=Launchers(default=name, options={name: LauncherOptions(**options)}))


def cpu_bind(site: Site, **typed: Any) -> str:
    (found,) = [word for word in planned(site, **typed).launch if word.startswith("--cpu-bind=")]
    return found.removeprefix("--cpu-bind=")


def set_up(*arguments: Any, **typed: Any) -> tuple[str, ...]:
    """What every rank runs first, without the check of its GPUs."""
    return tuple(line for line in planned(*arguments, **typed).rank_setup if not line.startswith("check_gpus "))


def test_row_29_the_order_of_the_gpus_holds_on_full_nodes() -> None:
    assert set_up(ordered()) == (ORDER,)
    assert set_up(ordered(), nodes=4) == (ORDER,)
    assert set_up(ordered(whole_nodes=False)) == (ORDER,)


@pytest.mark.parametrize(
    "typed",
    [
        {"tasks_per_node": 2, "gpus_per_node": 2},
        {"tasks_per_node": 1, "gpus_per_node": 3},
        {"gpus_per_node": 0},
        {"node_type": "cpu"},
    ],
)
@pytest.mark.parametrize("whole_nodes", [True, False])
def test_row_29_with_part_of_the_node_no_order_and_no_mask_is_written(typed: dict[str, Any], whole_nodes: bool) -> None:
    assert set_up(ordered(whole_nodes), **typed) == ()
    assert cpu_bind(ordered(whole_nodes), **typed) == "cores"


def test_row_29_a_mask_of_cpus_needs_a_whole_node_as_well() -> None:
    assert cpu_bind(ordered(whole_nodes=True)) == MASK
    assert cpu_bind(ordered(whole_nodes=False)) == "cores"
    assert cpu_bind(ordered(False, partitions={"batch": Limits(whole_nodes=True)})) == MASK


@pytest.mark.parametrize("value", ["0", "0,1,2,3", "NoDevFiles"])
def test_row_29_a_jobs_own_order_of_the_gpus_wins(value: str) -> None:
    job = a_job(environment=Environment(variables={"CUDA_VISIBLE_DEVICES": value}))
    spec = planned(ordered(), job)
    # srun sets it again for every task
    assert set_up(ordered(), job) == (f"export CUDA_VISIBLE_DEVICES={value}",)
    assert dict(spec.environment)["CUDA_VISIBLE_DEVICES"] == value


def test_row_29_the_users_own_order_of_the_gpus_wins_too() -> None:
    users = Settings(environment=Environment(variables={"CUDA_VISIBLE_DEVICES": "2"}))
    assert set_up(ordered(), users=users) == ("export CUDA_VISIBLE_DEVICES=2",)


def test_row_29_every_rank_sets_the_order_itself_before_its_command() -> None:
    lines = render(planned(ordered()), ROOTS).splitlines()
    start = lines.index("rank() { # what every rank runs")
    rank = lines[start : lines.index("}", start)]
    assert rank.index(f"  {ORDER}") < next(n for n, line in enumerate(rank) if "train.py" in line)
    assert [line for line in lines if "CUDA_VISIBLE_DEVICES" in line] == [f"  {ORDER}"]


def test_row_29_lumis_mask_is_for_full_exclusive_nodes() -> None:
    site = bundled_site("lumi")
    assert cpu_bind(site, account="m1").startswith("mask_cpu:fe000000000000,")
    for typed in ({"partition": "small-g"}, {"tasks_per_node": 4}):
        words = planned(site, account="m1", **typed).launch
        assert not [word for word in words if "mask_cpu" in word]


def test_row_29_perlmutters_order_of_gpus_is_for_full_nodes() -> None:
    site = bundled_site("perlmutter")
    assert set_up(site, account="m1") == (ORDER,)
    assert set_up(site, account="m1", qos="shared", tasks_per_node=2, gpus_per_node=2) == ()


@pytest.mark.parametrize(("tasks", "order"), [(4, "3,2,1,0"), (3, "3,2,1,0"), (2, "3,1,2,0"), (1, "3,2,1,0")])
def test_of_fewer_ranks_each_begins_beside_the_gpu_of_its_number(tasks: int, order: str) -> None:
    # Rank i of 2 has half of the cores; the list has the GPUs in the order of the cores.
    site = ordered(gpus=GpuRequest(directive="gpus-per-node"))
    expected = f"export CUDA_VISIBLE_DEVICES={order}"
    assert set_up(site, tasks_per_node=tasks, gpus_per_node=4) == (expected,)


def test_lines_that_every_rank_runs_first_are_for_srun_and_for_gpus() -> None:
    line = "export OWN=$SLURM_LOCALID"
    nodes = {kind: replace(node, rank_setup=(line,)) for kind, node in a_site().node_types.items()}
    site = a_site(node_types=nodes)
    assert set_up(site) == (line,)
    assert set_up(site, tasks_per_node=2) == (line,)
    assert set_up(site, launcher="mpirun") == ()
    assert set_up(site, launcher="torchrun") == ()
    assert set_up(site, node_type="cpu") == ()


def test_row_05_horovodrun_over_several_nodes_is_refused_without_ssh() -> None:
    (fault,) = refused(launcher="horovodrun", nodes=2)
    assert "needs ssh between nodes" in fault.what
    assert fault.next == "--launcher srun"
    (fault,) = refused(launching("horovodrun"), nodes=2)
    assert fault.next == "--nodes 1"


def test_row_05_horovodrun_on_one_node_needs_no_ssh_and_no_list_of_hosts() -> None:
    spec = planned(launcher="horovodrun")
    assert spec.launch == ("horovodrun", "--gloo", "-np", "4", "-H", "localhost:4")
    assert "list_hosts" not in render(spec, ROOTS)


def test_row_05_where_ssh_is_allowed_the_script_lists_the_hosts_with_their_slots() -> None:
    spec = planned(launching("horovodrun", ssh=True), nodes=2)
    hosts = f"{CONTEXT.run_dir}/hosts"
    assert spec.launch == ("horovodrun", "--gloo", "-np", "8", "--hostfile", hosts)
    lines = render(spec, ROOTS).splitlines()
    assert lines.index("list_hosts 4") < next(
        n for n, line in enumerate(lines) if line.startswith("launch horovodrun ")
    )


def test_the_default_launcher_is_the_sites() -> None:
    assert origin_of(planned(launching("ibrun")), "launcher") == ("ibrun", "site cluster")
    assert origin_of(planned(users=Settings(launcher="mpirun")), "launcher") == ("mpirun", "settings")


def test_a_launcher_that_the_site_warns_of_is_warned_of() -> None:
    site = launching("mpirun", warn="users report hangs")
    assert "mpirun at cluster: users report hangs" in planned(site).warnings


def test_torchrun_needs_no_word_of_the_site_but_srun() -> None:
    assert planned(launcher="torchrun").launcher == "torchrun"
    here = planned(bundled_site("local"), a_job(framework="pytorch"), launcher="torchrun", tasks_per_node=2)
    assert (here.launch[:3], here.before_launch) == (("spawn_ranks", "1", "torchrun"), ("set_rendezvous localhost",))
    (fault,) = refused(launching("mpirun"), launcher="torchrun")
    assert "cluster has no launcher 'torchrun'; allowed: mpirun" in str(fault)


def test_a_launcher_that_the_sites_software_lacks_is_refused_unless_the_software_is_ones_own() -> None:
    options = {"srun": LauncherOptions(), "torchrun": LauncherOptions(missing_in=("pytorch",))}
    modules = {"pytorch": Environment(modules=("pytorch/2",))}
    site = a_site(launchers=Launchers(default="srun", options=options), frameworks=modules)
    (fault,) = refused(site, a_job(framework="pytorch"), launcher="torchrun")
    assert "the software of cluster for pytorch has no torchrun" in str(fault)
    assert "--launcher srun" in str(fault)
    assert planned(site, a_job(framework="pytorch"), launcher="torchrun", venv="/torch").launcher == "torchrun"


def test_torchrun_is_one_task_a_node_with_all_of_its_cpus_and_gpus() -> None:
    site = replace(
        ordered(),
        gpus=GpuRequest(directive="gpus-per-task", srun="gpus-per-task"),
        launchers=Launchers(default="srun", options={"srun": LauncherOptions(mpi="pmix", cpu_bind="cores")}),
    )
    assert planned(site, nodes=2, launcher="torchrun").launch == (
        "srun",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=32",
        "--gpus-per-task=4",
        "--cpu-bind=none",
        "--gpu-bind=none",
        "--mpi=pmix",
        "--kill-on-bad-exit=1",
        "--wait=60",
        "torchrun",
        "--nnodes=2",
        "--nproc_per_node=4",
        "--rdzv_backend=c10d",
        "--no_python",
    )


def test_ibrun_takes_its_tasks_from_the_directives() -> None:
    spec = planned(launching("ibrun"), nodes=2, tasks_per_node=3)
    assert spec.launch == ("ibrun",)
    assert {("nodes", "2"), ("ntasks-per-node", "3")} <= set(spec.directives)


def test_ibrun_warns_that_cpus_per_task_binds_nothing() -> None:
    assert any("ibrun binds ranks to CPUs itself" in w for w in planned(launching("ibrun"), cpus_per_task=2).warnings)
    assert not any("ibrun" in w for w in planned(launching("ibrun")).warnings)


@pytest.mark.parametrize(("option", "refusal"), [("--signal=B:TERM@60", False), ("--signal=TERM@60", True)])
def test_row_26_a_signal_that_would_miss_ranks_is_refused_under_mpirun(option: str, refusal: bool) -> None:
    if refusal:
        (fault,) = refused(launcher="mpirun", sbatch=(option,))
        assert fault.next.startswith("use --signal=B:")
    else:
        assert planned(launcher="mpirun", sbatch=(option,)).launcher == "mpirun"


@pytest.mark.parametrize(
    ("gpus", "asked", "typed"),
    [
        (None, [], {}),
        ("gpus-per-node", ["--gpus-per-node=4"], {}),
        ("gpus-per-task", ["--gpus-per-task=1"], {}),
        ("gpus-per-task", ["--gpus-per-task=2"], {"tasks_per_node": 2, "gpus_per_node": 4}),
        ("gpus-per-task", [], {"node_type": "cpu"}),
        ("gres", ["--gres=gpu:4"], {}),
        ("gres", ["--gres=gpu:2"], {"tasks_per_node": 2, "gpus_per_node": 2}),
        ("gres", [], {"node_type": "cpu"}),
    ],
)
def test_row_03_srun_asks_for_gpus_once_more_where_the_site_wants_it(
    gpus: Any, asked: list[str], typed: dict[str, Any]
) -> None:
    site = a_site(gpus=GpuRequest(directive="gpus-per-node", srun=gpus))
    assert [word for word in planned(site, **typed).launch if "gpu" in word and "bind" not in word] == asked


def test_row_23_the_containers_mpi_type_takes_the_place_of_the_sites() -> None:
    site = a_site(container=Container(runtime="apptainer", mpi="pmi2"))
    inside = planned(site, a_job(environment=Environment(container="x.sif")))
    assert "--mpi=pmi2" in inside.launch and "--mpi=pmix" not in inside.launch


def test_row_06_how_long_the_others_may_go_on_is_the_jobs() -> None:
    assert "--wait=7" in planned(job=a_job(resources=Resources(exit_wait=7))).launch


@pytest.mark.parametrize(("variables", "tcp"), [({}, True), ({"OMPI_MCA_pml": "ucx"}, False)])
def test_mpirun_keeps_to_tcp_unless_the_site_says_another_transport(variables: dict[str, str], tcp: bool) -> None:
    site = a_site(environment=Environment(variables=variables))
    assert ("^openib" in planned(site, launcher="mpirun").launch) is tcp


@pytest.mark.parametrize("folder", ["/runs/two words", "/runs/a$b", "/runs/it's", "/runs/a;b", "/runs/é"])
def test_row_17_a_run_directory_that_ibruns_shell_would_take_apart_is_refused(folder: str) -> None:
    site = bundled_site("frontera")
    (fault,) = refused(site, context=a_context(run_dir=folder), account="m")
    assert "ibrun's shell would interpret" in fault.what
    assert "--runs-dir" in fault.next
    planned(site, context=a_context(run_dir="/runs/a-b_c.d/e+f=g:h,i@j%k"), account="m")


@pytest.mark.parametrize(
    ("job", "users", "ranks", "origin"),
    [
        (None, None, 512, "default"),
        (None, 16, 16, "settings"),
        (8, 16, 8, "job"),
        (0, None, 0, "job"),
    ],
)
def test_ranks_have_logs_of_their_own_up_to_a_number(
    job: int | None, users: int | None, ranks: int, origin: str
) -> None:
    wide = a_site(node_types={"gpu": replace(a_site().node_types["gpu"], nodes=600)}, partitions={"batch": Limits()})
    for nodes in (2, 4, 128, 129):
        spec = planned(wide, a_job(rank_logs=job), Settings(rank_logs=users), nodes=nodes, tasks_per_node=4)
        assert spec.rank_number == ("${SLURM_PROCID-}" if nodes * 4 <= ranks else "")
        assert ('  rank_log "${SLURM_PROCID-}"\n' in render(spec, ROOTS)) == (nodes * 4 <= ranks)
        assert origin_of(spec, "rank logs") == (str(ranks), origin)


def test_one_rank_needs_no_log_of_its_own() -> None:
    spec = planned(nodes=1, tasks_per_node=1)
    assert spec.rank_number == "" and "rank_log" not in render(spec, ROOTS)
