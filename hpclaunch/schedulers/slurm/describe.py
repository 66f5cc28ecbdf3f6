"""Asks Slurm's programs for the facts about the cluster: one call to each, for any number of nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpclaunch.core.errors import Fault, SchedulerError
from hpclaunch.core.files import read_text
from hpclaunch.core.runtime_rows import RUNTIMES
from hpclaunch.schedulers.slurm.programs import ask
from hpclaunch.sites.describe.answers import SINFO_FORMAT
from hpclaunch.sites.describe.draft import Answers
from hpclaunch.sites.slurm_text import settings


def answers(user: str) -> Answers:
    """Return the output of the programs. Raises SchedulerError if there is no Slurm, or if it does not answer.

    The output is empty for a program that fails, as without accounting, or where users may not see the nodes.
    """
    config = ask(["scontrol", "show", "config"])
    if not config.ok:
        what = f"Slurm does not describe this cluster: scontrol {config.words}"
        raise SchedulerError(Fault(where="scontrol", what=what, next="log in to the cluster, or wait for slurmctld"))
    shown = nodes_and_partitions()
    accounting = bool(settings(config.text).get("AccountingStorageType", "").endswith("slurmdbd"))
    mpi = ask(["srun", "--mpi=list"])
    return replace(
        shown,
        config=config.text,
        qos=_text("sacctmgr", "--parsable2", "show", "qos") if accounting else "",
        associations=_text("sacctmgr", "--parsable2", "show", "associations", f"user={user}") if accounting else "",
        mpi=f"{mpi.text}\n{mpi.messages}",  # before Slurm 21.08 srun lists them as messages
        gres_conf=_gres_conf(config.text),
    )


def nodes_and_partitions() -> Answers:
    """Return what Slurm shows of these alone. Where users may not list the nodes, sinfo does."""
    nodes = _text("scontrol", "show", "node", "--all", "--oneliner")
    sinfo = "" if nodes.strip() else _text("sinfo", "--noheader", "--Node", "--all", f"--format={SINFO_FORMAT}")
    partitions = _text("scontrol", "show", "partition", "--all", "--oneliner")
    return Answers(partitions=partitions, nodes=nodes, sinfo=sinfo)


def _text(*command: str) -> str:
    answer = ask(command)
    return answer.text if answer.ok else ""


def _gres_conf(config: str) -> str:
    """Return gres.conf, which is beside slurm.conf; an empty text on a machine without these files."""
    place = settings(config).get("SLURM_CONF", "")
    try:
        return read_text(Path(place).with_name("gres.conf")) if place else ""
    except ValueError:
        return ""


def step_runtimes() -> tuple[str, ...]:
    """Return the container runtimes that are plug-ins of srun: each adds its option to srun's help."""
    options = _text("srun", "--help")
    return tuple(name for name, row in RUNTIMES.items() if row.step_option and row.step_option in options)
