"""Which other cluster gets the script: the one that --sbatch or a file names, else the one of the shell's variable."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpclaunch.core.spec import CLUSTER
from hpclaunch.resolve.case import Case
from hpclaunch.resolve.decisions import Decisions
from hpclaunch.resolve.environment.software import Software
from hpclaunch.resolve.nodes.placement import Placement

_OPTION = r"(?s)(?:-M\s*=?|--clusters?(?:=|\s))\s*(.*)"
"""The spellings of sbatch's option that names clusters (sbatch manual, -M)."""
_NAME = r"[a-z0-9][a-z0-9_.-]*"


def names_clusters(option: str) -> bool:
    """Whether an option of sbatch names clusters."""
    return re.fullmatch(_OPTION, option.strip()) is not None or option.strip() in ("--clusters", "--cluster")


def clusters_of(case: Case, placement: Placement, software: Software, decisions: Decisions) -> str:
    """Return the names of other clusters, joined by commas; empty for the cluster of this machine.

    Precedence: the request, the job, settings, software, site, the shell. A variable of the shell is what a login
    profile or a module has left, so that what a file says stands above it.
    """
    places = tuple(option for limits in placement.limits for option in limits.sbatch)
    return _clusters_named(case, software.sbatch, places, decisions)


def asked_clusters(case: Case) -> tuple[str, str]:
    """Return who names other clusters (empty: nobody), and their names, before software and placement are decided."""
    decisions = Decisions()
    clusters = _clusters_named(case, (), (), decisions)
    return decisions.origin_of(CLUSTER), clusters


def _clusters_named(case: Case, of_software: Sequence[str], of_places: Sequence[str], decisions: Decisions) -> str:
    row = case.site.scheduler_row
    if not row.clusters_option or case.context.allocation:
        return ""
    offers: list[tuple[str, str | None]] = [
        ("--sbatch", _last_names(case.request.sbatch)),
        ("job", _last_names(case.job.sbatch)),
        ("settings", _last_names(case.settings.all("sbatch", case.site.name))),
        ("environment", _last_names(of_software)),
        (f"site {case.site.name}", _last_names((*case.site.sbatch, *of_places))),
    ]
    return _check_names(case, [*offers, *_left_in_shell(case)], decisions)


def clusters_of_script(case: Case, typed: str | None, origin: str, decisions: Decisions) -> str:
    """Return the other clusters that a foreign batch script names itself, else those of the shell's variable."""
    return _check_names(case, [(origin, typed), *_left_in_shell(case)], decisions)


def _left_in_shell(case: Case) -> list[tuple[str, str | None]]:
    environment = case.context.environment
    return [(name, environment.get(name) or None) for name in case.site.scheduler_row.clusters_variables]


def _last_names(options: Sequence[str]) -> str | None:
    """Return what the last of the options that names clusters says; None if none does."""
    found = [match[1] for option in options if (match := re.fullmatch(_OPTION, option.strip()))]
    return found[-1] if found else None


def _check_names(case: Case, offers: Sequence[tuple[str, str | None]], decisions: Decisions) -> str:
    """Return the names of the first offer (origin, text); a text that hpclaunch could not follow becomes a fault."""
    origin, text = next(((origin, text) for origin, text in offers if text is not None), ("", ""))
    if not origin:
        return ""
    # Slurm stores the names of clusters in small letters.
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    wrong = [name for name in names if name == "all" or not re.fullmatch(_NAME, name)]
    if wrong:
        every = "every cluster of the database" if wrong == ["all"] else f"{text!r}"
        what = f"{every} is no list of clusters among which a run could be found again"
        step = f"unset {origin}, or name them" if origin in case.site.scheduler_row.clusters_variables else "name them"
        decisions.fault(what, where=origin, allowed="names joined by commas: --sbatch=--clusters=NAME", next=step)
        return ""
    if names == [case.context.cluster.lower()]:
        return ""
    clusters = ",".join(names)
    decisions.pick(CLUSTER, (origin, clusters))
    if len(names) > 1:
        decisions.warnings.append(
            f"the scheduler chooses one of the clusters {clusters}: their limits are not asked for"
        )
    return clusters
