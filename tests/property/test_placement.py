"""What planning proposes in place of a request that limits refuse is never refused for a limit itself."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from hpclaunch.config.catalog import SITE
from hpclaunch.config.limits import Limits
from hpclaunch.config.settings import Settings
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault
from hpclaunch.core.units import parse_walltime
from hpclaunch.resolve import resolve
from hpclaunch.resolve.nodes.limits import Ask, violations
from tests.builders import BUNDLED, a_case, a_context, bundled_site

PROPOSAL = re.compile(
    r"(?:the same request|(?P<flags>.*?)) ?(?:without (?P<family>partition|qos) '[^']+' )?would be accepted"
)
SITES = sorted(
    found.name for found in BUNDLED.names(SITE) if found.origin == "bundled" and found.name not in ("local",)
)
THREE_TIMES = 3
"""The number of examples, in proportion to the other properties: there are over twenty sites."""


@cache
def site_of(name: str) -> Site:
    return bundled_site(name)


def around_the_limits(numbers: set[int]) -> list[int]:
    """Every limit, and one less and one more: there the mistakes are."""
    return sorted({number + step for number in numbers for step in (-1, 0, 1) if number + step > 0})


def all_limits(site: Site) -> list[Limits]:
    members = [*site.partitions.values(), *site.qos.values()]
    return [one.of(kind) for one in members for kind in site.node_types]


def interesting_nodes(site: Site) -> list[int]:
    numbers = {1, 5, 100_000} | {node.nodes for node in site.node_types.values() if node.nodes}
    for one in all_limits(site):
        numbers |= {number for number in (one.min_nodes, one.max_nodes) if number} | {b.max_nodes for b in one.bins}
    return around_the_limits(numbers)


def interesting_walltimes(site: Site) -> list[int]:
    numbers = {60, 3600, 30 * 86400}
    for one in all_limits(site):
        numbers |= {b.max_walltime for b in one.bins} | ({one.max_walltime} if one.max_walltime else set())
    return around_the_limits(numbers)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Site, dict[str, Any]]:
    """A bundled Slurm site, and what somebody might type there."""
    site = site_of(draw(st.sampled_from(SITES)))
    maybe = {
        "node_type": [*site.node_types],
        "nodes": interesting_nodes(site),
        "walltime": interesting_walltimes(site),
        "partition": [*site.partitions, "no-such-partition"],
        "qos": [*site.qos, "no-such-qos"],
        "tasks_per_node": [1, 2, 3, 4, 8, 16, 64],
        "gpus_per_node": [0, 1, 2, 3, 4, 8],
    }
    offered = {name: [None, *values] for name, values in maybe.items()}
    return site, {name: draw(st.sampled_from(values)) for name, values in offered.items()}


def reasons(site: Site, typed: dict[str, Any], users: Settings | None = None, **variables: str) -> list[Fault]:
    typed = {"account": "m1234", "accept_unverified": True, **typed}
    return resolve(a_case(site, None, users, a_context(environment=variables), **typed))[1]


def of_limits(site: Site, faults: list[Fault]) -> list[Fault]:
    """Those that a partition, a QOS or the number of nodes of the type is the reason of."""
    families = (f"{site.name} partition", f"{site.name} qos")
    return [
        fault
        for fault in faults
        if fault.where.startswith(families)
        or (fault.where.startswith(f"{site.name} ") and re.match(r"\d+ nodes? requested", fault.what))
    ]


def as_proposed(words: str | None) -> dict[str, Any]:
    """Read the flags of a proposal as the command line does."""
    flags = (words or "").split()
    assert len(flags) % 2 == 0, words
    found: dict[str, Any] = {}
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        name = flag.removeprefix("--").replace("-", "_")
        assert name in ("node_type", "nodes", "walltime", "partition", "qos", "tasks_per_node", "gpus_per_node"), words
        numbers = {"walltime": parse_walltime, "partition": str, "qos": str, "node_type": str}
        found[name] = numbers.get(name, int)(value)
    return found


def check_proposals(site: Site, typed: dict[str, Any], users: Settings | None = None, **variables: str) -> None:
    faults = reasons(site, typed, users, **variables)
    others = [fault.what for fault in faults if fault not in of_limits(site, faults)]
    for fault in of_limits(site, faults):
        match = PROPOSAL.fullmatch(fault.next)
        event("a proposal" if match else "no proposal")
        if match is None:
            continue
        proposed = {**typed, **as_proposed(match["flags"]), **({match["family"]: None} if match["family"] else {})}
        if match["family"] == "qos":
            variables = {}
        left = [str(one) for one in reasons(site, proposed, users, **variables) if one.what not in others]
        assert left == [], f"{site.name}: {typed} was refused ({fault}); that is refused, too"


@settings(max_examples=THREE_TIMES * settings().max_examples)
@given(requests())
def test_what_is_proposed_is_taken(request: tuple[Site, dict[str, Any]]) -> None:
    site, typed = request
    check_proposals(site, {name: value for name, value in typed.items() if value is not None})


@given(requests())
def test_what_is_proposed_is_taken_where_settings_and_variables_name_the_rest(
    request: tuple[Site, dict[str, Any]],
) -> None:
    site, drawn = request
    typed = {name: value for name, value in drawn.items() if value is not None}
    said = {name: typed.pop(name) for name in ("partition", "node_type", "walltime") if name in typed}
    variables = {"SBATCH_QOS": typed.pop("qos")} if "qos" in typed else {}
    check_proposals(site, typed, Settings(**said), **variables)


@given(requests())
def test_what_is_chosen_takes_the_request_and_every_other_is_declined_with_a_reason(
    request: tuple[Site, dict[str, Any]],
) -> None:
    site, drawn = request
    typed = {name: value for name, value in drawn.items() if value is not None and name not in ("partition", "qos")}
    spec, faults = resolve(a_case(site, account="m1234", accept_unverified=True, **typed))
    if faults:
        event("refused")
        return
    chosen = {choice.key: choice.value for choice in spec.choices}
    ask = Ask(
        node_type=spec.node_type,
        nodes=spec.layout.nodes,
        gpus=min(spec.layout.gpus_per_node, spec.layout.tasks_per_node),
        walltime=spec.walltime,
    )
    for family, known in (("partition", site.partitions), ("qos", site.qos)):
        others = {one.value: one.reason for one in spec.declined if one.key == family}
        if family in chosen and known:
            assert violations(known[chosen[family]], ask) == []
            assert not known[chosen[family]].only_if_asked
            assert others.keys() == known.keys() - {chosen[family]}
            assert all(others.values())
