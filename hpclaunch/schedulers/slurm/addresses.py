"""Which clusters the programs on this machine are to ask about jobs: their own one, and others that they reach too.

A job may be on another cluster than the one whose slurm.conf this machine has: sent there by ``sbatch --clusters``, or
by sbatch itself. With the same option each program asks there (decision 61). Slurm's names of clusters are in small
letters.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import UNKNOWN_CLUSTER, JobPlace, Jobs
from hpclaunch.schedulers.slurm.configuration import cluster

_ROW = scheduler_row("slurm")


def jobs_by_address(jobs: Jobs) -> Iterator[tuple[str, Jobs]]:
    """Yield each address that is to be asked, with the jobs there. Jobs that are out of reach are left out.

    The address is empty for this machine's own cluster, which also counts as that of a job whose cluster is not known.
    Users of one cluster have one address.
    """
    found: dict[str, set[JobPlace]] = {}
    places = jobs.places
    for place in sorted(places):
        address = address_of(place, places)
        if address is not None:
            found.setdefault(address, set()).add(place)
    for address, those in found.items():
        yield address, jobs.at(those)


def address_of(place: JobPlace, known: Collection[JobPlace] = ()) -> str | None:
    """Return the clusters to name where a program is to ask about a job there; None if it is out of reach from here.

    Another cluster is in reach if a job was sent there from this machine's own, be it this one or one at the ``known``
    places, or if the shell names it.
    """
    if not place.cluster:
        return ""
    here = cluster().name
    if place.cluster == here:
        return ""
    if not here:
        return place.cluster if place.via else ""
    sent = any(one.via in (here, UNKNOWN_CLUSTER) for one in (place, *known) if one.cluster == place.cluster)
    return place.cluster if sent or place.cluster in named_by_shell() else None


def named_by_shell() -> list[str]:
    """Return the clusters that the variables of this shell name."""
    texts = (os.environ.get(name, "") for name in _ROW.clusters_variables)
    return [name.strip().lower() for name in next(filter(None, texts), "").split(",") if name.strip()]
