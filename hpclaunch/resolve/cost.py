"""The most that a run can cost: a run is charged until it ends, at the latest at its walltime."""

from __future__ import annotations

from hpclaunch.config.site import Charging, NodeType, Site
from hpclaunch.core.spec import Cost, Layout
from hpclaunch.core.units import count, format_walltime
from hpclaunch.resolve.placement import Placement
from hpclaunch.resolve.sizing import Sizing

_HOUR = 3600


def cost_of(site: Site, sizing: Sizing, runs: int = 1) -> Cost | None:
    """Return the highest cost of all ``runs``, in the site's unit, or in node-, GPU- or core-hours without a rate.

    Amount = counted units x hours x rate x charge factors of partition and QOS (source: the sites' charging pages).
    None without a scheduler or a walltime, and where the site's charging is not known.
    """
    layout, placement, node = sizing.layout, sizing.placement, site.node_types[sizing.node_type]
    if not site.scheduler_row.has_queue or not placement.walltime or "charging" in site.unverified:
        return None
    charging = node.charging or site.charging or Charging(unit="node-hour", counts="node")
    amount = runs * _units_charged(charging.counts, node, layout) * placement.walltime / _HOUR
    factors = (charging.rate, *(limits.charge_factor for limits in placement.limits))
    for factor in factors:
        amount *= 1.0 if factor is None else factor
    in_its_unit = charging.rate is not None or _is_plain_hour(charging, site)
    return Cost(
        amount=round(amount, 4),
        unit=charging.unit if in_its_unit else f"{charging.counts}-hour",
        note="; ".join([_runs_in_words(sizing, runs), *_left_out(site, charging, placement)]),
    )


def _is_plain_hour(charging: Charging, site: Site) -> bool:
    """Whether the unit is the hour of the counted thing, which needs no rate; not if a rate may be missing."""
    may_be_missing = charging.rate is None and "charging.rate" in site.unverified
    return charging.unit.lower() == f"{charging.counts}-hour" and not may_be_missing


def _runs_in_words(sizing: Sizing, runs: int) -> str:
    many = f"{runs} runs x " if runs > 1 else ""
    return f"{many}{count(sizing.layout.nodes, 'node')} x {format_walltime(sizing.placement.walltime)}"


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
