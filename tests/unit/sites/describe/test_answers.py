"""What Slurm's programs write, in every form that they have had."""

from __future__ import annotations

import pytest

from hpclaunch.sites.describe.answers import gpu_files, gpus_of, mpi_types, nodes_of, nodes_of_sinfo
from hpclaunch.sites.slurm_text import amounts_in, names_in, records, settings, table
from tests.unit.sites.describe.texts import answers


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", ()),
        ("", ()),
        ("lustre:1", ()),
        ("gpu:4", (("", 4),)),
        ("gpu", (("", 1),)),
        ("gpu:a100", (("a100", 1),)),
        ("gpu:a100:4", (("a100", 4),)),
        ("gpu:a100:4(S:0-1)", (("a100", 4),)),
        ("gpu:2(S:0)", (("", 2),)),
        ("gpu:h100:2(S:0-1),gpu:h100:2(S:2-3)", (("h100", 4),)),
        ("gpu:a100:4(S:1,3,5,7)", (("a100", 4),)),
        ("gpu:a100_3g.20gb:3(S:1,3,7),gpu:a100_1g.5gb:7(S:1,5,7)", (("a100_3g.20gb", 3), ("a100_1g.5gb", 7))),
        ("craynetwork:4,gpu:4", (("", 4),)),
        ("gpu:no_consume:4", (("", 4),)),
        ("shard:a100:64(S:0-1),gpu:a100:4(S:0-1)", (("a100", 4),)),
        ("gpu:a100:0", ()),
    ],
)
def test_gpus_of_a_node(gres: str, gpus: tuple[tuple[str, int], ...]) -> None:
    assert gpus_of(gres) == gpus


def test_nodes_are_read_one_a_line_and_one_a_paragraph() -> None:
    text = answers("23.11").nodes
    in_lines = "\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
    assert nodes_of(text) == nodes_of(in_lines)
    assert [node.name for node in nodes_of(text)] == ["c001", "c002", "c003", *(f"gpu00{n}" for n in range(1, 6))]


def test_a_reason_that_quotes_another_field_changes_nothing() -> None:
    nodes = {node.name: node for node in nodes_of(answers("23.11").nodes)}
    assert "Sockets=4 expected" in answers("23.11").nodes
    assert nodes["gpu002"].sockets == 2


def test_cpus_that_the_node_keeps_for_itself_are_not_usable() -> None:
    node = nodes_of(answers("23.11").nodes)[0]
    assert (node.cores, node.threads, node.cpus, node.usable_cpus) == (64, 2, 128, 124)
    before_22_05 = answers("23.11").nodes.replace("CPUEfctv=124 ", "")
    assert nodes_of(before_22_05)[0].usable_cpus == 124  # by CoreSpecCount=2


def test_where_slurms_cpus_are_cores_a_core_that_the_node_keeps_is_one_cpu() -> None:
    text = "NodeName=n1 CoresPerSocket=32 CPUTot=64 RealMemory=256000 Sockets=2 ThreadsPerCore=2 CoreSpecCount=2"
    (node,) = nodes_of(text)
    assert (node.cores, node.cpus_per_core, node.usable_cpus) == (64, 1, 62)


def test_memory_that_the_node_keeps_for_itself_is_not_counted() -> None:
    text = "NodeName=n1 CoresPerSocket=32 CPUTot=64 RealMemory=256000 Sockets=2 CoreSpecCount=2 MemSpecLimit=8192"
    assert nodes_of(text)[0].memory == 247_808


def test_a_node_that_is_only_planned_is_none() -> None:
    assert "NodeName=c900" in answers("23.11").nodes
    assert "c900" not in [node.name for node in nodes_of(answers("23.11").nodes)]


def test_sinfo_tells_the_same_where_nodes_are_not_shown() -> None:
    shown, listed = nodes_of(answers("22.05").nodes), nodes_of_sinfo(answers("22.05").sinfo)
    assert [set(node.partitions) for node in listed] == [set(node.partitions) for node in shown]
    alike = [(one.name, one.sockets, one.cores, one.cpus, one.memory, one.gpus, one.features) for one in listed]
    assert alike == [(one.name, one.sockets, one.cores, one.cpus, one.memory, one.gpus, one.features) for one in shown]


def test_what_is_cut_off_is_no_node() -> None:
    assert nodes_of("NodeName=n1 CoresPerSocket=4 CPUTot=8") == []
    assert nodes_of_sinfo("n1|batch|2|4\nn2|batch|a|b|c|d|e|gpu:4|(null)\n\n") == []
    assert nodes_of("slurm_load_node: Unable to contact slurm controller") == []


@pytest.mark.parametrize("version", ["22.05", "23.11", "24.05"])
def test_partitions_of_every_version(version: str) -> None:
    found = records(answers(version).partitions, "PartitionName")
    assert found[0]["State"] == "UP"
    assert all(fields["MaxTime"] and fields["TotalNodes"].isdigit() for fields in found)
    assert sum(fields.get("Default") == "YES" for fields in found) == 1


def test_the_configuration_and_what_is_not_set_in_it() -> None:
    found = settings(answers("22.05").config)
    assert (found["ClusterName"], found["SLURM_VERSION"], found["PowerPlugin"]) == ("hpctest", "22.05.8", "")
    assert found["MpiDefault"] == ""
    assert found["JobSubmitPlugins"] == ""


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\n", ["pmix", "none", "pmi2"]),
        ("srun: MPI types are...\nsrun: pmi2\nsrun: none\nsrun: pmix_v3\n", ["pmi2", "none", "pmix_v3"]),
        (
            "MPI plugin types are...\n\tnone\nspecific pmix plugin versions available: pmix_v3,pmix_v5\n",
            ["none", "pmix_v3", "pmix_v5"],
        ),
        ("srun: error: Unable to contact slurm controller (connect failure)\n", []),
    ],
)
def test_types_of_mpi(text: str, types: list[str]) -> None:
    assert mpi_types(text) == types


def test_tables_of_accounting_are_read_by_the_names_of_their_columns() -> None:
    rows = {row["Name"]: row for row in table(answers("23.11").qos)}
    assert rows["debug"]["MaxTRES"] == "node=2"
    assert rows["debug"]["MaxWall"] == "00:30:00"
    assert table(answers("22.05").associations)[0]["DefQOS"] == ""
    assert table("") == []


def test_numbers_and_names_in_slurms_lists() -> None:
    assert amounts_in("cpu=64,node=4,gres/gpu=8,gres/gpu:a100=0") == {
        "cpu": 64,
        "node": 4,
        "gres/gpu": 8,
        "gres/gpu:a100": 0,
    }
    assert amounts_in("mem=100G") == {"mem": 102400} == amounts_in("mem=102400M(8)") == amounts_in("mem=102400")
    assert amounts_in("mem=1.50T") == {"mem": 1536 * 1024}
    assert amounts_in("cpu=1K,mem=5X,node=N(3),gres/gpu=,x") == {}, "a form that is not known is no limit"
    assert names_in("ALL") == names_in("(null)") == []
    assert names_in("astro,climate") == ["astro", "climate"]


def test_device_files_of_gres_conf() -> None:
    assert gpu_files(answers("22.05").gres_conf) == ["/srv/cluster/dev/nvidia[0-3]"]
    assert gpu_files("NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-7] # eight\n") == ["/dev/nvidia[0-7]"]
    assert gpu_files("AutoDetect=nvml\nName=gpu Type=h100\n# Name=gpu File=/x\nName=mps File=/dev/nvidia0\n") == []
