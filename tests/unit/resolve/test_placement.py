"""Which partition and QOS are chosen where nobody names them, why not the others, and what is proposed instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpclaunch.config.job import Resources
from hpclaunch.config.limits import Bin, Limits, Override
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Defaults, NodeType, Site
from hpclaunch.core.spec import JobSpec, LiveNames
from hpclaunch.resolve import spec_of
from hpclaunch.resolve.nodes.placement import unlisted_places
from tests.builders import HOUR, a_case, a_context, a_job, a_site, bundled_site, origin_of, planned, refused

ANY = Defaults(node_type="gpu", walltime=HOUR)


def where(spec: JobSpec) -> tuple[str, str]:
    return spec.partition, spec.qos


def declined(spec: JobSpec, key: str = "partition") -> dict[str, str]:
    return {one.value: one.reason for one in spec.declined if one.key == key}


def choosing(partitions: dict[str, Limits], **changes: Any) -> Site:
    """A site where a partition must be said and none is preferred."""
    return a_site(**{"defaults": ANY, "required": ("partition",), "partitions": partitions, **changes})


def only_next(site: Site, **typed: Any) -> str:
    (fault,) = refused(site, **typed)
    return fault.next


def test_the_cheapest_that_takes_the_request_is_chosen() -> None:
    site = choosing({"dear": Limits(charge_factor=2), "cheap": Limits(charge_factor=0.5), "plain": Limits()})
    spec = planned(site)
    assert origin_of(spec, "partition") == ("cheap", "best fit")
    assert declined(spec) == {"dear": "costs more than cheap", "plain": "costs more than cheap"}


def test_of_equally_cheap_ones_the_sites_default_then_the_first_is_chosen() -> None:
    partitions = {"a": Limits(), "b": Limits()}
    spec = planned(choosing(partitions, defaults=replace(ANY, partition="b")))
    assert origin_of(spec, "partition") == ("b", "site cluster")
    assert declined(spec) == {"a": "would accept the request, but b comes first"}
    assert planned(choosing(partitions)).partition == "a"


def test_a_cheaper_one_than_the_default_is_chosen() -> None:
    partitions = {"usual": Limits(), "cheap": Limits(charge_factor=0.5)}
    assert planned(choosing(partitions, defaults=replace(ANY, partition="usual"))).partition == "cheap"


def test_what_does_not_take_the_request_is_passed_over_with_its_reasons() -> None:
    partitions = {
        "short": Limits(max_walltime=HOUR // 2, max_nodes=1, charge_factor=0.1),
        "cpus": Limits(node_types=("cpu",)),
        "large": Limits(min_nodes=64),
        "fits": Limits(),
    }
    spec = planned(choosing(partitions), nodes=2)
    assert spec.partition == "fits"
    assert declined(spec) == {
        "short": "2 nodes requested; allowed: at most 1 node; walltime 01:00:00 requested; allowed: at most 00:30:00",
        "cpus": "node type gpu requested; allowed: cpu",
        "large": "2 nodes requested; allowed: at least 64 nodes",
    }


def test_one_that_is_only_for_those_who_ask_is_never_chosen_and_taken_when_named() -> None:
    partitions = {
        "preempt": Limits(only_if_asked=True, charge_factor=0.1, note="may be preempted"),
        "quiet": Limits(only_if_asked=True),
        "usual": Limits(),
    }
    spec = planned(choosing(partitions))
    assert spec.partition == "usual"
    assert declined(spec) == {"preempt": "only if named (may be preempted)", "quiet": "only if named"}
    assert origin_of(planned(choosing(partitions), partition="preempt"), "partition") == ("preempt", "--partition")


def test_for_a_shell_one_for_interactive_work_comes_first_if_it_accepts_the_request() -> None:
    partitions = {
        "usual": Limits(charge_factor=0.1),
        "talk": Limits(only_if_asked=True, interactive=True, max_nodes=2),
        "quiet": Limits(only_if_asked=True),
    }
    case = replace(a_case(choosing(partitions), nodes=2), interactive=True)
    spec = spec_of(case)
    assert spec.partition == "talk"
    assert declined(spec) == {"usual": "talk is for interactive work", "quiet": "talk is for interactive work"}
    assert spec_of(replace(case, request=replace(case.request, nodes=3))).partition == "usual"
    assert spec_of(replace(case, request=replace(case.request, partition="quiet"))).partition == "quiet"
    assert spec_of(replace(case, interactive=False)).partition == "usual"


def test_for_a_shell_an_interactive_one_is_taken_also_where_the_site_prefers_none() -> None:
    site = a_site(defaults=ANY, qos={"talk": Limits(only_if_asked=True, interactive=True)})
    case = replace(a_case(site), interactive=True)
    assert (spec_of(case).qos, spec_of(replace(case, interactive=False)).qos) == ("talk", "")


def test_what_a_project_needs_for_a_partition_is_a_warning_where_it_is_chosen_for_it() -> None:
    site = choosing({"small": Limits(max_nodes=1), "large": Limits(permission="apply for it")})
    assert "partition large: apply for it" in planned(site, nodes=2).warnings
    assert not any("apply for it" in one for one in planned(site, nodes=1).warnings)
    assert not any("apply for it" in one for one in planned(site, nodes=2, partition="large").warnings)


@pytest.mark.parametrize("named", [{}, {"partition": "gpu"}])
def test_a_job_with_more_gpus_than_a_user_may_have_at_a_time_is_a_warning(named: dict[str, Any]) -> None:
    site = choosing({"gpu": Limits(max_gpus_per_user=12)})
    said = "a user has at most 12 at a time"
    assert any(said in one and "16 GPUs requested" in one for one in planned(site, nodes=4, **named).warnings)
    assert not any(said in one for one in planned(site, nodes=3, **named).warnings)


def test_nothing_is_declined_where_a_person_chose() -> None:
    assert planned(partition="debug", walltime=60).declined == ()


def test_where_only_those_that_must_be_asked_for_fit_they_are_told_as_such() -> None:
    (fault,) = refused(choosing({"quiet": Limits(only_if_asked=True), "small": Limits(max_nodes=1)}), nodes=2)
    assert fault.what == (
        "no partition accepts 2 gpu nodes for 01:00:00: "
        "quiet (only if named), small (2 nodes requested; allowed: at most 1 node)"
    )
    assert fault.next == "--nodes 1 --partition small would be accepted"


def test_partitions_of_other_nodes_are_not_told_as_reasons() -> None:
    partitions = {"cpus": Limits(node_types=("cpu",)), "gpus": Limits(node_types=("gpu",), max_nodes=1)}
    (fault,) = refused(choosing(partitions), nodes=2)
    assert "cpus" not in fault.what


def test_a_qos_that_is_in_force_by_itself_is_not_written() -> None:
    qos = {"normal": Limits(max_nodes=4, implicit=True), "long": Limits(max_walltime=48 * HOUR, max_nodes=2)}
    site = a_site(qos=qos)
    spec = planned(site)
    assert (spec.qos, "qos" in dict(spec.directives)) == ("", False)
    assert origin_of(spec, "qos") == ("normal", "best fit")
    assert planned(site, qos="normal").qos == "normal"


def test_a_qos_that_is_in_force_by_itself_sets_limits() -> None:
    qos = {"normal": Limits(max_nodes=2, implicit=True), "large": Limits(min_nodes=3, max_nodes=6)}
    site = a_site(qos=qos)
    assert planned(site, nodes=2).qos == ""
    assert planned(site, nodes=3).qos == "large"
    assert only_next(site, nodes=7) == "--nodes 6 --partition batch --qos large would be accepted"
    assert only_next(replace(site, qos={"normal": qos["normal"]}), nodes=3) == (
        "--nodes 2 --partition batch would be accepted"
    )


def test_nothing_is_chosen_where_the_site_neither_prefers_nor_requires_any() -> None:
    spec = planned(a_site(defaults=ANY))
    assert (where(spec), spec.declined) == (("", ""), ())


def test_part_of_a_shared_node_is_cheaper_than_a_whole_one() -> None:
    partitions = {"whole": Limits(whole_nodes=True), "shared": Limits(max_gpus_per_node=2, whole_nodes=False)}
    assert planned(choosing(partitions), tasks_per_node=1).partition == "shared"
    spec = planned(choosing(partitions), tasks_per_node=3)
    assert spec.partition == "whole"
    assert declined(spec) == {"shared": "3 GPUs per node requested; allowed: at most 2 GPUs per node"}


@pytest.mark.parametrize(
    ("partition", "kind", "origin"),
    [
        ("cpus", "cpu", "partition cpus"),  # the partition says it
        ("own", "cpu", "partition own"),  # the node type says it
        ("both", "gpu", "site cluster"),  # the usual one is in it
        ("any", "gpu", "site cluster"),
    ],
)
def test_a_partition_that_is_typed_brings_its_node_type(partition: str, kind: str, origin: str) -> None:
    nodes = a_site().node_types
    partitions = {
        "cpus": Limits(node_types=("cpu",)),
        "own": Limits(),
        "both": Limits(node_types=("cpu", "gpu")),
        "any": Limits(),
    }
    nodes = {**nodes, "cpu": replace(nodes["cpu"], partition="own")}
    spec = planned(choosing(partitions, node_types=nodes), partition=partition)
    assert origin_of(spec, "node type") == (kind, origin)
    assert spec.node_type == kind


def test_a_node_type_that_is_typed_is_not_changed_by_the_partition() -> None:
    site = choosing({"cpus": Limits(node_types=("cpu",)), "gpus": Limits(node_types=("gpu",))})
    (fault,) = refused(site, partition="cpus", node_type="gpu")
    assert str(fault).startswith("cluster partition cpus: node type gpu requested; allowed: cpu")
    assert fault.next == "--partition gpus would be accepted"


@pytest.mark.parametrize(
    ("typed", "proposed"),
    [
        ({"nodes": 12}, "--nodes 8 --partition batch would be accepted"),
        ({"partition": "debug", "nodes": 3, "walltime": 60}, "--partition batch would be accepted"),
        ({"partition": "debug", "walltime": HOUR}, "--partition batch would be accepted"),
        ({"walltime": 30 * HOUR}, "--walltime 1-00:00:00 --partition batch would be accepted"),
        ({"partition": "debgu", "walltime": 60}, "--partition debug would be accepted"),
        ({"partition": "nothing-like-it"}, "--partition batch would be accepted"),
    ],
)
def test_what_would_be_taken_is_proposed(typed: dict[str, Any], proposed: str) -> None:
    assert {fault.next.partition("; or use ")[0] for fault in refused(**typed)} == {proposed}


def test_too_many_nodes_for_the_node_type_are_told_with_what_the_named_qos_takes() -> None:
    qos = {"small": Limits(max_nodes=2), "all": Limits()}
    nexts = {fault.where: fault.next for fault in refused(a_site(qos=qos, partitions={}), nodes=9, qos="small")}
    assert nexts == {
        "cluster qos small": "--nodes 8 --qos all would be accepted",
        "cluster gpu": "--nodes 8 --qos all would be accepted",
    }


def test_a_qos_in_force_by_itself_is_proposed_by_name_to_whoever_named_another() -> None:
    assert (
        only_next(bundled_site("leonardo_booster"), account="m1", qos="boost_qos_dbg", nodes=9)
        == "--partition boost_usr_prod --qos normal would be accepted"
    )


def test_a_qos_that_nothing_here_goes_with_is_to_be_left_out() -> None:
    qos = {"slow": Limits(node_types=("cpu",))}
    assert only_next(a_site(qos=qos), qos="slow") == "--partition batch without qos 'slow' would be accepted"
    nowhere = a_site(qos=qos, partitions={}, defaults=ANY)
    assert only_next(nowhere, qos="slow") == "the same request without qos 'slow' would be accepted"


def test_a_partition_of_several_node_types_is_proposed_with_the_node_type() -> None:
    partitions = {"a": Limits(max_nodes=1), "b": Limits(node_types=("gpu", "cpu"))}
    site = choosing(partitions)
    assert only_next(site, partition="a", node_type="cpu", nodes=2) == (
        "--partition b --node-type cpu would be accepted"
    )
    assert only_next(site, partition="a", nodes=2) == "--partition b would be accepted"


def test_where_nothing_helps_less_is_to_be_asked_for() -> None:
    assert only_next(choosing({"cpus": Limits(node_types=("cpu",))})) == "request fewer nodes or less time"


def test_the_limits_of_partition_and_qos_hold_together() -> None:
    site = a_site(qos={"long": Limits(max_walltime=48 * HOUR, max_nodes=1)}, required=("qos",))
    whats = [fault.what for fault in refused(site, nodes=2, walltime=30 * HOUR)]
    assert whats[0].startswith("no partition accepts 2 gpu nodes for 1-06:00:00: batch (walltime")
    assert whats[1].startswith("no qos accepts 2 gpu nodes for 1-06:00:00: long (2 nodes requested")
    nexts = {fault.next for fault in refused(site, nodes=2, walltime=30 * HOUR)}
    assert nexts == {"--nodes 1 --walltime 1-00:00:00 --partition batch --qos long would be accepted"}


@pytest.mark.parametrize(("kind", "most"), [("gpu", 2), ("cpu", 5)])
def test_a_limit_may_differ_by_node_type(kind: str, most: int) -> None:
    overrides = {"gpu": Override(max_nodes=2), "cpu": Override(max_nodes=5)}
    site = choosing({"all": Limits(max_nodes=3, by_node_type=overrides)})
    assert planned(site, node_type=kind, nodes=most).layout.nodes == most
    (fault,) = refused(site, node_type=kind, nodes=most + 1)
    assert fault.next == (
        f"--nodes {most} --partition all" + (" --node-type cpu" if kind == "cpu" else "") + " would be accepted"
    )


def test_options_of_a_partition_and_its_qos_come_with_them() -> None:
    site = a_site(partitions={"batch": Limits(sbatch=("--exclusive",))}, qos={"low": Limits(sbatch=("--nice=100",))})
    assert {("exclusive", ""), ("nice", "100")} <= set(planned(site, qos="low").directives)
    assert ("nice", "100") not in planned(site).directives


def test_memory_of_the_node_type_is_enough_where_memory_must_be_said() -> None:
    site = a_site(required=("memory",))
    assert only_next(site) == "add --memory"  # settings have no such key
    assert dict(planned(site, memory=4096).directives)["mem"] == "4G"
    node = replace(a_site().node_types["gpu"], request_memory=8192)
    assert dict(planned(replace(site, node_types={"gpu": node})).directives)["mem"] == "8G"


def test_what_a_place_needs_is_said_when_it_is_named_and_its_options_are_those_of_the_node_type() -> None:
    override = {"gpu": Override(sbatch=("--reservation=gpudev",)), "cpu": Override(sbatch=("--reservation=cpudev",))}
    dev = Limits(only_if_asked=True, permission="apply for it", by_node_type=override)
    spec = planned(choosing({"usual": Limits(), "dev": dev}), partition="dev")
    assert dict(spec.directives)["reservation"] == "gpudev"
    assert "partition dev: apply for it" in spec.warnings


def test_an_account_of_other_nodes_is_warned_of() -> None:
    node = replace(a_site().node_types["gpu"], account_ending="@h100")
    site = a_site(node_types={"gpu": node})
    spec = planned(site, account="abc@v100")
    assert spec.account == "abc@v100"
    assert "account abc@v100: those for gpu nodes of cluster end in @h100" in spec.warnings
    assert not [line for line in planned(site, account="abc@h100").warnings if "end in" in line]


def test_an_account_with_the_ending_of_other_nodes_is_warned_of_at_nodes_without_one() -> None:
    plain = a_site().node_types["gpu"]
    site = a_site(node_types={"gpu": plain, "big": replace(plain, account_ending="-gpu")})
    told = "this ending is that of accounts for big nodes; those for gpu nodes have none"
    assert f"account p-gpu: at cluster {told}" in planned(site, account="p-gpu").warnings
    assert not [line for line in planned(site, account="p").warnings if "ending" in line]


def test_row_01_a_partition_from_the_shell_is_chosen_and_named_as_its_origin() -> None:
    outside = a_context(environment={"SBATCH_PARTITION": "debug", "SBATCH_QOS": "low"})
    spec = planned(context=outside, walltime=60)
    assert where(spec) == ("debug", "low")
    assert origin_of(spec, "qos") == ("low", "SBATCH_QOS")


def test_a_partition_from_the_settings_is_held_to_its_limits() -> None:
    (fault,) = refused(users=Settings(partition="debug"))
    assert fault.where == "cluster partition debug"
    assert fault.next == "--partition batch would be accepted"


@pytest.mark.parametrize(
    ("name", "typed", "partition", "qos"),
    [
        ("perlmutter", {}, "", "regular"),
        ("perlmutter", {"tasks_per_node": 1}, "", "shared"),
        ("perlmutter", {"tasks_per_node": 1, "nodes": 2}, "", "regular"),
        ("lumi", {}, "standard-g", ""),
        ("lumi", {"tasks_per_node": 2}, "small-g", ""),
        ("lumi", {"walltime": 50 * HOUR}, "small-g", ""),
        ("lumi", {"node_type": "cpu"}, "standard", ""),
        ("leonardo_booster", {}, "boost_usr_prod", ""),
        ("leonardo_booster", {"nodes": 65}, "boost_usr_prod", "boost_qos_bprod"),
        ("leonardo_booster", {"walltime": 25 * HOUR}, "boost_usr_prod", "boost_qos_lprod"),
        ("frontier", {"walltime": 20 * HOUR}, "extended", ""),
        ("archer2", {}, "gpu", "gpu-exc"),
        ("archer2", {"tasks_per_node": 1}, "gpu", "gpu-shd"),
        ("expanse", {"tasks_per_node": 3}, "gpu-shared", ""),
        ("frontera", {"node_type": "clx", "nodes": 3}, "normal", ""),
        ("frontera", {"node_type": "clx", "nodes": 1}, "small", ""),
    ],
)
def test_where_requests_go_at_real_sites(name: str, typed: dict[str, Any], partition: str, qos: str) -> None:
    spec = planned(bundled_site(name), account="m1", **typed)
    assert where(spec) == (partition, qos)


def test_the_walltime_of_a_job_file_counts() -> None:
    job = a_job(resources=Resources(walltime=25 * HOUR))
    assert only_next_of(job) == "--walltime 1-00:00:00 --partition batch would be accepted"


def only_next_of(job: Any) -> str:
    (fault,) = refused(job=job)
    return fault.next


def test_a_node_without_a_known_number_of_nodes_sets_no_limit() -> None:
    site = a_site(node_types={"gpu": NodeType(title="x", cores_per_node=8)}, partitions={}, defaults=ANY)
    assert planned(site, nodes=100_000).layout.nodes == 100_000


@pytest.mark.parametrize(
    ("partition", "typed", "messages"),
    [
        ("batch,debug", {}, []),
        ("debug,batch", {"nodes": 3}, []),
        (
            "debug,batch",
            {"nodes": 9},
            ["cluster partition debug,batch: 9 nodes requested", "cluster gpu: 9 nodes requested"],
        ),
        ("batch,debgu", {}, ["the site file of cluster lists no partition 'debgu'; did you mean 'debug'?"]),
    ],
)
def test_of_several_partitions_one_that_takes_it_is_enough(
    partition: str, typed: dict[str, Any], messages: list[str]
) -> None:
    words = {"walltime": 60, "partition": partition, **typed}
    if not messages:
        assert dict(planned(**words).directives)["partition"] == partition
        return
    faults = [str(fault) for fault in refused(**words)]
    assert len(faults) == len(messages)
    assert all(message in fault for message, fault in zip(messages, faults, strict=True))


def test_memory_of_the_job_file_is_memory_that_was_said() -> None:
    site = a_site(required=("memory",))
    planned(site, a_job(resources=Resources(memory=1024)))
    (fault,) = refused(site)
    assert fault.what == "cluster requires memory"


def test_a_name_that_the_site_file_does_not_know_is_taken_as_it_is_with_consent() -> None:
    (fault,) = refused(bundled_site("perlmutter"), account="m1", qos="special_m1")
    assert "or use 'special_m1' without a check, with --accept-unverified" in fault.next
    spec = planned(bundled_site("perlmutter"), account="m1", qos="special_m1", accept_unverified=True)
    assert dict(spec.directives)["qos"] == "special_m1"
    assert "qos special_m1 is not in the site file: its limits are not checked" in spec.warnings


def test_that_a_site_has_none_of_a_name_is_said_only_if_its_file_lists_all() -> None:
    (fault,) = refused(a_site(), partition="debgu")
    assert fault.what == "the site file of cluster lists no partition 'debgu'; did you mean 'debug'?"
    (fault,) = refused(a_site(complete=("partition",)), partition="debgu")
    assert fault.what == "cluster has no partition 'debgu'; did you mean 'debug'?"
    assert fault.next.endswith("; or use 'debgu' without a check, with --accept-unverified")


def test_a_name_that_the_scheduler_itself_has_needs_no_consent() -> None:
    live = {"qos": LiveNames(names=("normal", "special_m1", "shared"))}
    words: dict[str, Any] = {"account": "m1", "context": a_context(live=live)}
    spec = planned(bundled_site("perlmutter"), qos="Special_M1", **words)
    assert dict(spec.directives)["qos"] == "Special_M1"
    what = "qos Special_M1 is not in the site file, but Slurm has it: its limits are not checked"
    assert what in spec.warnings
    (fault,) = refused(bundled_site("perlmutter"), qos="special_m2", **words)
    assert fault.what == "Slurm has no qos 'special_m2'; did you mean 'special_m1'?"
    assert fault.allowed == "normal, special_m1, shared" and "--accept-unverified" not in fault.next


def test_a_hidden_partition_of_the_scheduler_may_be_named_and_is_not_proposed() -> None:
    context = a_context(live={"partition": LiveNames(names=("batch", "secret"), hidden=("secret",))})
    spec = planned(partition="secret", context=context)
    assert dict(spec.directives)["partition"] == "secret"
    what = "partition secret is not in the site file, but Slurm has it: its nodes are taken for gpu nodes (--node-type)"
    assert what in spec.warnings
    (fault,) = refused(partition="secrte", context=context)
    assert (fault.what, fault.allowed) == ("Slurm has no partition 'secrte'", "batch")


@pytest.mark.parametrize(
    ("typed", "unlisted"),
    [
        ({}, {}),
        ({"partition": "debug"}, {}),
        ({"partition": "debug,new,old"}, {"partition": ["new", "old"]}),
        ({"qos": "high"}, {}),  # a file without any QOS says nothing of them
        ({"partition": "new", "accept_unverified": True}, {}),
    ],
)
def test_which_names_are_asked_for(typed: dict[str, Any], unlisted: dict[str, list[str]]) -> None:
    assert unlisted_places(a_case(**typed)) == unlisted


LONG = Limits(max_walltime=7 * 24 * HOUR, max_nodes=16, lifts=("max_walltime", "max_nodes"))


def with_qos(partition: Limits, **qos: Limits) -> Site:
    node = replace(a_site().node_types["gpu"], nodes=64)
    return choosing({"gpu": partition}, node_types={"gpu": node}, qos={"normal": Limits(), **qos})


@pytest.mark.parametrize(
    ("partition", "qos", "typed"),
    [
        (Limits(max_walltime=24 * HOUR, max_nodes=2), LONG, {"walltime": 72 * HOUR, "nodes": 4}),
        (Limits(by_node_type={"gpu": Override(max_nodes=2)}), LONG, {"nodes": 4}),
        (Limits(bins=(Bin(max_nodes=2, max_walltime=HOUR),)), LONG, {"nodes": 2, "walltime": 2 * HOUR}),
        (Limits(min_nodes=4), Limits(lifts=("min_nodes",)), {"nodes": 1}),
        (Limits(max_walltime=48 * HOUR, lifts=("max_walltime",)), Limits(max_walltime=HOUR), {"walltime": 2 * HOUR}),
    ],
)
def test_a_limit_that_the_named_qos_or_the_partition_lifts_refuses_nothing(
    partition: Limits, qos: Limits, typed: dict[str, Any]
) -> None:
    spec = planned(with_qos(partition, long=qos), qos="long", partition="gpu", **typed)
    assert where(spec) == ("gpu", "long")
    assert where(planned(with_qos(partition, long=qos), qos="long", **typed)) == ("gpu", "long")


def test_what_the_qos_itself_refuses_is_refused_and_a_limit_without_a_flag_too() -> None:
    site = with_qos(Limits(max_walltime=24 * HOUR), long=LONG)
    (fault,) = refused(site, qos="long", partition="gpu", walltime=8 * 24 * HOUR)
    assert (fault.where, fault.allowed) == ("cluster qos long", "at most 7-00:00:00")
    assert fault.next == "--walltime 7-00:00:00 --partition gpu --qos long would be accepted"
    plain = with_qos(Limits(max_walltime=24 * HOUR), long=replace(LONG, lifts=("max_nodes",)))
    (fault,) = refused(plain, qos="long", partition="gpu", walltime=72 * HOUR)
    assert (fault.where, fault.allowed) == ("cluster partition gpu", "at most 1-00:00:00")


def test_a_qos_that_only_slurm_knows_lifts_the_limits_of_a_partition_as_slurm_says() -> None:
    site = replace(with_qos(Limits(max_walltime=24 * HOUR)), qos={})
    typed: dict[str, Any] = {"qos": "High", "walltime": 72 * HOUR}
    assert unlisted_places(a_case(site, **typed)) == {"qos": ["High"]}
    assert unlisted_places(a_case(site, qos="High", walltime=HOUR)) == {}
    live = LiveNames(names=("high",), lifts={"high": ("max_walltime",)})
    spec = planned(site, context=a_context(live={"qos": live}), **typed)
    assert where(spec) == ("gpu", "High")
    what = "qos High is not in the site file: limits of partition gpu are lifted, as Slurm says of this QOS"
    assert what in spec.warnings
    unlifting = replace(live, lifts={"high": ("max_nodes",)})
    assert refused(site, context=a_context(live={"qos": unlifting}), **typed)


def test_with_consent_an_unlisted_qos_lifts_the_limits_of_a_partition() -> None:
    site = replace(with_qos(Limits(max_walltime=24 * HOUR)), qos={})
    assert refused(site, qos="high", walltime=72 * HOUR)
    assert where(planned(site, qos="high", walltime=72 * HOUR, accept_unverified=True)) == ("gpu", "high")


def test_a_qos_that_lifts_the_limit_is_proposed() -> None:
    site = with_qos(Limits(max_walltime=24 * HOUR), long=LONG)
    (fault,) = refused(site, qos="normal", partition="gpu", walltime=72 * HOUR)
    assert fault.next == "--partition gpu --qos long would be accepted"


def test_the_gpus_of_a_whole_job_have_a_least_number_too() -> None:
    site = replace(with_qos(Limits()), qos={"large": Limits(min_gpus=16)})
    (fault,) = refused(site, qos="large", partition="gpu", nodes=2)
    assert (fault.what, fault.allowed) == ("8 GPUs requested", "at least 16 GPUs")
    assert fault.next.startswith("--nodes 4 ")
    assert planned(site, qos="large", partition="gpu", nodes=4).qos == "large"


SIZES = {
    "x4": NodeType(title="4", cores_per_node=64, gpus_per_node=4, nodes=4),
    "x8": NodeType(title="8", cores_per_node=128, gpus_per_node=8, nodes=2),
    "x16": NodeType(title="16", cores_per_node=128, gpus_per_node=16, nodes=1),
    "apart": NodeType(title="8", cores_per_node=128, gpus_per_node=8, nodes=2, partition="batch"),
}


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ({}, "x4"),
        ({"gpus_per_node": 4}, "x4"),
        ({"gpus_per_node": 8}, "x8"),
        ({"gpus_per_node": 9, "tasks_per_node": 1}, "x16"),
        ({"gpus_per_node": 2, "tasks_per_node": 2, "node_type": "x8"}, "x8"),
    ],
)
def test_a_number_of_gpus_chooses_the_node_type_that_it_selects(typed: dict[str, Any], chosen: str) -> None:
    site = a_site(node_types=SIZES, defaults=Defaults(node_type="x4", walltime=HOUR), partitions={"batch": Limits()})
    spec = planned(site, **typed)
    assert spec.node_type == chosen
    assert dict(spec.directives)["gpus-per-node"] == str(typed.get("gpus_per_node", 4))


def test_a_number_that_no_node_type_of_the_partition_has_is_refused() -> None:
    site = a_site(node_types=SIZES, defaults=Defaults(node_type="x4", walltime=HOUR), partitions={"batch": Limits()})
    (fault,) = refused(site, gpus_per_node=17)
    assert (fault.what, fault.allowed) == ("17 GPUs per node requested", "at most 4")
