"""What a rank sees of its node's GPUs: at sites that bind a task to one, by framework, and as it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from hpclaunch.config.site import GpuRequest, LauncherOptions, Launchers
from hpclaunch.core.errors import Refused
from hpclaunch.core.spec import JobSpec
from tests.builders import a_job, a_site, bundled_site, origin_of, planned, refused

ALL = {
    "archer2": (),
    "daint_alps": (),
    "frontier": ("export ROCR_VISIBLE_DEVICES=4,5,2,3,6,7,0,1",),
    "jupiter": ("export CUDA_VISIBLE_DEVICES=0,1,2,3",),
    "juwels_booster": ("export CUDA_VISIBLE_DEVICES=0,1,2,3",),
    "lumi": (),
}
"""The sites that show a task one GPU, and what a rank there sets to see all."""
ONE = {
    "archer2": ("export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID",),
    "daint_alps": (),
    "frontier": (),
    "jupiter": (),
    "juwels_booster": (),
    "lumi": ("export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID",),
}
"""What a rank there sets to see one: its centre's own lines."""


def of(site: str, **typed: Any) -> JobSpec:
    typed = {"account": "m1", "qos": "gpu-exc" if site == "archer2" else None, "accept_unverified": True, **typed}
    return planned(bundled_site(site), a_job(source_only=True), **{"framework": "pytorch", **typed})


def bind(spec: JobSpec) -> str | None:
    found = [word for word in spec.launch if word.startswith("--gpu-bind=")]
    return found[0].removeprefix("--gpu-bind=") if found else None


@pytest.mark.parametrize("framework", ["pytorch", "jax", "tensorflow", "none"])
@pytest.mark.parametrize("site", ALL)
def test_a_rank_sees_all_gpus_of_its_node_also_where_a_task_is_shown_one(site: str, framework: str) -> None:
    spec = of(site, framework=framework, nodes=2)
    assert spec.rank_setup[:-1] == ALL[site]
    assert spec.rank_setup[-1].startswith("check_gpus ")
    assert bind(spec) == ("none" if site in ("daint_alps", "frontier") else None)


@pytest.mark.parametrize("site", ONE)
@pytest.mark.parametrize("typed", [{"framework": "mpi"}, {"gpu_view": "one"}])
def test_programs_of_mpi_and_who_asks_for_one_have_what_the_centre_teaches(site: str, typed: dict[str, Any]) -> None:
    spec = of(site, **typed)
    vendor = "AMD" if site in ("archer2", "frontier", "lumi") else "NVIDIA"
    last = (f"show_one_gpu {vendor} || return 78", f"check_gpus {vendor} 1 || return 78")
    assert spec.rank_setup == (*ONE[site], *last)
    assert bind(spec) == ("closest" if site == "frontier" else None)
    assert origin_of(spec, "gpu view")[1] == ("--gpu-view" if "gpu_view" in typed else f"site {site}, for MPI")


def test_of_a_site_that_binds_nothing_each_rank_takes_the_gpu_of_its_number_in_the_sites_order() -> None:
    spec = of("perlmutter", gpu_view="one")
    assert spec.rank_setup == (
        "export CUDA_VISIBLE_DEVICES=3,2,1,0",
        "show_one_gpu NVIDIA || return 78",
        "check_gpus NVIDIA 1 || return 78",
    )
    assert of("perlmutter", framework="mpi").rank_setup == (spec.rank_setup[0], spec.rank_setup[2])


@pytest.mark.parametrize("site", ["jupiter", "juwels_booster"])
def test_in_part_of_a_node_whose_tasks_are_shown_one_gpu_the_view_is_one(site: str) -> None:
    spec = of(site, gpus_per_node=2, tasks_per_node=2)
    assert spec.rank_setup[0] == "show_one_gpu NVIDIA || return 78"
    assert origin_of(spec, "gpu view")[1] == f"site {site}"


def test_under_other_launchers_than_srun_no_site_binds_a_rank() -> None:
    spec = of("lumi", launcher="torchrun")
    assert spec.rank_setup == ("check_gpus AMD 1 || return 78",)
    assert bind(of("frontier", launcher="torchrun")) == "none"


def test_a_job_file_can_ask_for_one_gpu_and_the_typed_view_wins() -> None:
    job = a_job(gpu_view="one")
    assert "show_one_gpu any || return 78" in planned(job=job).rank_setup
    assert origin_of(planned(job=job), "gpu view")[1] == "job"
    assert planned(job=job, gpu_view="all").rank_setup == ("check_gpus any 1 || return 78",)


def test_an_unknown_view_is_refused_with_those_that_there_are() -> None:
    (fault,) = refused(gpu_view="two")
    assert (fault.what, fault.where, fault.allowed) == ("no view of the GPUs is called 'two'", "--gpu-view", "all, one")


def test_a_strategy_of_several_gpus_in_a_task_needs_to_see_them() -> None:
    job = a_job(strategies=("mirrored",))
    (fault,) = refused(job=job, strategy="mirrored", tasks_per_node=1, gpus_per_node=4, gpu_view="one")
    assert "uses several GPUs in a task" in fault.what


@pytest.mark.parametrize(
    ("framework", "imports", "warned"),
    [
        ("jax", ("jax",), "needs local_device_ids=[0]"),
        ("tensorflow", ("horovod", "tensorflow"), "hvd.local_rank()"),
        ("pytorch", ("torch",), None),
    ],
)
def test_who_counts_ranks_itself_is_warned_of_a_single_gpu(
    framework: str, imports: tuple[str, ...], warned: str | None
) -> None:
    job = a_job(source_only=True, imports=imports)
    said = planned(job=job, framework=framework, gpu_view="one").warnings
    assert any(warned in line for line in said) if warned else not any("--gpu-view" in line for line in said)
    alone = planned(job=job, framework=framework, gpu_view="one", tasks_per_node=1, gpus_per_node=1).warnings
    assert not any("--gpu-view" in line for line in alone)


def test_typed_variables_of_the_gpus_ask_for_sharing_so_the_check_only_warns() -> None:
    spec = planned(variables=(("CUDA_VISIBLE_DEVICES", "0"),))
    assert spec.rank_setup == ("export CUDA_VISIBLE_DEVICES=0", "check_gpus any 1 shared || return 78")


@pytest.mark.parametrize(("gpus", "each"), [(4, 1), (8, 2)])
def test_of_a_strategy_that_takes_several_gpus_each_is_checked(gpus: int, each: int) -> None:
    site = of("frontier", strategy=None, nodes=1)
    assert site.rank_setup[-1] == "check_gpus AMD 1 || return 78"
    node = bundled_site("lumi")
    job = a_job(strategies=("multiworker",), source_only=False)
    spec = planned(node, job, account="m1", strategy="multiworker", tasks_per_node=4, gpus_per_node=gpus, nodes=1)
    assert spec.rank_setup[-1] == f"check_gpus AMD {each} || return 78"


def test_a_written_gpu_bind_is_kept_where_a_task_has_one_gpu_in_all() -> None:
    options = Launchers(default="srun", options={"srun": LauncherOptions(gpu_bind="closest")})
    site = a_site(gpus=GpuRequest(directive="gpus-per-task"), launchers=options)
    assert bind(planned(site, tasks_per_node=1, gpus_per_node=1)) == "closest"
    assert bind(planned(site)) == "none"


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
@pytest.mark.parametrize(
    "gpus", [GpuRequest(directive="gpus-per-task"), GpuRequest(directive="gpus-per-node", srun="gpus-per-task")]
)
def test_in_part_of_a_node_a_binding_by_the_task_is_taken_back_and_not_switched_off(
    gpus: GpuRequest, launcher: str
) -> None:
    options = Launchers(default="srun", options={"srun": LauncherOptions()})
    site = a_site(gpus=gpus, launchers=options)
    part = planned(site, tasks_per_node=2, gpus_per_node=2, launcher=launcher)
    assert bind(part) is None, "--gpu-bind=none would show it the GPUs of other jobs"
    assert part.before_launch[-1].startswith("unset SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK ")
    assert not any(word.startswith("--gpus-per-task") for word in part.launch)
    whole = planned(site, launcher=launcher)
    assert bind(whole) == "none"
    assert not any(line.startswith("unset") for line in whole.before_launch)
    for shown in ({"gpu_view": "one"}, {"gpus_per_node": 1, "tasks_per_node": 1}):
        one = planned(site, **{"tasks_per_node": 2, "gpus_per_node": 2, **shown})
        assert not any(line.startswith("unset") for line in one.before_launch)


def test_in_part_of_a_node_the_sites_own_binding_is_left_out() -> None:
    options = Launchers(default="srun", options={"srun": LauncherOptions(gpu_bind="closest")})
    part = planned(a_site(launchers=options), tasks_per_node=2, gpus_per_node=2)
    assert bind(part) is None
    assert not any(line.startswith("unset") for line in part.before_launch)


def test_a_run_without_gpus_has_no_view() -> None:
    spec = planned(node_type="cpu", gpu_view="one")
    assert spec.rank_setup == ()
    with pytest.raises(Refused):
        planned(node_type="cpu", gpu_view="two")
