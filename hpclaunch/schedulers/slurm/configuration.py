"""Slurm's configuration, and the identity of the cluster that its programs ask; each question is asked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from hpclaunch.schedulers import ClusterIdentity
from hpclaunch.schedulers.slurm.programs import ask, asking, cluster_key, down_controllers
from hpclaunch.sites.slurm_text import settings

_CONTROLLER = r"(?:SlurmctldHost\[[0-9]+\]|ControlMachine|BackupController)"
"""Since Slurm 18.08 each controller has its own line: ``SlurmctldHost[0] = HOST(ADDRESS)`` (scontrol's show_config)."""


_NAME_SECONDS = 15
"""The longest time for a question to a cluster that may not be the run's; its controller may be down."""


class _Silent(Exception):
    """scontrol did not answer."""


def configuration() -> Mapping[str, str]:
    """Return the fields of ``scontrol show config``; none if scontrol does not answer, and then it is asked again."""
    try:
        return _ask_configuration(cluster_key())
    except _Silent:
        return MappingProxyType({})


@lru_cache(maxsize=4)
def _ask_configuration(_choosing: tuple[str | None, ...]) -> Mapping[str, str]:
    if down_controllers():
        raise _Silent  # at once: the next question would be repeated for MessageTimeout
    answer = ask(["scontrol", "show", "config"])
    if not answer.ok:
        raise _Silent
    return MappingProxyType(settings(answer.text))


def cluster() -> ClusterIdentity:
    """Return the name of this machine's cluster, and the hosts of its controllers, the primary one first.

    If scontrol does not answer, the name is that in slurm.conf, and the controllers are not known.
    """
    with asking(""):
        fields = configuration()
    hosts = [value.partition("(")[0].strip() for name, value in fields.items() if re.fullmatch(_CONTROLLER, name)]
    name = fields.get("ClusterName", "")
    if not name:
        from hpclaunch.sites.detect import cluster_name

        name = cluster_name(os.environ)
    return ClusterIdentity(name=name, controllers=tuple(host for host in hosts if host))


def cluster_name() -> str:
    """Return the name of the cluster that answers here, with one call of scontrol; empty if there is no answer."""
    try:
        return _ask_name(cluster_key())
    except _Silent:
        return ""


@lru_cache(maxsize=4)
def _ask_name(_choosing: tuple[str | None, ...]) -> str:
    answer = ask(["scontrol", "show", "config"], seconds=_NAME_SECONDS)
    if not answer.ok:
        raise _Silent
    return settings(answer.text).get("ClusterName", "")
