"""Which of the site's values that a script uses are not the centre's own word, and which essential ones are missing."""

from __future__ import annotations

from hpclaunch.config.provenance import longest
from hpclaunch.config.site import Site
from hpclaunch.core.spec import Layout
from hpclaunch.resolve.decisions import Ledger
from hpclaunch.resolve.placement import Placement


def unverified_of(site: Site, layout: Layout, accepted: bool, ledger: Ledger) -> list[str]:
    """Return how essential keys that the site file lacks were filled in; without consent each is a fault."""
    gaps = []
    if site.scheduler == "slurm" and site.launchers is None:
        gaps.append(("the launcher", "srun", site.unverified.get("launchers", "")))
    if site.scheduler == "slurm" and site.gpus is None and layout.gpus_per_node:
        gaps.append(("how GPUs are asked for", "--gpus-per-node", site.unverified.get("gpus", "")))
    if not accepted:
        for what, taken, why in gaps:
            ledger.fault(
                f"{what} is not verified for {site.name}" + (f" ({why})" if why else ""),
                next=f"--accept-unverified takes Slurm's usual way ({taken}); or a site file of your own that says it",
            )
        return []
    return [f"Not verified for this site: {what}; Slurm's usual way is taken ({taken})." for what, taken, _ in gaps]


def third_party_of(site: Site, kind: str, launcher: str, placement: Placement, image: str | None) -> list[str]:
    """Return the third-party values among those that this script uses."""
    used = [f"node_types.{kind}", "required", "charging", "gpus", "task_directives", "environment", "folders", "sbatch"]
    used += ["defaults", "login_shell", "launchers.default", f"launchers.options.{launcher}"]
    used += ["launchers.options.srun"] if launcher == "torchrun" else []  # which starts it
    used += [f"partitions.{placement.partition}"] if placement.partition else []
    used += [f"qos.{placement.qos}"] if placement.qos else []
    used += ["container"] if image else []
    relevant = [key for key in site.third_party if longest(key, used) or any(longest(one, [key]) for one in used)]
    return ["Seen in users' files only, not in the centre's own pages: " + ", ".join(relevant)] if relevant else []
