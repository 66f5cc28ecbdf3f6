"""Names that the shell can complete: jobs, sites, runs, strategies. What is faulty completes to nothing, quietly."""

from __future__ import annotations

from hpclaunch.config.catalog import JOB, SITE, Kind


def jobs(incomplete: str) -> list[str]:
    """Return the jobs that begin so."""
    return _names(JOB, incomplete)


def sites(incomplete: str) -> list[str]:
    """Return the sites that begin so."""
    return _names(SITE, incomplete)


def runs(incomplete: str) -> list[str]:
    """Return the runs that begin so, newest first."""
    from hpclaunch.actions.system import System
    from hpclaunch.runs import known

    system = System()
    found = known(system.index, system.run_folders).runs
    return [run.path.name for run in found if run.path.name.startswith(incomplete)]


def strategies(incomplete: str) -> list[str]:
    """Return the strategies that begin so."""
    from hpclaunch.core.spec import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def _names(kind: Kind, incomplete: str) -> list[str]:
    from hpclaunch.actions.system import System

    return [found.name for found in System().catalog.names(kind) if found.name.startswith(incomplete)]
