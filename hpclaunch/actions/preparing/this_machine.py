"""Whether this machine is the place of a run: its site's cluster, and not the head node of a cluster by accident.

A script of one cluster must not reach the scheduler of another, and a program must not train on a head node because no
site was detected. The scheduler of this machine is asked for no more than the name of its cluster.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from hpclaunch.actions.system import System
from hpclaunch.config.catalog import THIS_MACHINE
from hpclaunch.config.site import Site
from hpclaunch.core.errors import Fault, Refused
from hpclaunch.core.scheduler_rows import OTHER_SCHEDULERS, SCHEDULERS, OtherScheduler
from hpclaunch.core.spec import CLUSTER, Context, JobSpec
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.script.clusters import asked_clusters
from hpclaunch.sites.detect import TYPED, UNDETECTED, cluster_name, detect_site, is_other_cluster, machine


def is_foreign(site_status: str, other_site: str) -> bool:
    """Whether the scheduler on this machine is not the site's: this is another site, or the site is retired."""
    return bool(other_site) or site_status == "retired"


def misplaced(case: Case, spec: JobSpec | None = None) -> list[Fault]:
    """Return why this machine is not the place of the run; then its scheduler must not be asked about the run.

    Without the ``spec``, the clusters that get the script are those that the case itself names.
    """
    origin, clusters = _clusters_in(spec) if spec else asked_clusters(case)
    if clusters and case.site.status != "retired":
        found = _redirected_faults(case, origin, clusters)
        # The scheduler here sends the script to the site's own cluster, or a person of the site named another one.
        if found or case.context.at_site or not _clusters_of_others(case, clusters):
            return found
    return misplaced_at(case.site, case.context)


def misplaced_at(site: Site, context: Context) -> list[Fault]:
    """Return why this machine is not the place of any run of a site."""
    row = site.scheduler_row
    if is_foreign(site.status, context.other_site):
        return _known_faults(site, context.other_site)
    if not row.has_queue:
        return _head_node_faults(context) if context.site_origin == UNDETECTED else []
    if not _has_program(context.environment, row.start_command):
        return []
    return [] if context.at_site else _other_cluster_faults(site, context)


def _known_faults(site: Site, other_site: str) -> list[Fault]:
    if site.status == "retired":
        what = f"the site {site.name} is retired: scripts can be rendered for it, but not submitted"
        return [Fault(what=what, next="add --dry-run to see the script; hpclaunch sites list shows other sites")]
    program = site.scheduler_row.start_command
    what = f"this machine belongs to {other_site}: its {program} cannot submit to {site.name}"
    return [Fault(what=what, next=f"log in at {site.name}, or add --dry-run to see the script")]


# --- The script of another cluster


def redirected(case: Case, spec: JobSpec) -> list[Fault]:
    """Return why the shell sends the job to another cluster than the site's: a variable of the scheduler names it.

    A centre's module may have set it, so nobody may have meant it. Of a site file that gives no ClusterName nothing is
    known: the run then follows the variable.
    """
    return _redirected_faults(case, *_clusters_in(spec))


def _redirected_faults(case: Case, origin: str, clusters: str) -> list[Fault]:
    row = case.site.scheduler_row
    if origin not in row.clusters_variables or not _clusters_of_others(case, clusters):
        return []
    site, typed = case.site.name, row.clusters_option.format(clusters)
    what = f"this shell has {origin}={clusters}, so {row.start_command} would not submit to {site}"
    next_step = (
        f"unset {origin} (a module may have set it); or name the site of that cluster: hpclaunch sites list, "
        f"then --site; or if {site}'s site file fits there, too: --sbatch={typed}"
    )
    return [Fault(where=origin, what=what, next=next_step, subject="scheduler")]


def cluster_remarks(case: Case, spec: JobSpec) -> list[str]:
    """Return that a cluster which was named is not the one that the site file describes."""
    origin, clusters = _clusters_in(spec)
    others = _clusters_of_others(case, clusters)
    if not others or origin in case.site.scheduler_row.clusters_variables:
        return []
    return [
        f"the site file of {case.site.name} describes another cluster than {', '.join(others)}, which gets the script"
    ]


def _clusters_of_others(case: Case, clusters: str) -> list[str]:
    """Return the clusters that get the script and are known not to be the site's."""
    names = clusters.split(",") if clusters else []
    return [name for name in names if is_other_cluster(case.site, name, own=case.context.own_site)]


def _clusters_in(spec: JobSpec) -> tuple[str, str]:
    """Return who named the other clusters that get the script, and their names."""
    origin = next((choice.origin for choice in spec.choices if choice.key == CLUSTER), "")
    return origin, spec.clusters


def _other_cluster_faults(site: Site, context: Context) -> list[Fault]:
    """Return why the scheduler here is not the site's, by the name of its cluster.

    Nothing is known of a user's own site file without a ClusterName: it may describe this machine.
    """
    own_file = context.own_site
    if own_file and (site.detect is None or site.detect.cluster_name is None):
        return []
    name = cluster_name(context.environment) or _cluster_that_answers(site.scheduler)
    if name is None or (name and not is_other_cluster(site, name, own=own_file)):
        return []
    row = site.scheduler_row
    if name:
        what = (
            f"{row.title} on this machine is the cluster {name}: its {row.start_command} cannot submit to {site.name}"
        )
    else:
        what = (
            f"this machine is not known to be one of {site.name}'s: {row.title} here does not tell its cluster's name"
        )
    if own_file:
        mend = f"correct detect.cluster_name in the site file {site.name}"
    else:
        mend = f"keep its site file as your own: hpclaunch sites show {site.name} --yaml (hpclaunch docs site-files)"
    next_step = f"log in at {site.name}, or add --dry-run to see the script; if this is {site.name}, {mend}"
    return [Fault(what=what, next=next_step, subject="scheduler")]


def _cluster_that_answers(scheduler: str) -> str | None:
    """Return the name of the cluster whose scheduler answers here, as `Scheduler.cluster_name` does."""
    from hpclaunch.schedulers import scheduler_of  # which no script that is only shown needs

    return scheduler_of(scheduler).cluster_name()


# --- A head node

_TO_RUN_HERE = f"to run on this machine: HPCLAUNCH_SITE={THIS_MACHINE}, or site: {THIS_MACHINE} in your settings"


def _head_node_faults(context: Context) -> list[Fault]:
    """Return why nothing starts here without a site: this is the head node of a cluster that was not detected."""
    queued = _cluster_here(context.environment)
    if queued:
        title, name = queued
        what = f"this machine is a head node of the {title} cluster {name}, for which there is no site file"
        next_step = f"hpclaunch sites detect --name {name} writes one; {_TO_RUN_HERE}"
        return [Fault(what=what, next=next_step, subject="scheduler")]
    other = other_scheduler(context.environment)
    if other is None:
        return []
    what = (
        f"no site is named, and this machine has {other.program} ({other.title}): a head node is no place to train, "
        f"and hpclaunch does not submit to {other.title}"
    )
    next_step = f"in a job of {other.title}: {in_a_job_of(other)}; {_TO_RUN_HERE}"
    return [Fault(what=what, next=next_step, subject="scheduler")]


def in_a_job_of(other: OtherScheduler) -> str:
    """Return what a person types in a job of a scheduler that hpclaunch does not submit to."""
    return f"--site local {other.hosts}".rstrip()


_answered: set[str] = set()
"""What was asked before: a command such as ``profile`` starts several runs."""


def confirm_head_node(system: System, case: Case) -> None:
    """Ask before a run that --site starts on what looks like a head node.

    Settings and HPCLAUNCH_SITE are a decision that was made before: they are not questioned. Raises Refused if the
    answer is no, and without a terminal, where there is nobody to ask: --site local may stand in a script for years.
    """
    context = case.context
    if case.site.scheduler_row.has_queue or context.site_origin != TYPED or context.is_lasting_site:
        return
    looks = _head_node_words(context.environment)
    if not looks or looks in _answered:
        return
    _answered.add(looks)
    answer = system.confirm(f"{looks}. Start the run on it? [y/N]")
    if answer:
        return
    what = "nothing was started" if answer is not None else f"{looks}, and there is no terminal for a question"
    raise Refused(Fault(what=what, next=f"submit to a cluster with --site NAME; {_TO_RUN_HERE}"))


def _head_node_words(environment: Mapping[str, str]) -> str:
    """Return why this machine looks like a head node; empty if it does not, or if this is a job."""
    rows = [row for row in SCHEDULERS.values() if row.has_queue]
    variables = [row.inside_job for row in rows] + [name for other in OTHER_SCHEDULERS for name in other.inside_job]
    if any(environment.get(name) for name in variables if name):
        return ""
    site = detect_site(machine(environment, os.uname().nodename))
    if site and _has_program(environment, *(row.start_command for row in rows)):
        return f"this machine looks like a head node of {site}"
    queued = _cluster_here(environment)
    if queued:
        return f"this machine looks like a head node of the {queued[0]} cluster {queued[1]}"
    other = other_scheduler(environment)
    return f"this machine looks like a head node: it has {other.program} ({other.title})" if other else ""


def _cluster_here(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the scheduler whose programs are here, and the name of its cluster; None if no cluster answers."""
    for scheduler, row in SCHEDULERS.items():
        if row.has_queue and _has_program(environment, row.start_command):
            name = cluster_name(environment) or _cluster_that_answers(scheduler)
            if name:
                return row.title, name
    return None


def other_scheduler(environment: Mapping[str, str]) -> OtherScheduler | None:
    """Return the scheduler whose program is on PATH here, and to which hpclaunch does not submit."""
    known = {row.start_command for row in SCHEDULERS.values()}
    found = (other for other in OTHER_SCHEDULERS if other.program not in known)
    return next((other for other in found if _has_program(environment, other.program)), None)


def _has_program(environment: Mapping[str, str], *programs: str) -> bool:
    path = environment.get("PATH", os.defpath)
    return any(shutil.which(program, path=path) for program in programs)
