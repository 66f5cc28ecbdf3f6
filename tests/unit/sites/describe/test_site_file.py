"""A site file from Slurm's own texts: what it says, what it leaves out, and that it can always be read."""

from __future__ import annotations

import re
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpclaunch.actions.clusters.detect import SiteDraft, write
from hpclaunch.config.fileformat import read
from hpclaunch.config.site import Site
from hpclaunch.sites.describe.answers import Node
from hpclaunch.sites.describe.comparison import compare
from hpclaunch.sites.describe.draft import Answers, Described, Here
from hpclaunch.sites.describe.node_types import node_groups_of
from hpclaunch.sites.describe.platforms import Shared, platform_of, shared_of
from hpclaunch.sites.describe.site_file import describe
from hpclaunch.sites.describe.writing import text_of
from tests.builders import planned, refused
from tests.unit.sites.describe.texts import answers

ADA = Here(user="ada", groups=frozenset({"users"}), hostname="login03.hypatia.org", known_cluster="Hypatia")
ROOT = Here(user="root", is_root=True, hostname="head", known_cluster="hpctest", python="/opt/bin/python")


def described(version: str, here: Here = ADA, **changes: str) -> Described:
    found = describe(replace(answers(version), **changes), here)
    assert found is not None
    return found


def site_of(found: Described, folder: Path) -> Site:
    path = folder / "found.yaml"
    path.write_text(text_of(found, "for a test"), encoding="utf-8")
    return read(path, Site, name="found")


def gaps(found: Described) -> set[str]:
    return {gap.key for gap in found.gaps}


def test_the_test_cluster(tmp_path: Path) -> None:
    site = site_of(described("22.05", ROOT), tmp_path)
    node = site.node_types["gpu"]
    assert (node.nodes, node.cores_per_node, node.memory_gb, node.gpus_per_node) == (4, 8, 7, 4)
    assert node.stand_in_gpus
    assert site.defaults.partition == "batch"
    assert site.partitions["debug"].max_walltime == 1800
    assert site.partitions["preempt"].only_if_asked
    assert site.qos["short"].max_walltime == 1800
    assert site.launchers is not None and site.launchers.options["srun"].mpi == "pmix"
    assert site.environment.python == "current"


def test_a_run_is_planned_with_it_unedited_and_refused_beyond_it(tmp_path: Path) -> None:
    site = site_of(described("22.05", ROOT), tmp_path)
    spec = planned(site, nodes=4)
    assert ("gpus-per-node", "4") in spec.directives
    assert "--mpi=pmix" in spec.launch
    faults = refused(site, nodes=5)
    assert "at most 4 nodes" in {fault.allowed for fault in faults}


CLOUD = Shared(
    platform="aws_parallelcluster",
    variables={"FI_PROVIDER": "efa"},
    folders={"runs": "/fsx/$USER/hpclaunch/runs", "node_private": ["/tmp", "/scratch"]},
    environments={"batch": {"setup": ["source /opt/net.sh"]}},
)
RESUMED = "ResumeProgram           = /opt/parallelcluster/scripts/slurm/slurm_resume\n"


def test_the_numbers_of_a_clouds_cluster_are_its_own_and_the_folders_those_of_the_tool(tmp_path: Path) -> None:
    plain = answers("22.05").config
    here = replace(ADA, platforms=(CLOUD,))
    site = site_of(described("22.05", here, config=plain + RESUMED), tmp_path)
    assert site.node_types["gpu"].nodes == 4
    assert site.environment.variables == {"FI_PROVIDER": "efa"}
    assert site.folders.runs == "/fsx/$USER/hpclaunch/runs"
    assert set(site.folders.node_private) >= {"/tmp", "/dev/shm", "/scratch"}
    assert site.sources["platform"].ref.startswith("hpclaunch sites show aws_parallelcluster")
    node = site.node_types["gpu"].environment
    assert node is not None and node.setup == ("source /opt/net.sh",)
    elsewhere = site_of(described("22.05", here), tmp_path)
    assert (elsewhere.environment.variables, elsewhere.folders.runs) == ({}, None)


INSTANCES = shared_of(
    "aws_parallelcluster",
    {
        "launchers": {"default": "srun", "options": {"srun": {"mpi": "pmi2", "cpu_bind": "none"}}},
        "node_types": {
            name: {"constraint": name, "gpus_per_node": 4, "gpu_model": model, "default_tasks_per_node": 2, **more}
            for name, model, more in (("p4", "NVIDIA A100", {"gpu_memory_gb": 80}), ("p5", "NVIDIA H100", {}))
        },
    },
)


def of_cpus_alone(nodes: str, cpus: int, threads: int) -> str:
    """The nodes as Slurm shows them where slurm.conf gives their CPUs and nothing of sockets and cores."""
    for name, value in (("CoresPerSocket", 1), ("Sockets", cpus), ("ThreadsPerCore", threads)):
        nodes = re.sub(rf"\b{name}=\d+", f"{name}={value}", nodes)
    return re.sub(r"\b(CPUTot|CPUEfctv)=\d+", rf"\g<1>={cpus}", nodes)


@pytest.mark.parametrize("threads", [1, 2])
def test_cpus_that_slurm_is_told_of_alone_are_no_cores_where_they_are_threads(threads: int, tmp_path: Path) -> None:
    texts = answers("22.05")
    nodes = of_cpus_alone(texts.nodes, 96, threads)
    node = site_of(described("22.05", nodes=nodes), tmp_path).node_types["gpu"]
    assert (node.sockets, node.cores_per_node, node.slurm_cpus) == (None, 96 // threads, 96)
    told = described("22.05", nodes=nodes).values["derived"].get("node_types.gpu.cores_per_node", "")
    assert ("each may be a hardware thread" in told) is (threads == 1)


def test_the_cores_of_a_clouds_instance_are_those_of_its_tool_where_slurm_knows_threads_alone(tmp_path: Path) -> None:
    facts = {"constraint": "p4", "gpus_per_node": 4, "sockets": 2, "cores_per_node": 48, "threads_per_core": 2}
    shared = shared_of("aws_parallelcluster", {"node_types": {"p4": facts}})
    texts = answers("22.05")
    nodes = of_cpus_alone(texts.nodes.replace("Features=(null)", "Features=p4"), 96, 1)
    here = replace(ADA, platforms=(shared,))
    site = site_of(described("22.05", here, config=texts.config + RESUMED, nodes=nodes, gres_conf=""), tmp_path)
    node = site.node_types["gpu"]
    assert (node.sockets, node.cores_per_node, node.threads_per_core, node.slurm_cpus) == (2, 48, 2, 96)
    assert ", 48 cores, " in node.title
    assert site.origins["node_types.gpu.cores_per_node"] == ("platform",)
    found = compare(site, replace(texts, nodes=nodes))
    assert found is not None and found.differences == ()


@pytest.mark.parametrize(("feature", "gap"), [("p4", ""), ("p5", "gpu_memory_gb"), ("other", "gpu_model")])
def test_of_a_clouds_instances_the_gpus_are_known_by_the_feature(feature: str, gap: str, tmp_path: Path) -> None:
    texts = answers("22.05")
    nodes = texts.nodes.replace("Features=(null)", f"Features={feature}")
    here = replace(ADA, platforms=(INSTANCES,))
    found = described("22.05", here, config=texts.config + RESUMED, nodes=nodes, gres_conf="")
    site = site_of(found, tmp_path)
    node, of_type = site.node_types["gpu"], {key for key in gaps(found) if key.startswith("node_types.gpu.gpu")}
    assert of_type == ({f"node_types.gpu.{gap}"} if gap else set())
    assert node.default_tasks_per_node == (None if feature == "other" else 2)
    assert node.gpu_model == {"p4": "NVIDIA A100", "p5": "NVIDIA H100"}.get(feature)
    assert site.launchers is not None
    assert (site.launchers.options["srun"].mpi, site.launchers.options["srun"].cpu_bind) == ("pmix", "none")
    assert site.origins["launchers.options.srun.cpu_bind"] == ("platform",)


@pytest.mark.parametrize(
    ("config", "folders", "platform"),
    [
        ({"ResumeProgram": "/opt/parallelcluster/scripts/slurm/slurm_resume"}, set(), "aws_parallelcluster"),
        ({"ResumeProgram": "/slurm/scripts/resume_wrapper.sh"}, set(), "google_cluster_toolkit"),
        ({}, {"/opt/sagemaker_cluster"}, "sagemaker_hyperpod"),
        ({"ResumeProgram": "/usr/sbin/power_up"}, {"/opt"}, ""),
        ({}, set(), ""),
    ],
)
def test_a_clouds_tool_is_known_by_its_program_or_folder(
    config: dict[str, str], folders: set[str], platform: str
) -> None:
    assert platform_of(config, folders) == platform


def test_several_kinds_of_nodes_and_who_may_use_what(tmp_path: Path) -> None:
    site = site_of(described("23.11"), tmp_path)
    assert list(site.node_types) == ["h100", "nvidia_a100_80gb_pcie", "cpu"]
    assert site.node_types["h100"].gpu_type == "h100"
    assert site.node_types["cpu"].partition == "cpu"
    assert site.node_types["cpu"].usable_cores == 62
    assert site.defaults.node_type == "h100"
    gpu = site.partitions["gpu"]
    assert gpu.max_walltime == 24 * 3600  # its QOS is stricter than MaxTime
    assert gpu.of("nvidia_a100_80gb_pcie").max_nodes == 2
    assert site.partitions["cpu"].whole_nodes
    assert "maintenance" not in site.partitions  # RootOnly
    assert site.partitions["interactive"].note == "only with --qos interactive"
    assert "only for the groups astro" in site.partitions["astro"].note
    assert set(site.qos) == {"normal", "debug", "shared", "scavenge"}
    assert site.qos["debug"].max_nodes == 2 and site.qos["shared"].max_gpus_per_node == 2
    assert site.qos["scavenge"].only_if_asked


def test_a_partition_for_root_alone_is_never_chosen(tmp_path: Path) -> None:
    site = site_of(described("23.11", replace(ADA, user="root", is_root=True)), tmp_path)
    assert site.partitions["maintenance"].only_if_asked
    assert site.defaults.partition == "gpu"


def test_a_member_of_the_group_and_account_may_use_its_partition(tmp_path: Path) -> None:
    mine = answers("23.11").associations.replace("|climate|", "|astro|")
    here = replace(ADA, groups=frozenset({"astro"}))
    site = site_of(described("23.11", here, associations=mine), tmp_path)
    assert site.partitions["astro"].note == "hidden"


def test_nodes_that_nothing_tells_apart_are_one_type_with_what_each_has(tmp_path: Path) -> None:
    site = site_of(described("24.05"), tmp_path)
    assert {name: (node.nodes, node.gpus_per_node) for name, node in site.node_types.items()} == {
        "gpux2": (4, 2),
        "gpux4": (2, 4),
        "cpu32": (3, 0),
    }
    assert site.node_types["cpu32"].memory_gb == 250
    assert "node type of their own" in site.derived["node_types.gpux2"]
    assert site.gpus is not None and site.gpus.directive == "gres"  # select/linear
    assert site.partitions["batch"].whole_nodes


def test_a_file_that_is_cut_short_is_not_left_there(tmp_path: Path) -> None:
    found = described("23.11")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))  # as a full quota would
    try:
        with pytest.raises(OSError, match="File too large"):
            write(SiteDraft(described=found, text=text_of(found, "for a test")), tmp_path / "x.yaml")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_without_accounting_no_qos_is_known(tmp_path: Path) -> None:
    site = site_of(described("22.05", ROOT, qos="", associations=""), tmp_path)
    assert site.qos == {}


def test_nodes_come_from_sinfo_where_they_are_not_shown(tmp_path: Path) -> None:
    assert site_of(described("22.05", ROOT, nodes=""), tmp_path) == site_of(described("22.05", ROOT), tmp_path)


def test_nothing_can_be_described_without_nodes() -> None:
    assert describe(replace(answers("22.05"), nodes="", sinfo=""), ADA) is None
    assert describe(Answers(), ADA) is None


@pytest.mark.parametrize(
    ("mpi", "default", "chosen"),
    [
        ("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n", "none", "pmix"),
        ("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n", "pmi2", "pmi2"),
        ("MPI plugin types are...\n\tnone\n\tpmix_v3\n\tpmix_v4\n", "none", "pmix_v4"),
        ("MPI plugin types are...\n\tnone\n\tcray_shasta\n", "none", "cray_shasta"),
        ("MPI plugin types are...\n\tnone\n\tcray_shasta\n\tpmi2\n", "none", None),
        ("", "none", None),
    ],
)
def test_the_type_of_mpi_is_left_out_rather_than_guessed(
    mpi: str, default: str, chosen: str | None, tmp_path: Path
) -> None:
    config = answers("22.05").config.replace("MpiDefault              = none", f"MpiDefault = {default}")
    found = described("22.05", mpi=mpi, config=config)
    site = site_of(found, tmp_path)
    assert (site.launchers.options["srun"].mpi if site.launchers else None) == chosen
    assert ("launchers" in gaps(found)) == (chosen is None)


def test_what_nobody_told_is_marked_and_left_out(tmp_path: Path) -> None:
    found = described("23.11")
    assert gaps(found) >= {"environment", "required", "charging", "interconnect", "folders.runs"}
    assert "node_types.h100.gpu_model" in gaps(found)
    site = site_of(found, tmp_path)
    assert set(site.unverified) == gaps(found)
    assert site.charging is None and site.node_types["h100"].gpu_model is None
    text = text_of(found, "for a test")
    assert all(f"# FILL IN {key}" in text for key in gaps(found))


def test_gpus_are_real_unless_gres_conf_says_otherwise(tmp_path: Path) -> None:
    real = "Name=gpu Type=a100 File=/dev/nvidia[0-3]\n"
    assert not site_of(described("22.05", gres_conf=real), tmp_path).node_types["gpu"].stand_in_gpus
    assert not site_of(described("22.05", gres_conf=""), tmp_path).node_types["gpu"].stand_in_gpus


def test_how_the_cluster_is_known_again(tmp_path: Path) -> None:
    by_name = site_of(described("23.11"), tmp_path)
    assert by_name.detect is not None and by_name.detect.cluster_name == "Hypatia"
    by_host = site_of(described("23.11", replace(ADA, known_cluster="")), tmp_path)
    assert by_host.detect is not None and by_host.detect.hostname == r"login\d+\.hypatia\.org"


def test_a_cluster_name_that_slurm_writes_in_small_letters_is_the_same(tmp_path: Path) -> None:
    config = answers("23.11").config.replace("Hypatia", "hypatia")
    site = site_of(described("23.11", config=config), tmp_path)
    assert site.detect is not None and site.detect.cluster_name == "Hypatia"  # as slurm.conf has it


def test_accounts_on_another_cluster_of_the_same_accounting_count_for_nothing(tmp_path: Path) -> None:
    astro = "elsewhere|astro|ada||1|||||||||||||debug,normal,scavenge,shared,other||\n"
    here = replace(ADA, groups=frozenset({"astro"}))
    site = site_of(described("23.11", here, associations=answers("23.11").associations + astro), tmp_path)
    assert "only for the accounts astro" in site.partitions["astro"].note


def test_a_partition_that_is_closed_to_ones_usual_qos_is_never_chosen(tmp_path: Path) -> None:
    text = answers("23.11").partitions.replace("DenyAccounts=none AllowQos=ALL", "AllowAccounts=ALL DenyQos=normal")
    site = site_of(described("23.11", partitions=text), tmp_path)
    assert site.partitions["gpu"].note == "closed to --qos normal"
    assert site.defaults.partition == "cpu"


def test_a_small_share_of_memory_is_marked_where_a_job_asks_for_none() -> None:
    found = described("23.11")
    (gap,) = [gap for gap in found.gaps if gap.key.endswith("request_memory")]
    assert gap.key == "node_types.cpu.request_memory"  # the GPUs bring memory with them: DefMemPerGPU
    assert gap.why == "with DefMemPerCPU=1930 a job that asks for no memory gets 239320 of 512000 MB"
    enough = answers("23.11").partitions.replace("DefMemPerCPU=1930", "DefMemPerCPU=4000")
    assert not [key for key in gaps(described("23.11", partitions=enough)) if key.endswith("request_memory")]
    cores_only = answers("23.11").config.replace("CR_CORE_MEMORY", "CR_CORE")
    assert not [key for key in gaps(described("23.11", config=cores_only)) if key.endswith("request_memory")]


def test_the_default_memory_is_that_of_the_partition_and_else_that_of_the_cluster() -> None:
    texts = answers("23.11")
    config = texts.config + "DefMemPerCPU            = 100\n"
    own = texts.partitions.replace("DefMemPerCPU=1930", "DefMemPerNode=510000")
    assert not [key for key in gaps(described("23.11", partitions=own, config=config)) if key.endswith("memory")]
    none = texts.partitions.replace("DefMemPerCPU=1930", "DefMemPerNode=UNLIMITED")
    (gap,) = [one for one in described("23.11", partitions=none, config=config).gaps if one.key.endswith("memory")]
    assert gap.why.startswith("with DefMemPerCPU=100 ")


def test_a_partition_that_gives_some_memory_of_a_node_only(tmp_path: Path) -> None:
    text = answers("23.11").partitions.replace("MaxMemPerNode=UNLIMITED", "MaxMemPerNode=65536", 1)
    site = site_of(described("23.11", partitions=text), tmp_path)
    assert (site.node_types["cpu"].memory_gb, site.node_types["h100"].memory_gb) == (64, 501)


def _two_partitions(first: str, second: str, nodes: str) -> dict[str, str]:
    """Slurm's texts, in which partition ``first`` has the lower priority; ``nodes``: the partition of nodes 3 and 4."""
    texts = answers("22.05")
    line = next(line for line in texts.partitions.splitlines() if line.startswith("PartitionName=preempt"))
    low = line.replace("PartitionName=preempt", "PartitionName=low").replace("Default=NO", first)
    high = next(line for line in texts.partitions.splitlines() if line.startswith("PartitionName=batch"))
    high = high.replace("PartitionName=batch", "PartitionName=high").replace("Default=YES", second)
    shown = [line for line in texts.nodes.splitlines() if line.startswith("NodeName=")]
    places = ["low", "low", nodes, nodes]
    lines = [
        line.replace("Partitions=batch,debug,preempt", f"Partitions={place}")
        for line, place in zip(shown, places, strict=True)
    ]
    return {"partitions": f"{low}\n{high}\n", "nodes": "\n".join(lines) + "\n"}


def test_the_default_partition_is_chosen_although_another_may_preempt_its_jobs(tmp_path: Path) -> None:
    texts = _two_partitions("Default=YES", "Default=NO", "low,high")
    site = site_of(described("22.05", ROOT, **texts), tmp_path)
    assert (site.partitions["low"].only_if_asked, site.partitions["high"].only_if_asked) == (False, False)
    assert site.partitions["low"].note == "jobs of other partitions can preempt its jobs"
    assert site.defaults.partition == "low"
    other = site_of(described("22.05", ROOT, **_two_partitions("Default=NO", "Default=YES", "low,high")), tmp_path)
    assert other.partitions["low"].only_if_asked


def test_a_partition_without_common_nodes_preempts_nothing(tmp_path: Path) -> None:
    texts = _two_partitions("Default=NO", "Default=YES", "high")
    site = site_of(described("22.05", ROOT, **texts), tmp_path)
    assert (site.partitions["low"].only_if_asked, site.partitions["low"].note) == (False, "")


@pytest.mark.parametrize(
    ("mpi", "default", "options"),
    [
        ("MPI plugin types are...\n\tnone\n\tpmix\n", "srun", {"srun": "pmix", "mpirun": None}),
        ("MPI plugin types are...\n\tnone\n", "mpirun", {"mpirun": None}),
    ],
)
def test_an_mpirun_on_path_is_a_launcher_too(
    mpi: str, default: str, options: dict[str, str | None], tmp_path: Path
) -> None:
    config = answers("22.05").config.replace("MpiDefault              = none", "MpiDefault = none")
    found = described("22.05", replace(ROOT, launchers=("mpirun",)), mpi=mpi, config=config)
    site = site_of(found, tmp_path)
    assert site.launchers is not None and site.launchers.default == default
    assert {name: one.mpi for name, one in site.launchers.options.items()} == options
    assert ("launchers.options" in gaps(found)) == (default == "mpirun")


def test_a_python_that_cannot_train_under_srun_provides_nothing_and_the_gap_says_why(tmp_path: Path) -> None:
    lacks = "the Horovod of /opt/bin/python is built without MPI, so each rank of a job would be alone"
    found = described("22.05", replace(ROOT, python="", python_lacks=lacks))
    (gap,) = [one for one in found.gaps if one.key == "environment"]
    assert gap.why.endswith(lacks)
    assert "provides" not in found.values


def test_a_partition_that_gives_some_cpus_of_a_node_only(tmp_path: Path) -> None:
    text = answers("23.11").partitions.replace("MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerNode=32", 1)
    site = site_of(described("23.11", partitions=text), tmp_path)
    assert (site.node_types["cpu"].cores_per_node, site.node_types["cpu"].usable_cores) == (64, 16)
    assert site.node_types["h100"].usable_cores == 62


def test_a_tmpfs_that_is_the_whole_file_system_makes_no_folder_private(tmp_path: Path) -> None:
    config = answers("23.11").config.replace("/scratch/local", "/")
    assert site_of(described("23.11", config=config), tmp_path).folders.node_private == ("/tmp", "/dev/shm")
    assert site_of(described("23.11"), tmp_path).folders.node_private[0] == "/scratch/local"


HOSTILE = 'x:{a}"&*!|>%@`#'


@pytest.mark.parametrize("word", [HOSTILE, "yes", "1e3", "-x", "[a]", "a\x1b[31m", "a\u2028b: 1", "*a", "?"])
def test_a_name_that_is_yaml_to_a_reader_stays_a_name(word: str, tmp_path: Path) -> None:
    """A partition, a feature, a GPU type and plug-ins that would be syntax, or end a comment."""
    texts = answers("22.05")
    found = described(
        "22.05",
        config=texts.config.replace("JobSubmitPlugins        = (null)", f"JobSubmitPlugins = {word}"),
        partitions=texts.partitions.replace("PartitionName=batch", f"PartitionName={word}"),
        nodes=texts.nodes.replace("Partitions=batch", f"Partitions={word}"),
    )
    site = site_of(found, tmp_path)
    shown = word.replace("\x1b", "?").replace("\u2028", "?")
    assert list(site.partitions) == [shown, "debug", "preempt"]
    assert site.defaults.partition == shown
    assert shown in site.unverified["required"]
    assert all(line.isprintable() for line in text_of(found, "for a test").splitlines())


def test_modules_need_a_login_shell_and_the_runtime_is_the_one_that_is_there(tmp_path: Path) -> None:
    here = replace(ADA, module_setup="LMOD_CMD", runtimes=("apptainer", "shifter"))
    site = site_of(described("23.11", here), tmp_path)
    assert site.login_shell
    assert site.container is not None and site.container.runtime == "shifter"


# --- node types


def a_node(name: str, **changes: Any) -> Node:
    usual = {"sockets": 2, "cores": 64, "threads": 2, "cpus": 128, "usable_cpus": 128, "memory": 512_000}
    return Node(**{"name": name, "partitions": ("batch",), **usual, **changes})


A100, H100 = (("a100", 4),), (("h100", 4),)


def test_gpus_of_different_types_in_one_partition_are_asked_for_by_type() -> None:
    groups = node_groups_of([a_node("a", gpus=A100), a_node("b", gpus=H100), a_node("c")])
    assert [(group.name, group.typed, group.constraint) for group in groups] == [
        ("a100", True, ""),
        ("h100", True, ""),
        ("cpu", False, ""),
    ]


def test_a_feature_is_asked_for_where_nothing_else_tells_nodes_apart() -> None:
    small = [a_node(f"s{n}", features=frozenset({"ib", "small"})) for n in range(3)]
    large = [a_node(f"l{n}", memory=1_000_000, features=frozenset({"ib", "large"})) for n in range(2)]
    groups = node_groups_of([*small, *large])
    assert [(group.name, len(group.nodes), group.constraint) for group in groups] == [
        ("cpu64-500gb", 3, "small"),
        ("cpu64-976gb", 2, "large"),
    ]


def test_in_partitions_of_their_own_nodes_need_no_feature() -> None:
    groups = node_groups_of([a_node("s"), a_node("l", memory=1_000_000, partitions=("large",))])
    assert [group.constraint for group in groups] == ["", ""]


def test_nodes_of_about_the_same_memory_are_alike() -> None:
    (group,) = node_groups_of([a_node("a", memory=512_000), a_node("b", memory=515_000)])
    assert (group.memory, group.mixed) == (512_000, False)


def test_of_nodes_with_and_without_hyperthreads_each_core_has_what_every_node_gives(tmp_path: Path) -> None:
    (group,) = node_groups_of([a_node("a", memory=500_000), a_node("b", threads=1, cpus=64, usable_cpus=64)])
    assert (group.threads, group.cpus_per_core, group.mixed) == (1, 1, True)


A100X8 = (("a100", 8),)


def sizes(*nodes: Node) -> list[tuple[str, int, tuple[str, int], str]]:
    return [(group.name, len(group.nodes), group.gpu, group.constraint) for group in node_groups_of(nodes)]


def test_a_number_of_gpus_selects_the_larger_nodes_and_a_smaller_number_any() -> None:
    small = [a_node(f"s{n}", gpus=A100, cores=64) for n in range(2)]
    large = [a_node(f"l{n}", gpus=A100X8, cores=128, memory=1_031_000) for n in range(2)]
    assert sizes(*small, *large) == [("a100x4", 4, ("a100", 4), ""), ("a100x8", 2, ("a100", 8), "")]
    (group, _) = node_groups_of([*small, *large])
    assert (group.cores, group.memory, group.mixed) == (64, min(node.memory for node in small), False)


def test_larger_nodes_with_fewer_cores_or_of_another_partition_are_no_nodes_of_the_smaller_type() -> None:
    small, large = a_node("s", gpus=A100, cores=64), a_node("l", gpus=A100X8, cores=48)
    assert sizes(small, large) == [("a100x4", 1, ("a100", 4), ""), ("a100x8", 1, ("a100", 8), "")]
    apart = a_node("l", gpus=A100X8, cores=128, partitions=("large",))
    assert [count for _, count, _, _ in sizes(small, apart)] == [1, 1]


def test_a_feature_that_both_sizes_have_says_which_is_meant() -> None:
    small = a_node("s", gpus=A100, features=frozenset({"quad"}))
    large = a_node("l", gpus=A100X8, cores=128, features=frozenset({"octo"}))
    assert sizes(small, large) == [("a100x4", 1, ("a100", 4), "quad"), ("a100x8", 1, ("a100", 8), "octo")]


def test_gpus_of_several_types_in_a_node_are_a_node_type_each(tmp_path: Path) -> None:
    mixed = (("a100", 2), ("v100", 4))
    assert sizes(a_node("m", gpus=mixed)) == [("a100", 1, ("a100", 2), ""), ("v100", 1, ("v100", 4), "")]
    assert all(group.typed for group in node_groups_of([a_node("m", gpus=mixed)]))


@pytest.mark.parametrize(
    ("gres", "types"),
    [
        ("gpu:1g.10gb:28,gpu:ampere:6", {"ampere": (6, 6), "1g.10gb": (1, 28)}),
        ("gpu:a100_3g.20gb:3(S:1,3,7),gpu:a100_1g.5gb:7", {"a100_3g.20gb": (1, 3), "a100_1g.5gb": (1, 7)}),
        ("gpu:nvidia_h100_80gb_hbm3_1g.10gb:7", {"gpu": (1, 7)}),
    ],
)
def test_slices_of_gpus_are_types_of_their_own_with_one_for_a_process(
    tmp_path: Path, gres: str, types: dict[str, tuple[int, int]]
) -> None:
    nodes = re.sub(r"Gres=\S+", f"Gres={gres}", answers("22.05").nodes)
    found = described("22.05", ROOT, nodes=nodes)
    site = site_of(found, tmp_path)
    assert {name: node.gpus_per_node for name, node in site.node_types.items()} == {k: v[0] for k, v in types.items()}
    for name, (usable, number) in types.items():
        assert (site.node_types[name].title.startswith("MIG slices, ")) is (usable == 1)
        assert f", {number} x " in site.node_types[name].title


@pytest.mark.parametrize(
    ("gres", "name", "gpu_type", "parts"),
    [
        ("gpu:a100:4,shard:a100:16(S:0-1)", "shard", None, 4),
        ("gpu:4,shard:8", "shard", None, 2),
    ],
)
def test_shards_are_a_node_type_of_their_own_with_a_part_of_one_gpu(
    tmp_path: Path, gres: str, name: str, gpu_type: str | None, parts: int
) -> None:
    nodes = re.sub(r"Gres=\S+", f"Gres={gres}", answers("22.05").nodes)
    site = site_of(described("22.05", ROOT, nodes=nodes), tmp_path)
    assert list(site.node_types) == ["gpu", name]
    whole, part = site.node_types.values()
    assert (whole.gpus_per_node, whole.gpu_shards, whole.default_cpus_per_task) == (4, None, None)
    assert (part.gpus_per_node, part.gpu_shards, part.gpu_type) == (1, parts, gpu_type)
    assert part.default_cpus_per_task == max(1, 8 // (4 * parts))
    assert part.title.startswith(f"A part of a GPU, each of 4 x {'a100' if 'a100' in gres else 'GPU'} in {parts} parts")
    assert site.partitions["batch"].max_nodes == 4, "each node counts once"
    assert site.defaults.node_type == "gpu"


def test_shards_of_gpus_that_are_asked_for_by_type_have_the_type() -> None:
    a, h = a_node("a", gpus=A100, shards=(("a100", 8),)), a_node("h", gpus=H100)
    found = [(group.name, group.shards, group.typed) for group in node_groups_of([a, h])]
    assert found == [("a100", 0, True), ("h100", 0, True), ("a100-shard", 2, True)]


def test_ten_thousand_nodes_are_few_kinds() -> None:
    nodes = [a_node(f"n{n}", gpus=A100 if n % 2 else H100, memory=500_000 + n) for n in range(10_000)]
    assert [len(group.nodes) for group in node_groups_of(nodes)] == [5_000, 5_000]


names = st.text(
    st.characters(codec="ascii", exclude_characters="|\n\r=, \t", categories=["L", "N", "P", "S"]), min_size=1
)
some_nodes = st.lists(
    st.builds(
        a_node,
        names,
        gpus=st.sampled_from([(), A100, H100, (("", 2),), (("a100", 8),), (("1g.5gb", 7), ("a100", 1))]),
        memory=st.integers(1_000, 2_000_000),
        cores=st.sampled_from([1, 16, 64, 128]),
        features=st.frozensets(st.sampled_from(["ib", "big", "old"])),
        partitions=st.lists(st.sampled_from(["batch", "gpu", "long"]), min_size=1, unique=True).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


@given(some_nodes)
def test_every_node_is_of_one_type_that_promises_no_more_than_it_has(nodes: list[Node]) -> None:
    groups = node_groups_of(nodes)
    own = [node for group in groups if not group.position for node in group.nodes if id(node) not in group.larger]
    assert sorted(map(id, own)) == sorted(map(id, nodes))
    assert len({group.name for group in groups}) == len(groups)
    for group in groups:
        for node in group.nodes:
            assert group.cores <= node.cores and group.memory <= node.memory
            assert group.gpu[1] <= sum(count for _, count in node.gpus)
            assert not group.constraint or group.constraint in node.features


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_the_programs_write_the_file_can_be_read(data: st.DataObject, tmp_path: Path) -> None:
    """Any name, and any text cut anywhere: a site file that loads, or none."""
    texts = answers(data.draw(st.sampled_from(["22.05", "23.11", "24.05"])))
    name = data.draw(names)
    changed = {
        key: value.replace("batch", name)
        .replace("hpctest", name)
        .replace("Hypatia", name)[: data.draw(st.integers(0, 9_000))]
        for key in ("config", "partitions", "nodes", "qos", "associations", "mpi", "gres_conf")
        if (value := getattr(texts, key))
    }
    found = describe(Answers(**changed), ADA)
    if found is not None:
        site = site_of(found, tmp_path)
        assert site.defaults.node_type in site.node_types


QOS = "Name|Flags|GrpTRES|MaxTRES|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPU|MinTRES|MaxTRESPerNode\n"


@pytest.mark.parametrize(
    ("row", "limits"),
    [
        (
            "normal|DenyOnLimit,PartitionTimeLimit,PartitionMaxNodes||node=16|7-00:00:00|||||",
            {"max_nodes": 16, "max_walltime": "7-00:00:00", "lifts": ["max_walltime", "max_nodes"]},
        ),
        ("normal|PartitionMinNodes|||||||node=2,gres/gpu=8|", {"min_nodes": 2, "min_gpus": 8, "lifts": ["min_nodes"]}),
        ("normal||gres/gpu=32|||gres/gpu=16|2|5||", {"max_gpus": 16, "max_running": 2, "max_jobs": 5}),
        ("normal|DenyOnLimit||gres/gpu:a100=2,mem=100G||||||", {"max_gpus_of_type": {"a100": 2}, "max_memory": "100G"}),
        ("normal|||gres/gpu=0,cpu=64||||0||", {"max_gpus": 0, "max_cpus": 64, "max_jobs": 0}),
        (
            "normal||||||||cpu=4,mem=1.5G,gres/gpu:a100=2|cpu=8,mem=16G,gres/gpu:a100=1",
            {
                "min_gpus_of_type": {"a100": 2},
                "max_gpus_of_type_per_node": {"a100": 1},
                "min_cpus": 4,
                "max_cpus_per_node": 8,
                "min_memory": "1536M",
                "max_memory_per_node": "16G",
            },
        ),
        ("normal|Relative|cpu=50|gres/gpu=10|1:00:00|||||", {"max_walltime": "01:00:00"}),
        ("normal||cpu=4K,energy=9|billing=3,mem=7Q||||||", {}),
        ("normal|OverPartQOS|||1-00:00:00|||||", {"max_walltime": "1-00:00:00", "lifts": ["max_walltime"]}),
    ],
)
def test_the_flags_of_a_qos_and_its_limits_on_whole_jobs_are_written(
    row: str, limits: dict[str, object], tmp_path: Path
) -> None:
    made = described("22.05", ROOT, qos=f"{QOS}{row}\n")
    assert made.values["qos"] == {"normal": limits}
    site_of(made, tmp_path)


def test_limits_of_a_partitions_own_qos_count_in_place_of_those_of_the_jobs(tmp_path: Path) -> None:
    recorded = answers("22.05")
    partitions = recorded.partitions.replace("QoS=N/A", "QoS=part", 1)
    made = described("22.05", ROOT, partitions=partitions, qos=f"{QOS}part|PartitionTimeLimit|||00:20:00|||||\n")
    first = next(iter(site_of(made, tmp_path).partitions.values()))
    assert (first.max_walltime, first.lifts) == (1200, ("max_walltime",)), "its flags do not lift its own limits"
