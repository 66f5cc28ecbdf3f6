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
