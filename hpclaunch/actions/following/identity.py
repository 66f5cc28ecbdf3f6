"""Whose a run is, and on which cluster its job is: what hpclaunch asks about, and acts on, from this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from hpclaunch import runs
from hpclaunch.core.errors import Fault, HpclaunchError, Refused
from hpclaunch.core.folders import state_folder
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.scheduler_rows import scheduler_row
from hpclaunch.runs import RECORD, RecordChange, Run, is_own, is_unlisted
from hpclaunch.schedulers import ClusterIdentity, scheduler_of


def obstacle(run: Run) -> Fault | None:
    """Return why hpclaunch neither asks about the run nor acts on it from here; None if it does.

    It is another user's, or its job is on another cluster that cannot be asked from here, where the same job ID belongs
    to another job.
    """
    return other_users(run) or cluster_obstacle(run)


def cluster_obstacle(run: Run) -> Fault | None:
    """Return on which other cluster the run's job is; None if it can be asked from here, or if that is not known."""
    scheduler = scheduler_of(run.scheduler)
    return None if not run.cluster or scheduler.reaches(run) else _other_cluster(run, scheduler.cluster())


def other_users(run: Run) -> Fault | None:
    """Return whose the run is, if it is another user's, or that it is not among this user's own runs; else None.

    A record alone proves nothing: a cloned repository may hold any.
    """
    owner = _other_owner(run)
    if owner:
        return Fault(what=f"{run.label} belongs to {owner}", next="only they can act on it")
    if is_own(state_folder(os.environ), run):
        return None
    what = f"{run.label} is not known as a run of yours"
    return Fault(what=what, next=f"if it is yours: hpclaunch runs adopt {shell_word(str(run.home))}")


def may_be_own(run: Run) -> bool:
    """Whether the run may be this user's, although the list of own runs lacks it: that could not be written then."""
    if _other_owner(run) or not is_unlisted(state_folder(os.environ), run):
        return False
    try:
        return os.stat(run.home).st_uid == os.getuid()
    except OSError:
        return False


def _other_owner(run: Run) -> str:
    """Return the user that the run belongs to, if it is another one; a record without a user is its file's owner's."""
    uid = run.uid
    if not uid:
        try:
            uid = str(os.stat(run.home / RECORD).st_uid)
        except OSError:
            return ""
    if uid == str(os.getuid()):
        return ""
    return f"{run.user} (uid {uid})" if run.uid and run.user not in ("", uid) else f"the user with uid {uid}"


def _other_cluster(run: Run, here: ClusterIdentity) -> Fault:
    there = f"{run.cluster} (controller {run.controller})" if run.controller else run.cluster
    title, verb = scheduler_row(run.scheduler).title, "status" if not run.final else "resume"
    what = f"{run.label} is a run of the cluster {there}; {title} on this machine is the cluster {here.name}"
    return Fault(what=what, next=f"log in to {run.cluster} and type there: hpclaunch {verb} {run.label}")


def placed(run: Run, cluster: str) -> Run:
    """Return a submitted run with the place of its job, after the scheduler named its cluster (empty: it named none).

    Nothing is recorded.
    """
    if cluster in ("", run.cluster):
        return run
    here = scheduler_of(run.scheduler).cluster()
    if cluster == here.name:
        return replace(run, cluster=cluster, via="", controller=next(iter(here.controllers), ""))
    return replace(run, cluster=cluster, via=here.name or runs.UNKNOWN_CLUSTER, controller="")


def destination_of(run: Run) -> RecordChange:
    """Return what the record says of the place of a run that is submitted now.

    It is the cluster of its earlier starts, as their jobs have their numbers there; else the one that its script is
    for, or several; else that of this machine.
    """
    scheduler = scheduler_of(run.scheduler)
    here, asked = scheduler.cluster(), run.spec().get("clusters")
    is_bound = bool(run.job_id or run.earlier) and bool(run.cluster) and scheduler.reaches(run)
    clusters = ""
    if is_bound:
        clusters = run.cluster
    elif isinstance(asked, str):
        clusters = asked
    is_elsewhere = clusters not in ("", here.name)
    if not is_elsewhere or (is_bound and not (here.name or run.via)):
        return {"cluster": here.name, "via": "", "controller": next(iter(here.controllers), "")}
    return {"cluster": clusters, "via": here.name or runs.UNKNOWN_CLUSTER, "controller": ""}


def elsewhere(run: Run) -> str:
    """Return the other cluster to ask about what holds for the run, or several; empty: that of this machine."""
    return str(place.get("cluster", "")) if (place := destination_of(run)).get("via") else ""


def controller_differs(run: Run) -> bool:
    """Whether the scheduler here has other controllers than the one that the run was given to.

    Two clusters may have one name, and a controller may move to another host: then only the working folder of a job
    shows whether it is the run's.
    """
    if not run.controller:
        return False
    here = scheduler_of(run.scheduler).cluster()
    return bool(here.controllers) and run.controller not in here.controllers


def require_permission(found: Sequence[Run]) -> None:
    """Raise Refused, with every reason, if hpclaunch may not act on some of the runs from here."""
    faults = [fault for run in found if (fault := obstacle(run))]
    if faults:
        raise Refused(faults)


def require_own_site(run: Run) -> None:
    """Raise Refused if the run's script must not be given to the scheduler of this machine: it is another site's.

    Without the cluster of an earlier start, or with another controller, the site of this machine decides, if known. A
    run without a queue that began on this host may begin here again, also on a machine that belongs to a cluster.
    """
    require_permission([run])
    if run.cluster and not controller_differs(run):
        return
    if not scheduler_row(run.scheduler).has_queue and run.host == os.uname().nodename:
        return
    here = _known_site()
    if here == run.site or not (here or run.cluster):
        return
    what = f"the script of {run.label} is for the site {run.site}"
    if here:
        what += f", and this machine belongs to {here}"
    else:
        what += f", whose controller was {run.controller}; the one here is another"
    next_step = f"log in to {run.site}; or to start its code here as a new run: hpclaunch submit {run.home / 'code'}"
    raise Refused(Fault(what=what, next=next_step))


def _known_site() -> str:
    """Return the site that this machine is known to belong to; empty if none is."""
    from hpclaunch.actions.place import choose_site
    from hpclaunch.actions.system import System
    from hpclaunch.config.settings import load_settings

    system = System()
    try:
        chosen = choose_site(system, None, load_settings(system.catalog))
    except HpclaunchError:
        return ""
    return chosen.site.name if chosen.here else ""
