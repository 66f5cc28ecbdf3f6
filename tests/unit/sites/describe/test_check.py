"""A site file beside Slurm's own texts of the test cluster: what differs, what agrees, and what nobody knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.limits import Bin, Limits
from hpclaunch.config.site import Container, GpuRequest, LauncherOptions, Launchers, Site
from hpclaunch.config.yaml_edits import Change
from hpclaunch.sites.describe.check import Finding, check
from hpclaunch.sites.describe.draft import Answers
from tests.builders import HOUR, bundled_site
from tests.unit.sites.describe.texts import answers

TESTCLUSTER = bundled_site("testcluster")
ANSWERS = answers("22.05")


def findings(site: Site, told: Answers = ANSWERS) -> dict[str, Finding]:
    return {one.key: one for one in check(site, told).findings}


def different(site: Site, told: Answers = ANSWERS) -> dict[str, Finding]:
    return {key: one for key, one in findings(site, told).items() if one.verdict == "differs"}


def with_partition(name: str, **limits: Any) -> Site:
    return replace(TESTCLUSTER, partitions={**TESTCLUSTER.partitions, name: Limits(**limits)})


def test_the_bundled_file_agrees_and_the_names_that_it_lacks_are_no_difference() -> None:
    found = check(TESTCLUSTER, ANSWERS)
    assert {one.verdict for one in found.findings} == {"agrees"}
    assert "qos" in found.also and "partition" not in found.also
    assert found.cluster.startswith("Slurm 22.05")


@pytest.mark.parametrize(
    ("limits", "key", "now"),
    [
        ({"max_nodes": 4, "max_walltime": 8 * HOUR}, "max_walltime", "00:30:00"),
        ({"max_nodes": 4, "max_walltime": 60}, "max_walltime", "00:30:00"),
        ({"max_nodes": 4}, "max_walltime", "00:30:00"),
        ({"max_nodes": 9, "max_walltime": HOUR // 2}, "max_nodes", 4),
    ],
)
def test_a_limit_of_a_partition_that_is_wrong_or_missing_is_corrected(
    limits: dict[str, Any], key: str, now: Any
) -> None:
    found = different(with_partition("debug", **limits))
    assert list(found) == [f"partitions.debug.{key}"]
    (one,) = found.values()
    assert (one.now, one.change) == (now, Change(path=("partitions", "debug", key), value=now))


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({"max_nodes": 2, "max_walltime": HOUR // 2}, "max_nodes"),  # the partition has four nodes, and no limit
        ({"max_gpus": 2, "max_walltime": HOUR // 2}, "max_gpus"),
    ],
)
def test_a_limit_that_slurm_does_not_have_is_not_known_and_stays(limits: dict[str, Any], key: str) -> None:
    site = with_partition("debug", **limits)
    assert different(site) == {}
    assert findings(site)[f"partitions.debug.{key}"].verdict == "not known"


def test_walltimes_that_depend_on_nodes_are_not_called_missing() -> None:
    assert different(with_partition("debug", max_nodes=4, bins=(Bin(max_nodes=4, max_walltime=60),))) == {}


def test_an_unknown_partition_is_removed_with_what_refers_to_it() -> None:
    site = with_partition("debgu")
    site = replace(site, defaults=replace(site.defaults, partition="debgu"))
    found = different(site)
    assert {key: one.change for key, one in found.items()} == {
        "partitions.debgu": Change(path=("partitions", "debgu"), removes=True),
        "defaults.partition": Change(path=("defaults", "partition"), removes=True),
    }
    assert found["partitions.debgu"].what == "Slurm has no partition debgu; did you mean 'debug'?"


def test_a_list_that_is_said_to_be_complete_gets_what_it_lacks_and_nobody_gets_there_unasked() -> None:
    listed = {name: one for name, one in TESTCLUSTER.partitions.items() if name != "debug"}
    lacking = replace(TESTCLUSTER, partitions=listed)
    assert different(lacking) == {} and check(lacking, ANSWERS).also["partition"] == ("debug",)
    found = check(replace(lacking, complete=("partition",)), ANSWERS)
    (one,) = (one for one in found.findings if one.verdict == "differs")
    assert (one.key, one.now) == ("partitions.debug", {"max_walltime": "00:30:00", "only_if_asked": True})
    assert "partition" not in found.also


@pytest.mark.parametrize("own", ["gone", None])
def test_a_node_type_whose_partition_is_gone_gets_nothing_of_other_nodes(own: str | None) -> None:
    gpu = replace(TESTCLUSTER.node_types["gpu"], partition=own, memory_gb=1000)
    node_types = {**TESTCLUSTER.node_types, "big": gpu}
    partitions = {**TESTCLUSTER.partitions, "gone": Limits(node_types=("big",))}
    site = replace(TESTCLUSTER, node_types=node_types, partitions=partitions)
    found = findings(site)
    of_type = {key: one for key, one in found.items() if key.startswith("node_types.big")}
    assert of_type.pop("node_types.big").verdict == "not asked"
    assert [(one.verdict, one.change) for one in of_type.values()] == [("differs", None)] * (own is not None)
    kept = None if own else Change(path=("partitions", "gone"), removes=True)
    assert (found["partitions.gone"].verdict, found["partitions.gone"].change) == ("differs", kept)


def test_of_a_partition_that_was_renamed_the_new_one_is_named_if_its_nodes_fit() -> None:
    gpu = replace(TESTCLUSTER.node_types["gpu"], partition="gone")
    partitions = {name: one for name, one in TESTCLUSTER.partitions.items() if name != "preempt"} | {"gone": Limits()}
    site = replace(TESTCLUSTER, node_types={**TESTCLUSTER.node_types, "gpu": gpu}, partitions=partitions)
    what = "which nodes are its own is not known: Slurm has no partition gone"
    assert findings(site)["node_types.gpu"].what == f"{what}; the nodes of preempt fit"
    larger = replace(site, node_types={"gpu": replace(gpu, memory_gb=1000)})
    assert findings(larger)["node_types.gpu"].what == what


def test_qos_are_compared_by_name_and_limit() -> None:
    known = sorted(check(TESTCLUSTER, ANSWERS).also["qos"])
    site = replace(TESTCLUSTER, qos={known[0].upper(): Limits(max_jobs=77), "gone": Limits()})
    found = findings(site)
    assert (found[f"qos.{known[0].upper()}"].verdict, found["qos.gone"].verdict) == ("agrees", "differs")
    assert found[f"qos.{known[0].upper()}.max_jobs"].verdict == "not known"


@pytest.mark.parametrize(
    ("silent", "keys"),
    [
        ("partitions", ("partitions.batch", "defaults.partition", "node_types.gpu")),
        ("nodes", ("node_types.gpu",)),
        ("qos", ("qos.normal",)),
        ("mpi", ("launchers.options.srun.mpi",)),
    ],
)
def test_a_question_that_failed_is_no_agreement(silent: str, keys: tuple[str, ...]) -> None:
    site = replace(TESTCLUSTER, qos={"normal": Limits()})
    told = replace(ANSWERS, sinfo="", **{silent: ""}, unanswered={silent: "the program failed"})  # type: ignore[arg-type]
    found = findings(site, told)
    for key in keys:
        assert (found[key].verdict, found[key].what) == ("not asked", "the program failed")
    assert all(one.verdict != "agrees" for key, one in found.items() if key.startswith(keys[0]))


def test_a_tighter_limit_may_be_that_of_a_partitions_qos_which_sacctmgr_did_not_tell() -> None:
    told = replace(ANSWERS, qos="", partitions=ANSWERS.partitions.replace("QoS=N/A", "QoS=some"))
    assert "QoS=some" in told.partitions
    tight, loose = (with_partition("debug", max_nodes=4, max_walltime=seconds) for seconds in (60, HOUR))
    assert findings(tight, told)["partitions.debug.max_walltime"].verdict == "not asked"
    assert findings(loose, told)["partitions.debug.max_walltime"].verdict == "differs"


def test_wrong_nodes_and_options_are_found() -> None:
    gpu = replace(TESTCLUSTER.node_types["gpu"], gpus_per_node=8, memory_gb=512)
    site = replace(
        TESTCLUSTER,
        node_types={"gpu": gpu},
        launchers=Launchers(default="srun", options={"srun": LauncherOptions(mpi="pmi9")}),
        container=Container(runtime="apptainer", mpi="pmix"),
    )
    found = different(site)
    assert {key: one.now for key, one in found.items()} == {
        "node_types.gpu.gpus_per_node": 4,
        "node_types.gpu.memory_gb": 7,
        "launchers.options.srun.mpi": None,
    }
    assert "pmix" in found["launchers.options.srun.mpi"].what
    linear = replace(ANSWERS, config=ANSWERS.config.replace("select/cons_tres", "select/linear"))
    assert different(site, linear)["gpus.directive"].now == "gres"
    assert "gpus.directive" not in different(replace(site, gpus=GpuRequest(directive="gres")), linear)
