"""What a run costs as the site charges it: the price of an hour, the least of a job, the most of a run."""

from __future__ import annotations

from hpclaunch.config.site import Charging, NodeType, Site
from hpclaunch.core.records import record
from hpclaunch.core.spec import Cost, Layout
from hpclaunch.core.units import count, format_walltime
from hpclaunch.resolve.nodes.placement import Placement
from hpclaunch.resolve.nodes.sizing import Sizing

_HOUR = 3600


@record
class Price:
    """The price of an hour of a job, in ``unit``; every job counts for ``shortest_s`` and costs ``least`` at least.

    ``notes``: what the price does not contain because it is not known.
    """

    per_hour: float
    unit: str
    shortest_s: int = 0
    least: float = 0.0
    notes: tuple[str, ...] = ()

    def amount(self, seconds: float) -> float:
        """Return the charge for a job of so many seconds; where hours are free, a short job is too."""
        return max(self.least if self.per_hour else 0.0, self.per_hour * max(seconds, self.shortest_s) / _HOUR)


def is_charging_known(site: Site) -> bool:
    """Whether runs at a site have a price: it has a scheduler, and its charging is known."""
    return site.scheduler_row.has_queue and "charging" not in site.unverified


def price_of(site: Site, sizing: Sizing) -> Price | None:
    """Return the price of a job, in the site's unit, or in node-, GPU- or core-hours without a rate.

    Price = counted units x rate x charge factors of partition and QOS (source: the sites' charging pages).
    None without a scheduler, and where the site's charging is not known.
    """
    layout, placement, node = sizing.layout, sizing.placement, site.node_types[sizing.node_type]
    if not is_charging_known(site):
        return None
    charging = node.charging or site.charging or Charging(unit="node-hour", counts="node")
    per_hour = _units_charged(charging.counts, node, layout)
    for factor in (charging.rate, *(limits.charge_factor for limits in placement.limits)):
        per_hour *= 1.0 if factor is None else factor
    in_its_unit = charging.rate is not None or _is_plain_hour(charging, site)
    return Price(
        per_hour=per_hour,
        unit=charging.unit if in_its_unit else f"{charging.counts}-hour",
        shortest_s=charging.shortest or 0,
        least=(charging.least or 0.0) if in_its_unit else 0.0,
        notes=tuple(_left_out(site, charging, placement)),
    )


def cost_of(site: Site, sizing: Sizing, runs: int = 1) -> Cost | None:
    """Return the highest cost of all ``runs``: each is charged until it ends, at the latest at its walltime.

    None without a scheduler or a walltime, where the site's charging is not known, and where it counts the components
    of a heterogeneous job in different units. Source: ``price_of``.
    """
    prices, walltime = [price_of(site, one) for one in sizing.components], sizing.placement.walltime
    known = [price for price in prices if price is not None]
    if not walltime or len(known) < len(prices) or len({price.unit for price in known}) > 1:
        return None
    notes = dict.fromkeys(note for price in known for note in price.notes)
    return Cost(
        amount=round(runs * sum(price.amount(walltime) for price in known), 4),
        unit=known[0].unit,
        note="; ".join([_runs_in_words(sizing, runs), *notes]),
    )


def _is_plain_hour(charging: Charging, site: Site) -> bool:
    """Whether the unit is the hour of the counted thing, which needs no rate; not if a rate may be missing."""
    may_be_missing = charging.rate is None and "charging.rate" in site.unverified
    return charging.unit.lower() == f"{charging.counts}-hour" and not may_be_missing


def _runs_in_words(sizing: Sizing, runs: int) -> str:
    many, nodes = f"{runs} runs x " if runs > 1 else "", sum(one.layout.nodes for one in sizing.components)
    return f"{many}{count(nodes, 'node')} x {format_walltime(sizing.placement.walltime)}"


def _left_out(site: Site, charging: Charging, placement: Placement) -> list[str]:
    """Return what the amount leaves out because it is unknown."""
    notes = []
    if charging.rate is None and not _is_plain_hour(charging, site):
        notes.append(f"charged in {charging.unit}s, at a rate that is not in the site file")
    for family, name in (("partitions", placement.partition), ("qos", placement.qos)):
        if f"{family}.{name}.charge_factor" in site.unverified:
            notes.append(f"without the charge factor of {name}, which is not in the site file")
    return notes


def _units_charged(counts: str, node: NodeType, layout: Layout) -> float:
    """Return the number of charged nodes, GPUs or cores; a part of a shared node counts by its GPUs."""
    part = layout.gpus_per_node / node.gpus_per_node if node.gpus_per_node and not layout.whole_nodes else 1.0
    if counts == "gpu":
        return layout.nodes * (node.gpus_per_node if layout.whole_nodes else layout.gpus_per_node)
    if counts == "core":
        used = layout.tasks_per_node * layout.cores_per_task
        return layout.nodes * ((node.cores_per_node or used) if layout.whole_nodes else used)
    return layout.nodes * (part or 1.0)
