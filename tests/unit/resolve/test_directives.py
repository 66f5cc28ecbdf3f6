from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Resources
from hpclaunch.config.limits import Limits
from hpclaunch.config.settings import Mail, Settings, SiteSettings
from hpclaunch.config.site import Container, GpuRequest, NodeType, Site
from hpclaunch.core.spec import JobSpec
from hpclaunch.core.spec_parts import Predecessor
from hpclaunch.resolve.script.directives import OWNED
from tests.builders import CONTEXT, a_context, a_job, a_site, bundled_site, planned, refused


def test_the_directives_are_what_user_job_and_site_asked_for_each_once() -> None:
    assert planned(nodes=2, account="m1").directives == (
        ("job-name", "train"),
        ("account", "m1"),
        ("partition", "batch"),
        ("nodes", "2"),
        ("ntasks-per-node", "4"),
        ("cpus-per-task", "8"),
        ("gpus-per-node", "4"),
        ("time", "01:00:00"),
        ("chdir", CONTEXT.run_dir),
        ("output", f"{CONTEXT.run_dir}/logs/slurm-%j.out"),
        ("open-mode", "append"),
        ("no-requeue", ""),
        ("export", "NONE"),
    )


def test_row_03_gpus_are_asked_for_per_node_and_not_per_task() -> None:
    names = dict(planned().directives)
    assert "gpus-per-node" in names
    assert "gpus-per-task" not in names


@pytest.mark.parametrize("unasked", ["mem", "wckey", "signal", "constraint", "qos", "account", "array", "requeue"])
def test_row_16_nothing_is_written_that_nobody_asked_for(unasked: str) -> None:
    assert unasked not in dict(planned().directives)


def test_row_16_a_site_can_remove_any_line() -> None:
    names = dict(planned(a_site(remove=("--open-mode", "--export"))).directives)
    assert {"open-mode", "export"}.isdisjoint(names)


def test_row_16_any_other_sbatch_option_passes_through() -> None:
    site = a_site(sbatch=("--comment=site", "--exclusive"))
    spec = planned(site, a_job(sbatch=("--comment=job",)), sbatch=("--mail-user=a@b", "--hold"))
    assert spec.directives[-4:] == (("comment", "job"), ("exclusive", ""), ("mail-user", "a@b"), ("hold", ""))


def of_software(name: str, site: Site, **more: Any) -> str | None:
    """The directive of that name; None if there is none."""
    return dict(planned(site, **more).directives).get(name)


def test_software_of_the_scheduler_is_a_directive_of_its_framework_alone() -> None:
    site = a_site(frameworks={"pytorch": Environment(sbatch=("--uenv=torch:v2", "--view=default"))})
    assert of_software("uenv", site, framework="pytorch") == "torch:v2"
    assert of_software("view", site, framework="pytorch") == "default"
    assert of_software("uenv", site, framework="jax") is None
    assert of_software("uenv", site, framework="pytorch", sbatch=("--uenv=mine",)) == "mine"


def test_a_job_replaces_the_software_of_the_scheduler_as_it_replaces_modules() -> None:
    site = a_site(environment=Environment(sbatch=("--uenv=old", "--view=default")))
    assert of_software("uenv", site, job=a_job(environment=Environment(sbatch=("--uenv=new",)))) == "new"
    assert of_software("view", site, job=a_job(environment=Environment(sbatch=("--uenv=new",)))) is None
    in_image = replace(site, container=Container(runtime="apptainer"))
    assert of_software("uenv", in_image, job=a_job(environment=Environment(container="/image.sif"))) is None


@pytest.mark.parametrize("option", ["mem-per-cpu", "mem-per-gpu"])
def test_memory_is_asked_for_in_one_way(option: str) -> None:
    """sbatch refuses both of them together."""
    job = a_job(resources=Resources(memory=1024))
    assert dict(planned(job=job).directives)["mem"] == "1G"
    names = dict(planned(job=job, sbatch=(f"--{option}=3G",)).directives)
    assert (names[option], "mem" in names) == ("3G", False)
    (fault,) = refused(job=job, memory=2048, sbatch=(f"--{option}=3G",))
    assert fault.what == f"--memory and --{option} ask for memory in two ways, which exclude each other"


def test_two_typed_options_for_memory_exclude_each_other() -> None:
    # dask-jobqueue#698 and snakemake-executor-plugin-slurm#75: sbatch itself refuses them, with "fatal"
    (fault,) = refused(sbatch=("--mem-per-cpu=3G", "--mem-per-gpu=20G"))
    assert fault.what == "--mem-per-cpu and --mem-per-gpu ask for memory in two ways, which exclude each other"


@pytest.mark.parametrize(
    ("option", "own"),
    [
        ("--cpus-per-gpu=8", "--cpus-per-task"),
        ("--tres-per-task=cpu:8", "--cpus-per-task"),
        ("--ntasks-per-gpu=1", "--tasks-per-node"),
    ],
)
def test_an_option_that_sbatch_refuses_beside_one_of_hpclaunchs_is_refused_before(option: str, own: str) -> None:
    (fault,) = refused(sbatch=(option,))
    assert "which hpclaunch writes, exclude each other" in fault.what
    assert (fault.where, fault.next) == ("--sbatch", f"use {own} instead")


def test_row_11_no_requeue_unless_somebody_asks_for_it() -> None:
    assert dict(planned().directives)["no-requeue"] == ""
    asked = dict(planned(sbatch=("--requeue",)).directives)
    assert "requeue" in asked and "no-requeue" not in asked


SHARED = replace(a_site().node_types["gpu"], gpus_per_node=1, gpu_shards=4, default_cpus_per_task=2)


@pytest.mark.parametrize(("gpu_type", "asked"), [(None, "shard:1"), ("a100", "shard:a100:1")])
def test_a_part_of_a_gpu_is_asked_for_as_a_shard(gpu_type: str | None, asked: str) -> None:
    site = a_site(node_types={"gpu": replace(SHARED, gpu_type=gpu_type)})
    spec = planned(site, nodes=2)
    directives = dict(spec.directives)
    assert (directives["gres"], directives["ntasks-per-node"], directives["cpus-per-task"]) == (asked, "1", "2")
    assert not [name for name in directives if name.startswith("gpu")]
    assert dict(planned(site, sbatch=("--gres=shard:2",)).directives)["gres"] == "shard:2"
    assert "gres" not in dict(planned(site, gpus_per_node=0, tasks_per_node=4).directives)


@pytest.mark.parametrize("typed", [{"tasks_per_node": 2}, {"gpus_per_node": 2}])
def test_parts_of_one_gpu_are_not_planned_as_several(typed: dict[str, int]) -> None:
    (fault,) = refused(a_site(node_types={"gpu": SHARED}), **typed)
    assert fault.allowed.startswith("one task per node: a job gets a part of one GPU")
    assert fault.next == "--tasks-per-node 1; or another --node-type, for whole GPUs"


def test_row_11_logs_are_appended_to() -> None:
    assert dict(planned().directives)["open-mode"] == "append"


def test_row_24_the_submitting_shell_does_not_travel_along() -> None:
    assert dict(planned().directives)["export"] == "NONE"


def test_row_27_a_percent_in_the_run_directory_is_no_pattern() -> None:
    spec = planned(context=a_context(run_dir="/home/ada/100%j/run"))
    assert dict(spec.directives)["output"] == "/home/ada/100%%j/run/logs/slurm-%j.out"


def test_memory_and_constraint_of_the_files_are_written() -> None:
    node = NodeType(title="x", cores_per_node=8, constraint="gpu&hbm80g")
    spec = planned(a_site(node_types={"gpu": node}), a_job(resources=Resources(memory=16384)))
    assert ("constraint", "gpu&hbm80g") in spec.directives
    assert ("mem", "16G") in spec.directives


def test_a_site_without_a_scheduler_has_no_directives() -> None:
    site = replace(a_site(), scheduler="local")
    assert planned(site, launcher="mpirun").directives == ()


@pytest.mark.parametrize("option", sorted(OWNED))
@pytest.mark.parametrize("form", ["--{}", "--{}=x"])
def test_an_option_that_hpclaunch_writes_itself_is_refused_naming_its_own(option: str, form: str) -> None:
    (fault,) = refused(sbatch=(form.format(option),))
    assert fault.what == f"hpclaunch itself writes --{option}"
    assert (OWNED[option] or "leave it out") in fault.next


@pytest.mark.parametrize(
    "option",
    [
        "",
        " ",
        ":",
        "-N 4",
        "-N4",
        "nodes=4",
        "--",
        "--=x",
        "--Comment=x",
        "--comment x",
        "#SBATCH --nodes=99",
        "--a=b\n#SBATCH --nodes=99",
        "--a=\x1b",
        "\n",
    ],
)
def test_what_is_not_one_long_option_is_refused(option: str) -> None:
    (fault,) = refused(sbatch=(option,))
    assert "is not a single sbatch option" in fault.what


@pytest.mark.parametrize("value", ["", "a b", "$HOME", "`x`", '"', "'", "\\", "#", "ü", "%j", "a=b", ":"])
def test_a_value_is_kept_as_it_was_typed(value: str) -> None:
    assert planned(sbatch=(f"--comment={value}",)).directives[-1] == ("comment", value)


def with_node(directive: Any = "gpus-per-node", **changes: Any) -> Site:
    """A site of shared nodes, with a changed GPU node."""
    node = replace(a_site().node_types["gpu"], **changes)
    return a_site(node_types={**a_site().node_types, "gpu": node}, gpus=GpuRequest(directive=directive))


@pytest.mark.parametrize(
    ("directive", "gpu_type", "typed", "written"),
    [
        ("gpus-per-node", None, {}, {"gpus-per-node": "4"}),
        ("gpus-per-node", "a100", {}, {"gpus-per-node": "a100:4"}),
        ("gpus-per-node", None, {"tasks_per_node": 2}, {"gpus-per-node": "2"}),
        ("gpus-per-task", None, {}, {"gpus-per-task": "1"}),
        ("gpus-per-task", None, {"tasks_per_node": 2, "gpus_per_node": 4}, {"gpus-per-task": "2"}),
        ("gpus", None, {}, {"gpus": "8"}),
        # A part of several nodes: the job's total alone may be spread unevenly.
        ("gpus", "v100", {"tasks_per_node": 1}, {"gpus": "v100:2", "gpus-per-node": "v100:1"}),
        ("gpus", "v100", {"tasks_per_node": 1, "nodes": 1}, {"gpus": "v100:1"}),
        ("gres", None, {}, {"gres": "gpu:4"}),
        ("gres", "v100-32", {}, {"gres": "gpu:v100-32:4"}),
        ("none", "a100", {}, {}),
        ("gpus-per-node", None, {"gpus_per_node": 0, "tasks_per_node": 1}, {}),
        ("gres", None, {"node_type": "cpu"}, {}),
    ],
)
def test_gpus_are_asked_for_as_the_site_wants(
    directive: str, gpu_type: str | None, typed: dict[str, Any], written: dict[str, str]
) -> None:
    names = dict(planned(with_node(directive, gpu_type=gpu_type), **{"nodes": 2, **typed}).directives)
    assert {name: value for name, value in names.items() if name.startswith(("gpus", "gres"))} == written


@pytest.mark.parametrize(
    ("admitted", "written"),
    [
        ((), {"nodes": "2"}),
        (("ntasks",), {"nodes": "2", "ntasks": "8"}),
        (("ntasks", "ntasks-per-node"), {"nodes": "2", "ntasks": "8", "ntasks-per-node": "4"}),
        (("cpus-per-task",), {"nodes": "2", "cpus-per-task": "8"}),
    ],
)
def test_tasks_are_said_in_directives_as_far_as_the_site_admits_them(
    admitted: tuple[Any, ...], written: dict[str, str]
) -> None:
    spec = planned(a_site(task_directives=admitted), nodes=2)
    names = dict(spec.directives)
    assert {
        key: names[key] for key in names if key in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
    } == written
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=8"} <= set(spec.launch)


@pytest.mark.parametrize(
    ("typed", "memory"),
    [
        ({}, "480G"),
        ({"tasks_per_node": 1}, "120G"),
        ({"tasks_per_node": 3}, "360G"),
        ({"gpus_per_node": 0, "tasks_per_node": 1}, "480G"),
        ({"memory": 2048}, "2G"),
        ({"memory": 491520}, "480G"),
    ],
)
def test_memory_goes_with_the_gpus_of_a_shared_node(typed: dict[str, Any], memory: str) -> None:
    site = with_node(request_memory=480 * 1024, memory_gb=512)
    assert dict(planned(site, **typed).directives)["mem"] == memory


def test_memory_of_a_whole_node_is_all_of_it() -> None:
    site = replace(with_node(request_memory=480 * 1024), partitions={"batch": Limits(whole_nodes=True)})
    assert dict(planned(site, tasks_per_node=1).directives)["mem"] == "480G"


@pytest.mark.parametrize(
    ("changes", "most"), [({"request_memory": 491520, "memory_gb": 512}, "480G"), ({"memory_gb": 512}, "512G")]
)
def test_more_memory_than_a_node_has_is_refused(changes: dict[str, Any], most: str) -> None:
    (fault,) = refused(with_node(**changes), memory=600 * 1024)
    assert str(fault) == (
        f"cluster gpu: 600G of memory per node requested; allowed: at most {most}\n    next: --memory {most}"
    )
    (fault,) = refused(with_node(**changes), a_job(resources=Resources(memory=600 * 1024)))
    assert fault.what == "600G of memory per node requested"


def test_memory_of_a_node_that_is_not_known_sets_no_limit() -> None:
    assert dict(planned(memory=10**7).directives)["mem"] == "10000000M"


def test_mail_is_asked_for_as_the_settings_say() -> None:
    users = Settings(mail=Mail(to="ada@example.org"))
    directives = planned(users=users).directives
    assert {("mail-user", "ada@example.org"), ("mail-type", "END,FAIL")} <= set(directives)
    here = replace(users, sites={"cluster": SiteSettings(mail=Mail(to="b@example.org", events=("ALL",)))})
    assert {("mail-user", "b@example.org"), ("mail-type", "ALL")} <= set(planned(users=here).directives)
    assert "mail-user" not in dict(planned().directives)


def test_typed_mail_takes_the_place_of_the_settings() -> None:
    users = Settings(mail=Mail(to="ada@example.org"))
    directives = planned(users=users, sbatch=("--mail-user=b@example.org",)).directives
    assert [value for name, value in directives if name == "mail-user"] == ["b@example.org"]


def test_row_16_options_of_settings_and_project_are_added_the_stronger_wins() -> None:
    user = Settings(sbatch=("--comment=user", "--reservation=course"))
    project = Settings(sbatch=("--comment=project",), weaker=user)
    names = dict(planned(a_site(sbatch=("--comment=site", "--hint=nomultithread")), users=project).directives)
    assert (names["comment"], names["reservation"], names["hint"]) == ("project", "course", "nomultithread")
    assert dict(planned(users=project, sbatch=("--comment=typed",)).directives)["comment"] == "typed"


def test_row_16_an_owned_option_in_the_settings_is_refused_naming_the_flag() -> None:
    (fault,) = refused(users=Settings(sbatch=("--time=1:00:00",)))
    assert (fault.where, fault.what) == ("settings", "hpclaunch itself writes --time")
    assert fault.next == "use --walltime instead"


@pytest.mark.parametrize("option", ["--gres=gpu:1", "--gres=gpu", "--gres=lustre:1,gpu:a100:2"])
def test_gpus_cannot_be_asked_for_behind_the_planners_back(option: str) -> None:
    (fault,) = refused(sbatch=(option,))
    assert (fault.what, fault.next) == ("hpclaunch writes the request for GPUs", "use --gpus-per-node instead")


def test_other_resources_can_be_asked_for() -> None:
    assert ("gres", "lustre:1") in planned(sbatch=("--gres=lustre:1",)).directives


def test_row_24_where_the_centre_forbids_it_export_is_not_written() -> None:
    assert "export" not in dict(planned(a_site(export="all")).directives)


def test_row_16_an_option_with_which_the_site_accepts_no_job_is_refused() -> None:
    (fault,) = refused(bundled_site("frontera"), account="m1", memory=1024)
    assert fault.what == "frontera accepts no job with --mem"
    (fault,) = refused(a_site(refuses=("--nice",)), sbatch=("--nice=5",))
    assert (fault.what, fault.next) == ("cluster accepts no job with --nice", "leave --nice out")


def test_row_24_without_the_export_line_the_script_cleans_up_itself() -> None:
    spec = planned(users=Settings(remove=("--export",)))
    assert "export" not in dict(spec.directives)
    assert "PYTHONPATH" in spec.unset
    assert not [warning for warning in spec.warnings if "remove" in warning]


WAITED = Predecessor(run="job 4711", must_complete=True, site="", state="RUNNING", jobs=("4711",), is_run=False)


def waiting_at(site: Site, waited: Predecessor = WAITED) -> JobSpec:
    return planned(site, context=a_context(predecessors=(waited,)))


def test_a_job_whose_predecessor_fails_is_cancelled_unless_the_site_wants_no_such_option() -> None:
    usual = dict(waiting_at(a_site()).directives)
    assert (usual["dependency"], usual["kill-on-invalid-dep"]) == ("afterok:4711", "yes")
    without = waiting_at(a_site(kill_on_invalid_dep=False))
    assert dict(without.directives)["dependency"] == "afterok:4711"
    assert "kill-on-invalid-dep" not in dict(without.directives)
    assert "DependencyNeverSatisfied" in "".join(without.warnings)
    ended = replace(WAITED, jobs=(), state="COMPLETED")
    done = waiting_at(a_site(kill_on_invalid_dep=False), ended)
    assert not any("DependencyNeverSatisfied" in words for words in done.warnings)


SAME_NAME = Predecessor(run="singleton", must_complete=False, site="", state="", is_run=False, is_same_name=True)


def test_earlier_jobs_of_the_same_name_are_waited_for_and_cannot_fail() -> None:
    spec = waiting_at(a_site(kill_on_invalid_dep=False), SAME_NAME)
    assert dict(spec.directives)["dependency"] == "singleton"
    told = [warning for warning in spec.warnings if "waits until" in warning or "DependencyNeverSatisfied" in warning]
    assert told == [f"this run waits until no earlier job of yours named {spec.name} waits or runs"]
    both = planned(context=a_context(predecessors=(WAITED, SAME_NAME)))
    assert dict(both.directives)["dependency"] == "afterok:4711,singleton"
    assert dict(both.directives)["kill-on-invalid-dep"] == "yes"


def test_a_sweep_says_that_its_own_runs_do_not_wait_for_each_other() -> None:
    spec = planned(context=a_context(predecessors=(SAME_NAME,)), sweep=(("learning_rate", "0.1,0.2"),))
    assert any("; its own runs do not wait for each other" in warning for warning in spec.warnings)


@pytest.mark.parametrize(("site", "wanted"), [("perlmutter", False), ("lumi", True), ("juwels_booster", True)])
def test_nersc_alone_wants_no_kill_on_invalid_dep(site: str, wanted: bool) -> None:
    assert bundled_site(site).kill_on_invalid_dep is wanted
