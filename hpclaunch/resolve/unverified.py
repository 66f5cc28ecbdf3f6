"""Which of the site's values that a script uses are not the centre's own word, and which essential ones are missing."""

from __future__ import annotations

from hpclaunch.config.provenance import longest
from hpclaunch.config.site import Site
from hpclaunch.core.spec import Layout
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.sizing import Sizing


def unverified_of(case: Case, layout: Layout, decisions: Decisions) -> list[str]:
    """Return how essential keys that the site file lacks were filled in; without consent each is a fault."""
    site, gaps = case.site, []
    if site.scheduler == "slurm" and site.launchers is None:
        gaps.append(("the launcher", "srun", site.unverified.get("launchers", "")))
    if site.scheduler == "slurm" and site.gpus is None and layout.gpus_per_node:
        gaps.append(("how GPUs are asked for", "--gpus-per-node", site.unverified.get("gpus", "")))
    if not case.request.accept_unverified:
        for what, taken, why in gaps:
            decisions.fault(
                f"{what} is not verified for {site.name}" + (f" ({why})" if why else ""),
                next=f"--accept-unverified takes Slurm's usual way ({taken}); or a site file of your own that says it",
            )
        return []
    return [f"Not verified for this site: {what}; Slurm's usual way is taken ({taken})." for what, taken, _ in gaps]


def third_party_of(site: Site, sizing: Sizing, launcher: str, image: str | None) -> list[str]:
    """Return the third-party values among those that this script uses."""
    placement = sizing.placement
    used = [f"node_types.{sizing.node_type}", "required", "charging", "gpus", "task_directives", "environment"]
    used += ["folders", "sbatch", "defaults", "login_shell", "launchers.default", f"launchers.options.{launcher}"]
    used += ["launchers.options.srun"] if launcher == "torchrun" else []  # which starts it
    used += [f"partitions.{placement.partition}"] if placement.partition else []
    used += [f"qos.{placement.qos}"] if placement.qos else []
    used += ["container"] if image else []
    relevant = [key for key in site.third_party if longest(key, used) or any(longest(one, [key]) for one in used)]
    return ["Seen in users' files only, not in the centre's own pages: " + ", ".join(relevant)] if relevant else []
