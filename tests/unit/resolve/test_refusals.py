"""Every reason for which planning refuses, and that all of them are told at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.job import Resources
from hpclaunch.config.parameters import Parameter
from hpclaunch.config.site import Folders
from tests.builders import HOUR, a_context, a_desk, a_job, a_site, bundled_site, refused

JOB = a_job(parameters={"epochs": Parameter(default=1), "optimizer": Parameter(default="sgd", choices=("sgd", "adam"))})


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"nodes": 9}, "cluster gpu: 9 nodes requested; allowed: at most 8 nodes"),
        ({"node_type": "gup"}, "cluster has no node type 'gup'; did you mean 'gpu'?; allowed: gpu, cpu"),
        ({"tasks_per_node": 5}, "5 tasks would share 4 GPUs; allowed: at most 4 tasks per node, one per GPU"),
        ({"gpus_per_node": 5}, "5 GPUs per node requested; allowed: at most 4"),
        ({"gpus_per_node": 1, "tasks_per_node": 2}, "2 tasks would share 1 GPUs"),
        ({"node_type": "cpu", "gpus_per_node": 1}, "1 GPUs per node requested; allowed: at most 0"),
        ({"cpus_per_task": 9}, "4 tasks x 9 CPUs do not fit a node; allowed: at most 32 CPUs per node"),
        (
            {"partition": "debgu"},
            "file of cluster lists no partition 'debgu'; did you mean 'debug'?; allowed: batch, debug",
        ),
        ({"partition": "debug", "nodes": 3}, "cluster partition debug: 3 nodes requested; allowed: at most 2 nodes"),
        ({"partition": "debug", "nodes": 3, "walltime": 60}, "next: --partition batch would be accepted"),
        ({"walltime": 25 * HOUR}, "walltime 1-01:00:00 requested; allowed: at most 1-00:00:00"),
        ({"walltime": 25 * HOUR}, "next: --walltime 1-00:00:00 --partition batch would be accepted"),
        ({"account": "a b"}, "--account: account 'a b' contains a character that Slurm allows in no account"),
        ({"qos": "x\n#SBATCH --nodes=99"}, "contains a character that Slurm allows in no qos"),
        ({"launcher": "jsrun"}, "cluster has no launcher 'jsrun'; allowed: srun, mpirun, horovodrun"),
        ({"launcher": "direct"}, "launcher 'direct' starts only one rank, but 4 are requested"),
        ({"launcher": "horovodrun", "nodes": 2}, "horovodrun needs ssh between nodes"),
        ({"hosts_file": "hosts"}, "--hosts is for sites without a scheduler"),
        ({"settings": (("epoch", "1"),)}, "--set epoch: train has no parameter 'epoch'; did you mean 'epochs'?"),
        ({"settings": (("epochs", "many"),)}, "--set epochs: 'many' is not a whole number"),
        ({"settings": (("optimizer", "lion"),)}, "--set optimizer: 'lion' is not one of sgd, adam"),
        ({"synthetic": True}, "--synthetic: train has no parameter 'synthetic'"),
        ({"arguments": ("a\0b",)}, "an argument cannot contain a NUL character"),
        ({"sbatch": ("--signal=USR2@60",), "launcher": "mpirun"}, "would miss the ranks on the first node"),
    ],
)
def test_refusals_at_a_slurm_site(typed: dict[str, Any], message: str) -> None:
    assert message in "\n".join(map(str, refused(job=JOB, **typed)))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"nodes": 2}, "2 nodes requested, but desk is a single machine"),
        ({"account": "a"}, "--account has no meaning at desk, which has no scheduler"),
        ({"partition": "a"}, "--partition has no meaning at desk"),
        ({"qos": "a"}, "--qos has no meaning at desk"),
        ({"sbatch": ("--hold",)}, "--sbatch has no meaning at desk"),
        ({"launcher": "srun"}, "srun needs a Slurm site"),
        ({"gpus_per_node": 1}, "1 GPUs per node requested; allowed: at most 0"),
        ({"nodes": 2, "hosts_file": "hosts"}, "hosts: 2 nodes requested; allowed: at most 1, the number of hosts"),
    ],
)
def test_refusals_at_this_machine(typed: dict[str, Any], message: str) -> None:
    faults = refused(a_desk(), context=a_context(hosts=("one",)), **typed)
    assert message in "\n".join(map(str, faults))


@pytest.mark.parametrize(
    ("typed", "subject"),
    [
        ({"gpus_per_node": 5}, "GPUs"),
        ({"tasks_per_node": 5}, "GPUs"),
        ({"launcher": "jsrun"}, "MPI"),
        ({"launcher": "direct"}, "MPI"),
        ({"launcher": "horovodrun", "nodes": 2}, "MPI"),
        ({"account": "a b"}, "account"),
        ({"qos": "a b"}, "account"),
        ({"partition": "debgu"}, ""),
        ({"nodes": 9}, ""),
        ({"walltime": 25 * HOUR}, ""),
    ],
)
def test_a_fault_says_what_it_is_about(typed: dict[str, Any], subject: str) -> None:
    assert {fault.subject for fault in refused(**typed)} == {subject}


def test_a_fault_of_a_folder_is_about_shared_paths() -> None:
    private = a_site(folders=Folders(node_private=("/home/ada",)))
    assert {fault.subject for fault in refused(private)} == {"shared paths"}
    faults = refused(context=a_context(run_dir="/home/ada/a\\b"))
    assert [(fault.subject, "a backslash, which makes Slurm" in fault.what) for fault in faults] == [
        ("shared paths", True)
    ]


def test_what_is_not_verified_says_what_it_is_about() -> None:
    faults = refused(a_site(launchers=None, gpus=None))
    assert [fault.subject for fault in faults] == ["MPI", "GPUs"]


def test_every_reason_is_told_at_once() -> None:
    faults = refused(
        job=JOB,
        nodes=9,
        tasks_per_node=5,
        walltime=25 * HOUR,
        qos="a b",
        launcher="jsrun",
        settings=(("epoch", "1"),),
        sbatch=("--nodes=3",),
        arguments=("\0",),
    )
    assert len(faults) == 8  # no partition takes it, and the nodes of that type are too few


@pytest.mark.parametrize("key", ["account", "partition", "qos", "walltime"])
def test_what_a_site_requires_must_be_said(key: Any) -> None:
    nothing = replace(a_site().defaults, partition=None, walltime=None)
    site = a_site(required=(key,), defaults=nothing, partitions={})
    (fault,) = refused(site)
    assert fault.what == f"cluster requires {key}"
    assert f"--{key}" in fault.next


def test_perlmutter_needs_an_account() -> None:
    (fault,) = refused(bundled_site("perlmutter"))
    assert "perlmutter requires account" in str(fault)


def test_a_script_without_parameters_says_where_its_own_options_go() -> None:
    (fault,) = refused(settings=(("lr", "0.1"),))
    assert "write the program's own options after --" in fault.next


@pytest.mark.parametrize(
    ("run_dir", "refusal"),
    [
        ("/tmp/runs/x", "the run directory /tmp/runs/x is in /tmp, which is local to each node of cluster"),
        ("/local/ada/x", "is in /local/ada, which is local to each node"),
        ("/tmpfoo/x", None),
        ("/home/ada/x", None),
    ],
)
def test_row_07_a_run_directory_that_the_nodes_do_not_share_is_refused(run_dir: str, refusal: str | None) -> None:
    site = a_site(folders=Folders(node_private=("/tmp", "/local/$USER")))
    context = a_context(run_dir=run_dir, environment={"USER": "ada"})
    if refusal:
        assert refusal in "\n".join(map(str, refused(site, context=context)))
    else:
        from tests.builders import planned

        assert planned(site, context=context).run_dir == run_dir


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f"])
@pytest.mark.parametrize("place", ["run_dir", "cwd"])
def test_a_control_character_in_a_path_is_refused(character: str, place: str) -> None:
    assert "control character" in str(refused(context=a_context(**{place: f"/home/a{character}b"}))[0])


def test_a_variable_with_nul_is_refused() -> None:
    job = a_job(environment=Environment(variables={"A": "x\0"}))
    assert refused(job=job)[0].where == "environment.variables.A"


def test_a_job_for_more_than_the_site_has_is_refused_too() -> None:
    assert "64 nodes requested" in str(refused(job=a_job(resources=Resources(nodes=64)))[0])
