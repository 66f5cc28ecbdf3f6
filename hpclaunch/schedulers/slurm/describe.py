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

_NODES = ("scontrol", "show", "node", "--all", "--oneliner")
_PARTITIONS = ("scontrol", "show", "partition", "--all", "--oneliner")
_SINFO = ("sinfo", "--noheader", "--Node", "--all", f"--format={SINFO_FORMAT}")
_QOS = ("sacctmgr", "--parsable2", "show", "qos")
_MPI = ("srun", "--mpi=list")


def answers(user: str) -> Answers:
    """Return the output of the programs. Raises SchedulerError if there is no Slurm, or if it does not answer.

    The output is empty for a program that fails, as without accounting, or where users may not see the nodes.
    """
    config = _configuration()
    shown = nodes_and_partitions()
    accounting = _has_accounting(config)
    mpi = ask(_MPI)
    return replace(
        shown,
        config=config,
        qos=_text(*_QOS) if accounting else "",
        associations=_text("sacctmgr", "--parsable2", "show", "associations", f"user={user}") if accounting else "",
        mpi=f"{mpi.text}\n{mpi.messages}",  # before Slurm 21.08 srun lists them as messages
        gres_conf=_gres_conf(config),
    )


def _configuration() -> str:
    config = ask(["scontrol", "show", "config"])
    if not config.ok:
        what = f"Slurm does not describe this cluster: scontrol {config.words}"
        raise SchedulerError(Fault(where="scontrol", what=what, next="log in to the cluster, or wait for slurmctld"))
    return config.text


def _has_accounting(config: str) -> bool:
    return settings(config).get("AccountingStorageType", "").endswith("slurmdbd")


def answers_to_check() -> Answers:
    """Return the answers that a site file is checked against. Raises SchedulerError if Slurm does not answer at all.

    A program that fails leaves its field empty, and its words in ``unanswered``.
    """
    config = _configuration()
    commands = {"partitions": _PARTITIONS, "nodes": _NODES, "mpi": _MPI}
    unanswered = {}
    if _has_accounting(config):
        commands["qos"] = _QOS
    else:
        unanswered["qos"] = "this cluster has no accounting"
    texts = {"config": config}
    for name, command in commands.items():
        answer = ask(command)
        texts[name] = f"{answer.text}\n{answer.messages}" if name == "mpi" else answer.text
        if not answer.ok:
            texts[name] = ""
            unanswered[name] = f"{command[0]} {answer.words}"
    if not texts["nodes"].strip():
        texts["sinfo"] = _text(*_SINFO)
    return Answers(**texts, unanswered=unanswered)


def nodes_and_partitions() -> Answers:
    """Return what Slurm shows of these alone. Where users may not list the nodes, sinfo does."""
    nodes = _text(*_NODES)
    sinfo = "" if nodes.strip() else _text(*_SINFO)
    return Answers(partitions=_text(*_PARTITIONS), nodes=nodes, sinfo=sinfo)


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
