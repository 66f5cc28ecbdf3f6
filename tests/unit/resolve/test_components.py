"""A run on nodes of several types: one heterogeneous job, whose ranks are numbered through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Charging, LauncherOptions, Launchers, NodeType, Site
from hpclaunch.core.spec_parts import Component
from hpclaunch.launchers import LAUNCHERS
from hpclaunch.render import render
from tests.builders import CONTEXT, ROOTS, a_desk, a_job, a_site, everywhere, planned, refused

MIXED: dict[str, Any] = {"node_type": "cpu", "nodes": 1, "further_nodes": (("gpu", "2"),)}


def test_the_ranks_of_all_node_types_are_one_world() -> None:
    spec = planned(**MIXED)
    assert (spec.layout.ranks, spec.layout.world_size) == (1, 9)
    assert [(one.node_type, one.layout.nodes, one.layout.world_size) for one in spec.components] == [
        ("cpu", 1, 1),
        ("gpu", 2, 8),
    ]
    assert dict(spec.environment)["HPCLAUNCH_WORLD_SIZE"] == "9"
    nodes = [(choice.value, choice.origin) for choice in spec.choices if choice.key == "nodes"]
    assert nodes == [("1", "--node-type"), ("2", "--node-type")]
    assert spec.further == (Component(node_type="gpu", partition="batch", qos=""),)


def test_each_component_has_directives_of_its_own() -> None:
    spec = planned(**MIXED, account="m1", sbatch=("--comment=x",))
    place = spec.directives.index(("hetjob", ""))
    first, further = dict(spec.directives[:place]), spec.directives[place + 1 :]
    assert (first["nodes"], first["cpus-per-task"], first["time"], first["chdir"]) == (
        *("1", "32", "01:00:00"),
        CONTEXT.run_dir,
    )
    assert "gpus-per-node" not in first
    assert further == (
        ("partition", "batch"),
        ("nodes", "2"),
        ("ntasks-per-node", "4"),
        ("cpus-per-task", "8"),
        ("gpus-per-node", "4"),
        ("comment", "x"),
    )
    assert "\n#SBATCH hetjob\n#SBATCH --partition=batch\n" in render(spec, ROOTS)


def test_one_step_spans_all_components() -> None:
    first, further = " ".join(planned(**MIXED).launch).split(" : ")
    assert first.startswith("srun --het-group=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=32 ")
    assert further.startswith("--het-group=1 --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 ")
    assert all("--mpi=pmix" in part and "--kill-on-bad-exit=1" in part for part in (first, further))


def test_a_rank_learns_its_place_and_the_variables_of_its_node_type() -> None:
    text = render(planned(**MIXED), ROOTS)
    assert '  set_rank_of_component "1x1 2x4" "${SLURM_PROCID-}" "${SLURM_LOCALID-}" "${SLURM_NODEID-}"\n' in text
    assert (
        "  case $HPCLAUNCH_COMPONENT in\n"
        "    1)\n      export OMP_NUM_THREADS=4\n      export HPCLAUNCH_EXPECT_GPU=1\n"
        "      check_gpus any 1 || return 78\n      ;;\n"
        "  esac\n"
    ) in text
    own = text.partition("export OMP_NUM_THREADS=32\nexport HPCLAUNCH_WORLD_SIZE=9\nexport HPCLAUNCH_EXPECT_GPU=0\n")
    assert own[1]  # those of the first node type, which a rank of another type replaces
    assert "# train at cluster (cpu + gpu): 1 node x 1 task + 2 nodes x 4 tasks = 9 ranks\n" in text


def test_a_chosen_number_of_threads_is_that_of_every_rank() -> None:
    job = a_job(environment=Environment(variables={"OMP_NUM_THREADS": "3"}))
    spec = planned(None, job, **MIXED)
    assert not [line for line in spec.rank_setup if "OMP_NUM_THREADS" in line]
    assert dict(spec.environment)["OMP_NUM_THREADS"] == "3"


def test_the_lines_of_a_node_type_are_run_on_its_own_nodes() -> None:
    site = a_site()
    gpu = replace(site.node_types["gpu"], rank_setup=("export OWN=1",))
    spec = planned(a_site(node_types={**site.node_types, "gpu": gpu}), **MIXED)
    assert spec.rank_setup.index("    export OWN=1") > spec.rank_setup.index("  1)")


def test_the_limits_hold_for_each_node_type() -> None:
    faults = refused(**{**MIXED, "further_nodes": (("gpu", "9"),)})
    assert any("9 nodes requested" in fault.what for fault in faults)
    (unknown,) = refused(**{**MIXED, "further_nodes": (("gpus", "2"),)})
    assert "has no node type 'gpus'; did you mean 'gpu'" in unknown.what


def two_partitions() -> Site:
    """A site with a partition for each of two node types."""
    site = a_site()
    batch = Limits(node_types=("gpu",), max_nodes=4, max_walltime=7200)
    parts = {"batch": batch, "long": Limits(node_types=("cpu",), max_walltime=36000)}
    types = {**site.node_types, "cpu": replace(site.node_types["cpu"], partition="long")}
    return a_site(partitions=parts, node_types=types)


@pytest.mark.parametrize(
    ("typed", "step"),
    [
        ({"further_nodes": (("gpu", "9"),)}, "--node-type gpu:4,… would be accepted for the gpu nodes"),
        ({"walltime": 30000}, "--walltime 02:00:00 would be accepted for the gpu nodes"),
        ({"partition": "long"}, "the same request without partition 'long' would be accepted for the gpu nodes"),
        ({"gpus_per_node": 2}, "leave --gpus-per-node out: each node type then has its own"),
    ],
)
def test_what_is_suggested_for_one_node_type_can_be_typed(typed: dict[str, Any], step: str) -> None:
    """Neither --nodes nor a partition of this node type: they would be for all node types, or are refused."""
    assert step in [fault.next for fault in refused(two_partitions(), **{**MIXED, **typed})]


def test_a_name_that_the_site_does_not_know_is_not_named_twice() -> None:
    faults = refused(**{**MIXED, "further_nodes": (("nope", "2"), ("nil", "1"))})
    assert ["has no node type" in fault.what for fault in faults] == [True, True]


def test_each_node_type_has_a_partition_of_its_own() -> None:
    site = a_site()
    parts = {**site.partitions, "batch": Limits(node_types=("gpu",)), "long": Limits(node_types=("cpu",))}
    types = {**site.node_types, "cpu": replace(site.node_types["cpu"], partition="long")}
    spec = planned(a_site(partitions=parts, node_types=types), **MIXED)
    assert [one.partition for one in spec.components] == ["long", "batch"]
    assert [choice.value for choice in spec.choices if choice.key == "partition"] == ["long", "batch"]


def test_a_run_that_continues_gets_the_shortest_walltime_of_its_components() -> None:
    for first, further in (("cpu", "gpu"), ("gpu", "cpu")):
        typed = {"node_type": first, "nodes": 1, "further_nodes": ((further, "2"),)}
        spec = planned(two_partitions(), **typed, restarts=9, walltime=40000)
        assert (spec.walltime, dict(spec.directives)["time"]) == (7200, "02:00:00")
        chains = [warning for warning in spec.warnings if "becomes a chain" in warning]
        assert ["up to 6 jobs of 02:00:00" in warning for warning in chains] == [True]


def test_the_cost_is_that_of_all_nodes() -> None:
    spec = planned(a_site(charging=Charging(unit="node-hour", counts="node")), **MIXED)
    assert spec.cost is not None
    assert (spec.cost.amount, spec.cost.note) == (3, "3 nodes x 01:00:00")
    cpu = replace(a_site().node_types["cpu"], charging=Charging(unit="core-hour", counts="core"))
    mixed = a_site(node_types={**a_site().node_types, "cpu": cpu}, charging=Charging(unit="node-hour", counts="node"))
    assert planned(mixed, **MIXED).cost is None


@pytest.mark.parametrize("launcher", sorted(name for name, row in LAUNCHERS.items() if row.one_node_type))
def test_a_launcher_that_reaches_one_node_type_is_refused_in_one_sentence(launcher: str) -> None:
    faults = [
        fault for fault in refused(everywhere(), launcher=launcher, **MIXED) if "several node types" in fault.what
    ]
    assert [fault.next for fault in faults] == ["--launcher srun"]
    assert LAUNCHERS[launcher].one_node_type in faults[0].what


def test_a_launcher_that_reaches_all_nodes_is_taken() -> None:
    site = a_site(
        launchers=Launchers(default="mpirun", options={"mpirun": LauncherOptions(), "srun": LauncherOptions()})
    )
    spec = planned(site, **MIXED)
    assert (spec.launcher, planned(site, nodes=2).launcher) == ("srun", "mpirun")


@pytest.mark.parametrize(
    ("site", "typed", "what", "step"),
    [
        (
            {"heterogeneous_jobs": False},
            {},
            "accepts no jobs with nodes of several types",
            "--node-type NAME --nodes N",
        ),
        ({}, {"sweep": (("lr", "1,2"),)}, "has no job arrays with nodes of several types", "--set"),
        ({}, {"further_nodes": (("cpu", "2"),)}, "cpu is named twice", "name it once"),
    ],
)
def test_what_a_heterogeneous_job_cannot_have_is_refused(
    site: dict[str, Any], typed: dict[str, Any], what: str, step: str
) -> None:
    faults = refused(a_site(**site), **{**MIXED, **typed})
    assert [fault for fault in faults if what in fault.what and step in fault.next]


def test_a_site_without_a_scheduler_has_no_heterogeneous_jobs() -> None:
    site = a_desk(
        node_types={"box": NodeType(title="it", cores_per_node=1), "other": NodeType(title="o", cores_per_node=1)}
    )
    faults = refused(site, node_type="box", nodes=1, further_nodes=(("other", "1"),))
    assert [fault for fault in faults if "joins nodes of several types into one job" in fault.what]


def test_a_strategy_with_several_gpus_for_a_task_is_refused() -> None:
    faults = refused(None, a_job(strategies=("mirrored", "multiworker")), strategy="multiworker", **MIXED)
    assert [fault for fault in faults if "the same number of GPUs on every node" in fault.what]


def test_node_types_with_different_software_are_refused() -> None:
    site = a_site()
    cpu = replace(site.node_types["cpu"], environment=Environment(modules=("cpu-only",)))
    faults = refused(a_site(node_types={**site.node_types, "cpu": cpu}), **MIXED)
    assert [fault.what for fault in faults] == [
        "cpu and gpu have different software, and a script loads one for all ranks"
    ]


def test_a_qos_that_slurm_would_pass_on_is_refused() -> None:
    site = a_site()
    cpu = replace(site.node_types["cpu"], qos="cpus")
    mixed = a_site(node_types={**site.node_types, "cpu": cpu})
    faults = refused(mixed, **MIXED)
    assert [fault.what for fault in faults] == ["the gpu nodes would get the QOS 'cpus' of the cpu nodes"]
    turned = planned(mixed, node_type="gpu", nodes=2, further_nodes=(("cpu", "1"),))
    assert [one.qos for one in turned.components] == ["", "cpus"]


def test_the_measurements_of_such_a_run_belong_to_no_plan() -> None:
    assert planned(**MIXED).calibration_key == ""
