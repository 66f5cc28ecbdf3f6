"""The most that a run can cost: a run is charged until it ends, at the latest at its walltime."""

from __future__ import annotations

from hpclaunch.config.site import Charging, NodeType, Site
from hpclaunch.core.spec import Cost, Layout
from hpclaunch.core.units import count, format_walltime
from hpclaunch.resolve.sizing import Sizing

_HOUR = 3600


def cost_of(site: Site, sizing: Sizing, runs: int = 1) -> Cost | None:
    """Return the highest cost of all ``runs``, in the site's unit, or in node-, GPU- or core-hours without a rate.

    Amount = counted units x hours x rate x charge factors of partition and QOS (source: the sites' charging pages).
    None without a scheduler or a walltime, and where the site's charging is not known.
    """
    layout, placement = sizing.layout, sizing.placement
    if not site.scheduler_row.has_queue or not placement.walltime or "charging" in site.unverified:
        return None
    charging = site.node_types[sizing.node_type].charging or site.charging or Charging(unit="node-hour", counts="node")
    rate, known = charging.rate, charging.rate is not None or "charging.rate" not in site.unverified
    counted = _units_charged(charging.counts, site.node_types[sizing.node_type], layout)
    amount = runs * counted * placement.walltime / _HOUR * (1.0 if rate is None else rate)
    for limits in placement.limits:
        amount *= 1.0 if limits.charge_factor is None else limits.charge_factor
    plain = f"{charging.counts}-hour"
    named = charging.unit.lower() == plain and known
    unit = charging.unit if rate is not None or named else plain
    many = f"{runs} runs x " if runs > 1 else ""
    notes = [many + f"{count(layout.nodes, 'node')} x {format_walltime(placement.walltime)}"]
    if rate is None and not named:
        notes.append(f"charged in {charging.unit}s, at a rate that the site file does not know")
    for family, name in (("partitions", placement.partition), ("qos", placement.qos)):
        if f"{family}.{name}.charge_factor" in site.unverified:
            notes.append(f"without the charge factor of {name}, which the site file does not know")
    return Cost(amount=round(amount, 4), unit=unit, note="; ".join(notes))


def _units_charged(counts: str, node: NodeType, layout: Layout) -> float:
    """Return how many nodes, GPUs or cores the site charges for; a part of a shared node counts by its GPUs."""
    part = layout.gpus_per_node / node.gpus_per_node if node.gpus_per_node and not layout.whole_nodes else 1.0
    if counts == "gpu":
        return layout.nodes * (node.gpus_per_node if layout.whole_nodes else layout.gpus_per_node)
    if counts == "core":
        used = layout.tasks_per_node * layout.cores_per_task
        return layout.nodes * ((node.cores_per_node or used) if layout.whole_nodes else used)
    return layout.nodes * (part or 1.0)
