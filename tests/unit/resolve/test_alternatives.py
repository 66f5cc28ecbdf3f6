"""The nearest request that a site would accept, against all requests that it accepts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from hpclaunch.config.limits import Limits
from hpclaunch.config.site import Defaults, Site
from hpclaunch.resolve.nodes.alternatives import Wanted, alternative, implied_node_type, longest_piece
from hpclaunch.resolve.nodes.limits import Ask, violations
from tests.builders import HOUR, a_site

GPU = Ask(node_type="gpu", nodes=2, gpus=4, walltime=HOUR)
PARTITIONS = {
    "batch": Limits(max_nodes=8, max_walltime=24 * HOUR, node_types=("gpu",)),
    "debug": Limits(max_nodes=2, max_walltime=HOUR // 2),
    "wide": Limits(min_nodes=4, max_walltime=2 * HOUR, node_types=("gpu",)),
    "big": Limits(max_walltime=100 * HOUR, only_if_asked=True),
    "cpu": Limits(max_nodes=16, max_walltime=24 * HOUR, node_types=("cpu",)),
}


def wanted(site: Site, named: dict[str, str] | None = None, **changes: int | str) -> Wanted:
    return Wanted(site=site, ask=replace(GPU, **changes), named=named or {})


@pytest.fixture
def site() -> Site:
    return a_site(partitions=PARTITIONS)


@pytest.mark.parametrize(
    ("named", "changes", "words"),
    [
        ({}, {"nodes": 9}, "--nodes 8 --partition batch would be accepted"),
        ({}, {"walltime": 25 * HOUR}, "--walltime 1-00:00:00 --partition batch would be accepted"),
        ({"partition": "debug"}, {"nodes": 3}, "--partition batch would be accepted"),
        ({"partition": "wide"}, {}, "--partition batch would be accepted"),
        ({"partition": "debug"}, {"nodes": 1, "walltime": HOUR // 2 + 60}, "--partition batch would be accepted"),
        ({"partition": "big"}, {"walltime": 101 * HOUR}, "--walltime 4-04:00:00 --partition big would be accepted"),
    ],
)
def test_the_flags_name_the_nearest_request(
    site: Site, named: dict[str, str], changes: dict[str, int], words: str
) -> None:
    assert alternative(wanted(site, named, **changes)).startswith(words)


def test_a_node_type_is_named_where_the_partition_alone_would_mean_another(site: Site) -> None:
    asked = wanted(site, node_type="cpu", nodes=17, gpus=0)
    assert alternative(asked) == "--nodes 16 --partition cpu would be accepted"
    assert implied_node_type(site, "cpu") == "cpu"
    # The site's default is gpu, which debug has as well: without --node-type the request would mean that one.
    alone = a_site(
        partitions={"debug": PARTITIONS["debug"]}, defaults=Defaults(node_type="gpu", partition="debug", walltime=HOUR)
    )
    assert alternative(wanted(alone, node_type="cpu", nodes=3, gpus=0)) == (
        "--nodes 2 --walltime 00:30:00 --partition debug --node-type cpu would be accepted"
    )


def test_a_partition_that_is_open_only_if_named_is_never_suggested_by_itself(site: Site) -> None:
    assert "big" not in alternative(wanted(site, walltime=50 * HOUR))


def test_where_nothing_helps_smaller_requests_are_advised() -> None:
    own = Limits(only_if_asked=True, max_nodes=1, node_types=("cpu",))
    closed = a_site(partitions={"own": own}, defaults=Defaults(node_type="gpu", partition="own", walltime=HOUR))
    assert alternative(wanted(closed)) == "request fewer nodes or less time"


def test_a_named_qos_that_refuses_is_left_out_of_the_suggestion() -> None:
    site = a_site(partitions=PARTITIONS, qos={"long": Limits(min_nodes=100), "usual": Limits(only_if_asked=True)})
    words = alternative(wanted(site, {"partition": "batch", "qos": "long"}))
    assert words == "--partition batch without qos 'long' would be accepted"


@pytest.mark.parametrize("named", [{}, {"partition": "batch"}, {"partition": "debug"}, {"partition": "wide"}])
@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 9])
def test_the_longest_piece_is_the_longest_walltime_that_is_accepted(
    site: Site, named: dict[str, str], nodes: int
) -> None:
    asked = wanted(site, named, nodes=nodes, walltime=48 * HOUR)
    places = [named["partition"]] if named else [name for name, one in PARTITIONS.items() if not one.only_if_asked]
    whole_site = Limits(max_nodes=site.node_types["gpu"].nodes)
    minutes = range(30 * 60, 48 * HOUR + 1, 30 * 60)
    accepted = [
        walltime
        for walltime, name in itertools.product(minutes, places)
        if not violations(PARTITIONS[name], replace(asked.ask, walltime=walltime))
        and not violations(whole_site, replace(asked.ask, walltime=walltime))
    ]
    assert longest_piece(asked) == max(accepted, default=0)
