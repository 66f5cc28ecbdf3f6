"""A site in a line of a list: its GPUs, and what essential its file does not have."""

from __future__ import annotations

import re

from hpclaunch.config.site import NodeType, Site
from hpclaunch.core.units import count


def lacks(site: Site) -> list[str]:
    """Return which essential keys the file of a site with a queue lacks; a run there needs ``--accept-unverified``."""
    if not site.scheduler_row.has_queue:
        return []
    with_gpus = any(node.gpus_per_node for node in site.node_types.values())
    missing = [("the launcher", site.launchers is None), ("how GPUs are asked for", site.gpus is None and with_gpus)]
    return [what for what, absent in missing if absent]


def gpus_in_short(site: Site) -> str:
    """Return ``4 x A100 40 GB`` for the usual node type with GPUs, and how many other kinds with GPUs there are."""
    usual = site.node_types[site.defaults.node_type]
    kinds = [node for node in site.node_types.values() if node.gpus_per_node]
    if not kinds:
        return ""
    first = usual if usual.gpus_per_node else kinds[0]
    more = f" (+{count(len(kinds) - 1, 'type')})" if len(kinds) > 1 else ""
    return _gpus(first) + more


def _gpus(node: NodeType) -> str:
    """Return number, model without its maker and form, and memory; a die that counts as a GPU stays a die."""
    model = node.gpu_model or "GPU"
    die = " die" if "dies" in model else ""
    short = re.sub(r"^(NVIDIA|AMD)( Instinct)? | *\(.*\)$", "", model)
    memory = f" {node.gpu_memory_gb} GB" if node.gpu_memory_gb else ""
    return f"{node.gpus_per_node} x {short}{die}{memory}"
