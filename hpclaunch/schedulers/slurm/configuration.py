"""Slurm's configuration, and the identity of the cluster that its programs ask; each question is asked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from hpclaunch.schedulers import ClusterIdentity
from hpclaunch.schedulers.slurm.programs import ask, asking, cluster_key, down_controllers
from hpclaunch.sites.slurm_text import settings

_CONTROLLER = r"(?:SlurmctldHost\[[0-9]+\]|ControlMachine|BackupController)"
"""Since Slurm 18.08 each controller has its own line: ``SlurmctldHost[0] = HOST(ADDRESS)`` (scontrol's show_config)."""


_SECONDS = 60
_NAME_SECONDS = 15
"""The longest time for a question to a cluster that may not be the run's; its controller may be down."""
_known: dict[tuple[str | None, ...], Mapping[str, str]] = {}
"""Which cluster is asked -> its configuration, which does not change while a command runs."""


def configuration() -> Mapping[str, str]:
    """Return the fields of ``scontrol show config``; none if scontrol does not answer, and then it is asked again."""
    if cluster_key() not in _known and down_controllers():
        return MappingProxyType({})  # at once: the next question would be repeated for MessageTimeout
    return _ask_configuration(_SECONDS)


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
    return _ask_configuration(_NAME_SECONDS).get("ClusterName", "")


def _ask_configuration(seconds: float) -> Mapping[str, str]:
    key = cluster_key()
    if key not in _known:
        answer = ask(["scontrol", "show", "config"], seconds=seconds)
        if not answer.ok:
            return MappingProxyType({})
        _known[key] = MappingProxyType(settings(answer.text))
    return _known[key]
