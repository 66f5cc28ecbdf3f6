"""What the shell can complete: the names of jobs, sites, runs, and of all that these have. A faulty file adds no name.

Each takes ``ctx``, which has what was typed before, and ``incomplete``, the word at the cursor. A name that a shell
would have to quote is not offered: others may have given it, and shells differ in how they quote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hpclaunch.cli.shell_completion import is_plain
from hpclaunch.config.catalog import JOB, SITE, FileFamily

if TYPE_CHECKING:
    from hpclaunch.config.job import Job
    from hpclaunch.config.site import Site

_MOST_AGES = 9
"""The oldest run that is offered by its age: @9."""


Completion = Callable[[Any, str], list[str]]
COMPLETIONS: dict[str, Completion] = {}
"""Name -> its function: what ``offers.offer`` finds."""


def plain(complete: Completion) -> Completion:
    """Return a completion that offers only what needs no quotes in any shell, and enter it in ``COMPLETIONS``."""

    def offered(ctx: Any, incomplete: str) -> list[str]:
        return [word for word in complete(ctx, incomplete) if is_plain(word)]

    COMPLETIONS[complete.__name__] = offered
    return offered


@plain
def jobs(_: Any, incomplete: str) -> list[str]:
    """Return the names of jobs that begin with ``incomplete``."""
    return _names(JOB, incomplete)


@plain
def sites(_: Any, incomplete: str) -> list[str]:
    """Return the names of sites that begin with ``incomplete``."""
    return _names(SITE, incomplete)


@plain
def runs(_: Any, incomplete: str) -> list[str]:
    """Return the names of runs that begin with ``incomplete``, newest first; after an @ the runs by their age."""
    from hpclaunch.actions.system import System
    from hpclaunch.runs import known

    system = System()
    found = known(system.index, system.run_folders).runs
    if incomplete.startswith("@"):
        ages = ["@latest", *(f"@{number}" for number in range(2, min(len(found), _MOST_AGES) + 1))]
        return [age for age in ages if age.startswith(incomplete)] if found else []
    return [run.path.name for run in found if run.path.name.startswith(incomplete)]


@plain
def strategies(_: Any, incomplete: str) -> list[str]:
    """Return the strategies that begin with ``incomplete``."""
    from hpclaunch.core.spec import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


@plain
def frameworks(_: Any, incomplete: str) -> list[str]:
    """Return the frameworks that begin with ``incomplete``."""
    from hpclaunch.core.spec import FRAMEWORKS

    return [name for name in FRAMEWORKS if name.startswith(incomplete)]


@plain
def environments(_: Any, incomplete: str) -> list[str]:
    """Return the names of the environments that were made and begin with ``incomplete``."""
    from hpclaunch.actions.environments.kept import kept_environments
    from hpclaunch.actions.system import System

    return list(dict.fromkeys(_completions((build.name for build in kept_environments(System())), incomplete)))


@plain
def recipes(ctx: Any, incomplete: str) -> list[str]:
    """Return the recipes that every job has, and those of the typed job."""
    job = _typed_job(ctx)
    return _completions(("plan", "job", *(job.recipes if job else ())), incomplete)


@plain
def settings(ctx: Any, incomplete: str) -> list[str]:
    """Return the parameters of the typed job as NAME=; after the sign the values that it may have."""
    job = _typed_job(ctx)
    if job is None:
        return []
    name, sign, _ = incomplete.partition("=")
    if not sign:
        return _completions((f"{one}=" for one in job.parameters), incomplete)
    choices = job.parameters[name].choices if name in job.parameters else ()
    return _completions((f"{name}={choice}" for choice in choices), incomplete)


@plain
def node_types(ctx: Any, incomplete: str) -> list[str]:
    """Return the node types of the site; after a comma those that are not typed yet."""
    site = _typed_site(ctx)
    typed, comma, rest = incomplete.rpartition(",")
    names = {one.partition(":")[0] for one in typed.split(",")}
    found = _completions((name for name in (site.node_types if site else ()) if name not in names), rest)
    return [f"{typed}{comma}{name}" for name in found]


@plain
def partitions(ctx: Any, incomplete: str) -> list[str]:
    """Return the partitions of the site."""
    site = _typed_site(ctx)
    return _completions(site.partitions if site else (), incomplete)


@plain
def qos(ctx: Any, incomplete: str) -> list[str]:
    """Return the QOS of the site."""
    site = _typed_site(ctx)
    return _completions(site.qos if site else (), incomplete)


@plain
def gpu_views(_: Any, incomplete: str) -> list[str]:
    """Return what a rank can see of its node's GPUs."""
    from hpclaunch.core.spec import GPU_VIEWS

    return _completions(GPU_VIEWS, incomplete)


@plain
def launchers(ctx: Any, incomplete: str) -> list[str]:
    """Return the launchers of the site; all of them if it names none."""
    from hpclaunch.launchers import LAUNCHERS

    site = _typed_site(ctx)
    own = tuple(site.launchers.options) if site and site.launchers else ()
    return _completions(own or LAUNCHERS, incomplete)


@plain
def states(_: Any, incomplete: str) -> list[str]:
    """Return the states of runs."""
    from hpclaunch.core.run_states import FINAL

    return _completions(("PENDING", "RUNNING", "UNKNOWN", *sorted(FINAL)), incomplete)


@plain
def ends(_: Any, incomplete: str) -> list[str]:
    """Return the states that ``runs repair`` can record."""
    from hpclaunch.actions.following.repair import STATES

    return _completions(STATES, incomplete)


@plain
def columns(_: Any, incomplete: str) -> list[str]:
    """Return the columns of the list of runs; after a comma the next one."""
    from hpclaunch.cli.show.run_columns import COLUMNS

    typed, comma, rest = incomplete.rpartition(",")
    return [f"{typed}{comma}{name}" for name in _completions(COLUMNS, rest)]


def _completions(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _typed_job(ctx: Any) -> Job | None:
    """Return the job that was typed; None for a script, and for one that cannot be read."""
    from hpclaunch.actions.projects.jobs import show_job
    from hpclaunch.actions.system import System
    from hpclaunch.core.errors import HpclaunchError

    name = ctx.params.get("target") or ctx.params.get("job")
    try:
        return show_job(System(), name)[1] if name else None
    except (HpclaunchError, OSError):
        return None


def _typed_site(ctx: Any) -> Site | None:
    """Return the site that was typed, else the usual one; None if there is none."""
    from hpclaunch.actions.clusters.sites import usual_site
    from hpclaunch.actions.system import System
    from hpclaunch.config.site import load_site
    from hpclaunch.core.errors import HpclaunchError

    system = System()
    try:
        return load_site(system.catalog, ctx.params.get("site") or usual_site(system)[0])
    except (HpclaunchError, OSError):
        return None


@plain
def topics(_: Any, incomplete: str) -> list[str]:
    """Return the topics of the manual that begin with ``incomplete``."""
    from hpclaunch.actions.manual import pages

    return [page.topic for page in pages() if page.topic.startswith(incomplete)]


def _names(family: FileFamily, incomplete: str) -> list[str]:
    from hpclaunch.actions.system import System

    catalog = System().catalog
    found = [file for file in catalog.names(family) if file.name.startswith(incomplete)]
    return [file.name for file in found if file.origin == "bundled" or not catalog.keeper.doubtful(file.path)]
