"""A site on one line of a list: its GPUs, and the essential keys that its file lacks."""

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
    """Return ``4 x A100 40 GB`` for the usual node type with GPUs, and the number of other node types with GPUs."""
    usual = site.node_types[site.defaults.node_type]
    gpu_node_types = [node for node in site.node_types.values() if node.gpus_per_node]
    if not gpu_node_types:
        return ""
    first = usual if usual.gpus_per_node else gpu_node_types[0]
    more = f" (+{count(len(gpu_node_types) - 1, 'type')})" if len(gpu_node_types) > 1 else ""
    return _gpus(first) + more


def _gpus(node: NodeType) -> str:
    """Return number, model (without maker and form factor) and memory. A GPU that is one die of a card is called so."""
    model = node.gpu_model or "GPU"
    die = " die" if "dies" in model else ""
    short = re.sub(r"^(NVIDIA|AMD)( Instinct)? | *\(.*\)$", "", model)
    memory = f" {node.gpu_memory_gb} GB" if node.gpu_memory_gb else ""
    return f"{node.gpus_per_node} x {short}{die}{memory}"
