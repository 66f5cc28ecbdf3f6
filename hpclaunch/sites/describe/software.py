"""Launcher, container, environment and folders, as a site file writes them: the known values, and the gaps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.sites.describe.draft import HERE, SLURM, Draft, Here
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


def add_container(draft: Draft, here: Here) -> None:
    """Add the first container runtime that this machine has."""
    found = [name for name in RUNTIMES if name in here.runtimes]
    if found:
        is_option = bool(RUNTIMES[found[0]].step_option)
        why = "srun has its option here" if is_option else f"{found[0]} is installed on this machine"
        draft.add("container", {"runtime": found[0]}, HERE, why)


def add_environment(draft: Draft, here: Here) -> None:
    """Add the Python of this machine if it can train; else the environment is a gap."""
    if here.python:
        why = f"{here.python}, which runs hpclaunch, has TensorFlow and Horovod with MPI"
        draft.add("environment", {"python": "current"}, HERE, why)
        draft.add("provides", ["tensorflow", "horovod"], HERE)
        return
    why = "how the ranks get TensorFlow and Horovod: modules, a venv, conda, or a container"
    why += f"; {here.python_lacks}" if here.python_lacks else ""
    draft.add_gap("environment", why, "modules: [tensorflow/2.15], or container: /shared/tf.sif")


def add_folders(draft: Draft, config: Fields) -> None:
    """Add the folders that are private to a node; those that all nodes share are a gap."""
    scratch = config.get("TmpFS", "").rstrip("/")  # "/" would make every folder private to its node
    private = ["/tmp", "/dev/shm"]
    if scratch.startswith("/"):
        private = list(dict.fromkeys([scratch, *private]))  # often TmpFS is one of the two
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
