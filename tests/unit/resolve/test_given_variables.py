"""Variables that a person gives: each is kept for the ranks, or refused with the reason."""

from __future__ import annotations

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.settings import Settings
from hpclaunch.core.errors import Fault
from hpclaunch.core.spec import JobSpec
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.resolve.environment.given_variables import REFUSED, exported_by
from tests.builders import a_job, a_site, everywhere, planned, refused

KEPT = (
    *("MASTER_ADDR", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "RCCL_MSCCL_ENABLE", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"),
    *("HOROVOD_FUSION_THRESHOLD", "HOROVOD_TIMELINE", "OMPI_MCA_btl_tcp_if_include", "XLA_FLAGS", "PET_MAX_RESTARTS"),
    *("JAX_COORDINATOR_ADDRESS", "CUDA_DEVICE_ORDER", "PMIX_MCA_psec", "TP_SOCKET_IFNAME", "PYTHONPATH", "SLURMISH"),
)
PLACES = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
OF_LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "SLURM_PROCID")


def typed(name: str, value: str = "7", launcher: str = "srun") -> JobSpec:
    return planned(everywhere(), nodes=2, launcher=launcher, variables=((name, value),), framework="none")


def fault_of(name: str, value: str = "7", launcher: str = "srun") -> Fault:
    (fault,) = refused(everywhere(), nodes=2, launcher=launcher, variables=((name, value),), framework="none")
    assert (fault.where, bool(fault.next or fault.allowed)) == (f"--env {name}", True)
    return fault


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "torchrun"])
@pytest.mark.parametrize("name", KEPT)
def test_what_the_table_does_not_refuse_is_exported_by_the_script(name: str, launcher: str) -> None:
    assert dict(typed(name, launcher=launcher).environment)[name] == "7"


@pytest.mark.parametrize("name", [*PLACES, *OF_LAUNCHERS])
def test_no_run_takes_a_value_that_every_rank_has_of_its_own(name: str) -> None:
    assert "rank" in fault_of(name).what


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_GPUS", "SLURMD_NODENAME"])
def test_what_slurm_sets_itself_is_refused(name: str) -> None:
    assert fault_of(name).what == "variables of such names are Slurm's own, which it sets for jobs and tasks"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("SLURM_KILL_BAD_EXIT", "--kill-on-bad-exit"),
        ("SLURM_WAIT", "--wait"),
        ("SRUN_CPUS_PER_TASK", "--cpus-per-task"),
    ],
)
def test_a_variable_of_an_option_that_hpclaunch_writes_is_refused(name: str, option: str) -> None:
    assert fault_of(name).what == f"hpclaunch writes srun's option {option}, which counts more than this variable"


@pytest.mark.parametrize(
    "name", ["SLURM_CPU_BIND", "SLURM_DEBUG", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_UNBUFFEREDIO"]
)
def test_a_variable_of_an_option_that_hpclaunch_does_not_write_is_kept(name: str) -> None:
    spec = planned(variables=((name, "7"),), launcher="srun")
    assert dict(spec.environment)[name] == "7"


@pytest.mark.parametrize(
    ("launcher", "name", "option"),
    [
        ("mpirun", "OMPI_MCA_rmaps_base_mapping_policy", "--map-by"),
        ("mpirun", "PRTE_MCA_hwloc_default_binding_policy", "--bind-to"),
        ("torchrun", "PET_NNODES", "--nnodes"),
        ("torchrun", "PET_RDZV_BACKEND", "--rdzv_backend"),
    ],
)
def test_each_launcher_has_variables_that_its_own_options_override(launcher: str, name: str, option: str) -> None:
    assert f"{launcher}'s option {option}," in fault_of(name, launcher=launcher).what
    assert dict(typed(name).environment)[name] == "7"  # srun knows none of them


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_horovods_choice_of_a_controller_is_horovodruns_alone(launcher: str) -> None:
    assert dict(typed("HOROVOD_CONTROLLER", "mpi", launcher).environment)["HOROVOD_CONTROLLER"] == "mpi"
    given = (("HOROVOD_CONTROLLER", "mpi"),)
    (fault,) = refused(everywhere(), nodes=1, launcher="horovodrun", variables=given, framework="tensorflow")
    assert fault.what == "horovodrun sets it for every rank"


@pytest.mark.parametrize("value", ["", "no", "0", "65536", "-1", "٣"])
def test_a_port_is_a_number(value: str) -> None:
    fault = fault_of("MASTER_PORT", value)
    assert (fault.what, fault.allowed) == (f"{value!r} is no port", "a number from 1 to 65535")
    assert dict(typed("MASTER_PORT", "65535").environment)["MASTER_PORT"] == "65535"


def test_an_empty_address_is_refused_as_the_script_would_replace_it() -> None:
    fault = fault_of("MASTER_ADDR", "")
    assert (fault.what, fault.allowed) == ("it is empty", "the address of a host")


def test_tf_config_is_that_of_one_rank() -> None:
    assert "place of one rank" in fault_of("TF_CONFIG", "{}").what
    alone = planned(nodes=1, tasks_per_node=1, variables=(("TF_CONFIG", "{}"),))
    assert dict(alone.environment)["TF_CONFIG"] == "{}"
    (fault,) = refused(job=a_job(uses_library=True), nodes=1, tasks_per_node=1, variables=(("TF_CONFIG", "{}"),))
    assert fault.what == "hpclaunch.training makes it itself"


def test_the_gpus_that_a_person_names_are_set_again_by_every_rank() -> None:
    spec = typed("CUDA_VISIBLE_DEVICES", "2,0")
    assert spec.rank_setup[0] == "export CUDA_VISIBLE_DEVICES=2,0"  # srun sets it again for every task
    of_site = planned(a_site(environment=Environment(variables={"CUDA_VISIBLE_DEVICES": "1"})))
    assert "export CUDA_VISIBLE_DEVICES=1" not in of_site.rank_setup


@pytest.mark.parametrize("level", ["settings", "job"])
def test_files_are_held_to_the_same_table(level: str) -> None:
    environment = Environment(
        variables={"RANK": "0", "NCCL_DEBUG": "INFO"}, setup=("export WORLD_SIZE=$SLURM_NTASKS\nexport SLURM_NTASKS=3",)
    )
    job = a_job(environment=environment if level == "job" else Environment())
    settings = Settings(environment=environment if level == "settings" else Environment())
    faults = refused(job=job, users=settings)
    assert [fault.where for fault in faults] == [
        "environment.variables.RANK",
        "environment.setup: export SLURM_NTASKS",
    ]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("export A=1", ("A",)),
        ("export A=1 B='x C=2' D=\"$(echo E=3)\"", ("A", "B", "D")),
        ("source env.sh && export A=$(date +%s)", ("A",)),
        ("declare -x A=1; typeset -x B=2", ("A", "B")),
        ("if true; then export A=1; fi", ("A",)),
        ("export A=1\nB=2\nexport C=3", ("A", "C")),
        ("A=1", ()),
        ("echo export A=1", ()),
        ("export A", ()),
    ],
)
def test_a_line_of_set_up_shows_what_it_exports(line: str, names: tuple[str, ...]) -> None:
    assert exported_by([line]) == names


def test_what_a_persons_line_exports_counts_more_than_the_defaults_and_the_sites_values() -> None:
    site = a_site(environment=Environment(variables={"NCCL_SOCKET_IFNAME": "ib0"}, setup=("site-line",)))
    job = a_job(environment=Environment(setup=("source my.sh",), variables={"NCCL_DEBUG": "INFO"}))
    spec = planned(site, job)
    assert [step.line for step in spec.steps] == [
        "site-line",
        "unset PYTHONUNBUFFERED OMP_NUM_THREADS NCCL_SOCKET_IFNAME",
        "source my.sh",
    ]
    assert set(spec.defaults) == {"PYTHONUNBUFFERED", "OMP_NUM_THREADS", "NCCL_SOCKET_IFNAME"}
    assert planned(site).defaults == ()


def test_every_rank_variable_of_a_launcher_is_refused_and_every_row_says_what_to_do() -> None:
    names = {name for row in LAUNCHERS.values() for name in row.identity_variables}
    assert all(fault_of(name) for name in names)
    assert all(one.next and one.why for one in REFUSED)
    assert all(row.reads_next for row in LAUNCHERS.values() if row.reads)
