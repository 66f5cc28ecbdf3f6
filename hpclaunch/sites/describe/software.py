"""Launcher, container, environment and folders, as a site file writes them: the known values, and the gaps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.sites.describe.draft import HERE, PLATFORM, SLURM, Cluster, Draft, Here
from hpclaunch.sites.describe.platforms import Shared
from hpclaunch.sites.slurm_text import Fields


def add_launcher(draft: Draft, types: Sequence[str], default: str, here: Here) -> None:
    """Add srun with its MPI type, and the MPI launchers on this machine's PATH.

    The type is MpiDefault, else PMIx (which Open MPI, Horovod's usual MPI, uses), else the only other.
    """
    # Without the plain name: the newest of pmix_v3, pmix_v4, ...
    pmix = [name for name in types if name == "pmix"] or sorted(name for name in types if name.startswith("pmix"))[-1:]
    others = [name for name in types if name != "none"]
    chosen, why = "", ""
    if default:
        chosen, why = default, "the cluster's MpiDefault"
    elif pmix:
        chosen, why = pmix[0], f"srun --mpi=list shows {', '.join(types)}; no MpiDefault"
    elif len(others) == 1:
        chosen, why = others[0], "srun --mpi=list shows no other type"
    usual = SCHEDULERS[SLURM].usual_launcher
    options: dict[str, dict[str, str]] = {usual: {"mpi": chosen}} if chosen else {}
    options |= {name: {} for name in here.launchers if name != usual}
    if options:
        found = f"on PATH here: {', '.join(here.launchers)}" if here.launchers else ""
        draft.add(
            "launchers",
            {"default": next(iter(options)), "options": options},
            SLURM,
            "; ".join(filter(None, (why, found))),
        )
    if not chosen:
        what = f"srun --mpi=list shows {', '.join(types) or 'nothing'}, and no MpiDefault is set"
        key = "launchers.options" if options else "launchers"
        draft.add_gap(key, what, "srun: {mpi: pmix}" if options else "default: srun, options: {srun: {mpi: pmix}}")


def add_launcher_options(draft: Draft, shared: Shared) -> None:
    """Add the options that the cloud's tool gives each launcher, beside its MPI type."""
    for name, options in draft.values.get("launchers", {}).get("options", {}).items():
        for key, value in shared.launchers.get(name, {}).items():
            if key not in options and key != "mpi":
                options[key] = value
                draft.origins[f"launchers.options.{name}.{key}"] = [PLATFORM]


def add_container(draft: Draft, here: Here) -> None:
    """Add the first container runtime that this machine has."""
    found = [name for name in RUNTIMES if name in here.runtimes]
    if found:
        is_option = bool(RUNTIMES[found[0]].step_option)
        why = "srun has its option here" if is_option else f"{found[0]} is installed on this machine"
        draft.add("container", {"runtime": found[0]}, HERE, why)


def add_environment(draft: Draft, here: Here, shared: Shared | None) -> None:
    """Add the Python of this machine if it can train, else that is a gap; and the variables of a cloud's clusters."""
    if shared is not None and shared.variables:
        why = "for instances with a fast network; leave them out at a cluster without one"
        draft.add("environment", {"variables": dict(shared.variables)}, PLATFORM, why)
    if here.python:
        why = f"{here.python}, which runs hpclaunch, has TensorFlow and Horovod with MPI"
        variables = draft.values.get("environment", {})
        draft.add("environment", {"python": "current", **variables}, HERE, why)
        if variables:
            draft.origins["environment.variables"] = [PLATFORM]
        draft.add("provides", ["tensorflow", "horovod"], HERE)
        return
    key = "environment.modules" if "environment" in draft.values else "environment"
    why = "how the ranks get TensorFlow and Horovod: modules, a venv, conda, or a container"
    why += f"; {here.python_lacks}" if here.python_lacks else ""
    draft.add_gap(key, why, "modules: [tensorflow/2.15], or container: /shared/tf.sif")


def add_node_environments(draft: Draft, cluster: Cluster, shared: Shared) -> None:
    """Add to each node type what the cloud's tool sets on the nodes of a partition of that name."""
    for name, node in draft.values["node_types"].items():
        environment = shared.environments.get(cluster.homes[name])
        if environment is not None:
            node["environment"] = dict(environment)
            draft.origins[f"node_types.{name}.environment"] = [PLATFORM]


def add_folders(draft: Draft, config: Fields, shared: Shared | None) -> None:
    """Add the folders that are private to a node; those that all share are a gap, except at a cloud's clusters."""
    scratch = config.get("TmpFS", "").rstrip("/")  # "/" would make every folder private to its node
    private = ["/tmp", "/dev/shm"]
    if scratch.startswith("/"):
        private = list(dict.fromkeys([scratch, *private]))  # often TmpFS is one of the two
    if shared is not None and shared.folders:
        private = list(dict.fromkeys([*private, *shared.folders.get("node_private", [])]))
        draft.add("folders", {**shared.folders, "node_private": private}, PLATFORM)
        return
    draft.add("folders", {"node_private": private}, SLURM, "TmpFS, and the folders that machines never share")
    why = "folders for runs and data on a file system that all nodes share; until then runs go to ./runs"
    draft.add_gap("folders.runs", why, "runs: $SCRATCH/hpclaunch/runs, data: $SCRATCH/data")


def add_rule_gaps(draft: Draft, config: Fields) -> None:
    """Add gaps for what the site decides and Slurm does not show."""
    plugins = config.get("JobSubmitPlugins", "")
    if plugins:
        why = f"JobSubmitPlugins={plugins} may require an account, a QOS or a constraint, or may change the request"
        draft.add_gap("required", why, "[account, walltime]")
    draft.add_gap("charging", "Slurm does not show what the site charges", "unit: node-hour, counts: node")
    draft.add_gap("interconnect", "Slurm does not show it", "InfiniBand HDR, 200 Gbit/s")
