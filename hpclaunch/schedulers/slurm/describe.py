"""Asks Slurm's programs for all that tells what the cluster is: one call to each, however many nodes there are."""

from __future__ import annotations

from pathlib import Path

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.schedulers.slurm.programs import ask
from hpclaunch.sites.describe import Answers
from hpclaunch.sites.describe.answers import SINFO_FORMAT, settings


def answers(user: str) -> Answers:
    """Return what the programs wrote. Raises SchedulerError where there is no Slurm, or none that answers.

    A cluster without accounting, or one that does not show its nodes to everybody, leaves a program silent: its text is
    empty then.
    """
    config = ask(["scontrol", "show", "config"])
    if not config.ok:
        what = f"Slurm cannot be asked what this cluster is: scontrol {config.words}"
        raise SchedulerError(Fault(where="scontrol", what=what, next="log in to the cluster, or wait for slurmctld"))
    nodes = _text("scontrol", "show", "node", "--all", "--oneliner")
    sinfo = "" if nodes.strip() else _text("sinfo", "--noheader", "--Node", "--all", f"--format={SINFO_FORMAT}")
    accounting = bool(settings(config.text).get("AccountingStorageType", "").endswith("slurmdbd"))
    mpi = ask(["srun", "--mpi=list"])
    return Answers(
        config=config.text,
        partitions=_text("scontrol", "show", "partition", "--all", "--oneliner"),
        nodes=nodes,
        sinfo=sinfo,
        qos=_text("sacctmgr", "--parsable2", "show", "qos") if accounting else "",
        associations=_text("sacctmgr", "--parsable2", "show", "associations", f"user={user}") if accounting else "",
        mpi=f"{mpi.text}\n{mpi.said}",  # before Slurm 21.08 srun lists them as messages
        gres_conf=_gres_conf(config.text),
    )


def _text(*command: str) -> str:
    answer = ask(command)
    return answer.text if answer.ok else ""


def _gres_conf(config: str) -> str:
    """Return gres.conf, which lies beside slurm.conf on machines that have the files; nothing on others."""
    place = settings(config).get("SLURM_CONF", "")
    try:
        return Path(place).with_name("gres.conf").read_text(encoding="utf-8", errors="replace") if place else ""
    except (OSError, ValueError):
        return ""


def has_pyxis() -> bool:
    """Whether this srun runs containers itself: the plug-in adds its option to srun's help."""
    return "--container-image" in _text("srun", "--help")
