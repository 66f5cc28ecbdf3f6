"""Names that the shell can complete: jobs, sites, runs, strategies, topics. A faulty file adds no name."""

from __future__ import annotations

from hpclaunch.config.catalog import JOB, SITE, FileFamily

_MOST_AGES = 9
"""The oldest run that is offered by its age: @9."""


def jobs(incomplete: str) -> list[str]:
    """Return the names of jobs that begin with ``incomplete``."""
    return _names(JOB, incomplete)


def sites(incomplete: str) -> list[str]:
    """Return the names of sites that begin with ``incomplete``."""
    return _names(SITE, incomplete)


def runs(incomplete: str) -> list[str]:
    """Return the names of runs that begin with ``incomplete``, newest first; after an @ the runs by their age."""
    from hpclaunch.actions.system import System
    from hpclaunch.runs import known

    system = System()
    found = known(system.index, system.run_folders).runs
    if incomplete.startswith("@"):
        ages = ["@latest", *(f"@{number}" for number in range(2, min(len(found), _MOST_AGES) + 1))]
        return [age for age in ages if age.startswith(incomplete)] if found else []
    return [run.path.name for run in found if run.path.name.startswith(incomplete)]


def strategies(incomplete: str) -> list[str]:
    """Return the strategies that begin with ``incomplete``."""
    from hpclaunch.core.spec import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def frameworks(incomplete: str) -> list[str]:
    """Return the frameworks that begin with ``incomplete``."""
    from hpclaunch.core.spec import FRAMEWORKS

    return [name for name in FRAMEWORKS if name.startswith(incomplete)]


def recipes(incomplete: str) -> list[str]:
    """Return the recipes that every job has and begin with ``incomplete``."""
    return [name for name in ("plan", "job") if name.startswith(incomplete)]


def topics(incomplete: str) -> list[str]:
    """Return the topics of the manual that begin with ``incomplete``."""
    from hpclaunch.actions.manual import pages

    return [page.topic for page in pages() if page.topic.startswith(incomplete)]


def _names(family: FileFamily, incomplete: str) -> list[str]:
    from hpclaunch.actions.system import System

    return [file.name for file in System().catalog.names(family) if file.name.startswith(incomplete)]
