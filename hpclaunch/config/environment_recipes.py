"""What a site's file tells of new environments: whose GPUs they are for, and what must be typed; it builds none."""

from __future__ import annotations

import re

from hpclaunch.config.site import EnvironmentRecipe, NodeType, Site
from hpclaunch.core.spec import PYTORCH

NVIDIA, AMD = "nvidia", "amd"


def maker_of_gpus(node: NodeType) -> str | None:
    """Return who made the GPUs of a node: empty if it has none that can compute, None if the file does not say."""
    if not node.gpus_per_node or node.stand_in_gpus:
        return ""
    words = re.findall("[a-z]+", (node.gpu_model or "").lower())
    return next((maker for maker in (NVIDIA, AMD) if maker in words), None)


_MACHINES = {
    "epyc": "x86_64",
    "xeon": "x86_64",
    "grace": "aarch64",
    "a64fx": "aarch64",
    "power9": "ppc64le",
    "gh200": "aarch64",
    "gb200": "aarch64",
    "gb300": "aarch64",
    "mi300a": "x86_64",
}
"""A word in a processor's name, or in that of a GPU on one chip with its processor -> the machine whose programs it
runs, as uname -m prints it."""


def machine_of(node: NodeType) -> str:
    """Return the machine (``aarch64``) that a node's processor is; empty if the file does not tell it."""
    words = re.findall("[a-z0-9]+", f"{node.cpu or ''} {node.gpu_model or ''}".lower())
    return next((_MACHINES[word] for word in words if word in _MACHINES), "")


def is_other_machine(site: Site, node_type: str) -> bool:
    """Whether nodes have a processor for which nothing can be built where the site's usual nodes' software is."""
    usual, own = (machine_of(site.node_types[name]) for name in (site.defaults.node_type, node_type))
    return bool(usual and own) and usual != own


def recipe_of(site: Site, framework: str) -> EnvironmentRecipe:
    """Return the centre's recipe for a framework; a plain virtual environment where it has none."""
    return site.recipes.get(framework, EnvironmentRecipe(kind="venv"))


def wheels_apart(recipe: EnvironmentRecipe, framework: str, gpus: str) -> str:
    """Return the builds of a framework that are in a package index of their own (``cu126``); empty: the usual index.

    PyTorch has an index for each version of CUDA and ROCm; what stands in the usual one is for CUDA (its page "Start
    Locally").
    """
    if recipe.own_wheels or recipe.kind == "container":
        return ""
    return recipe.wheels or ("ROCm" if (framework, gpus) == (PYTORCH, AMD) else "")
