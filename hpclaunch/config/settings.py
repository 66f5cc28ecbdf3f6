"""The keys of a user's and a project's settings files, and how they are read; they never contain a secret."""

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from hpclaunch.config.catalog import Catalog
from hpclaunch.config.fileformat import INTERNAL, AtLeast, Environment, LauncherName, Line, Walltime, read
from hpclaunch.core.files import is_there
from hpclaunch.core.records import record
from hpclaunch.core.scheduler_rows import SchedulerRow

SETTINGS_FILE = "settings.yaml"
PROJECT_FILE = "hpclaunch.yaml"
OF_PROJECT = f"project {PROJECT_FILE}"
OF_PERSON = "settings"
"""The origins of choices that such a file made."""


@record
class Mail:
    """The address that Slurm sends mail to, and the events."""

    to: Line
    events: Annotated[
        tuple[Literal["BEGIN", "END", "FAIL", "REQUEUE", "TIME_LIMIT", "TIME_LIMIT_80", "ALL"], ...], AtLeast(1)
    ] = ("END", "FAIL")


@record
class SiteSettings:
    """A person's settings for one site, or for all.

    ``sbatch`` options are added to every script. ``remove`` removes lines from it: ``--option`` of sbatch and the
    launcher, ``NAME`` of a variable, or the text of a line of set-up.
    """

    account: Line | None = None
    partition: Line | None = None
    qos: Line | None = None
    node_type: Line | None = None
    walltime: Walltime | None = None
    launcher: LauncherName | None = None
    restarts: Annotated[int, AtLeast(0)] | None = None
    signal: Line | None = None
    rank_logs: Annotated[int, AtLeast(0)] | None = None
    samples: bool | None = None
    runs_dir: Line | None = None
    data_dir: Line | None = None
    mail: Mail | None = None
    environment: Environment = field(default_factory=Environment)
    sbatch: tuple[Line, ...] = ()
    remove: tuple[Line, ...] = ()


@record
class Settings(SiteSettings):
    """A settings file: values for all sites, and under ``sites`` those for one.

    ``weaker`` is the settings file that this one overrides.
    """

    site: Line | None = None
    sites: dict[str, SiteSettings] = field(default_factory=dict)
    origin: str = field(default=OF_PERSON, metadata=INTERNAL)
    weaker: Union["Settings", None] = field(default=None, metadata=INTERNAL)

    def levels(self, site: str) -> list[tuple[str, SiteSettings]]:
        """Return (origin, settings), highest precedence first: for this site, for all sites, then the weaker file's."""
        own = [(self.origin, self.sites.get(site, SiteSettings())), (self.origin, self)]
        return [*own, *(self.weaker.levels(site) if self.weaker else [])]

    def offer(self, key: str, site: str) -> tuple[str, Any]:
        """Return (origin, value) of the level with the highest precedence that sets ``key``; the value may be None."""
        offers = [(origin, getattr(level, key)) for origin, level in self.levels(site)]
        return next(((origin, value) for origin, value in offers if value is not None), (self.origin, None))

    def all(self, key: str, site: str) -> tuple[str, ...]:
        """Return the lists of all levels under ``key``, lowest precedence first."""
        return tuple(item for _, level in reversed(self.levels(site)) for item in getattr(level, key))

    def environment_at(self, site: str) -> Environment:
        """Return one environment of all levels: lists are joined; variables and Python of a higher level override."""
        merged = Environment()
        for _, level in reversed(self.levels(site)):
            merged = merged.under(level.environment)
        return merged

    def default_site(self) -> tuple[str, str | None]:
        """Return (origin, site) of the file with the highest precedence that names a site."""
        if self.site or not self.weaker:
            return self.origin, self.site
        return self.weaker.default_site()

    def named_sites(self) -> list[tuple[str, str]]:
        """Return (origin, site) for every site that has settings of its own."""
        own = [(self.origin, name) for name in self.sites]
        return [*own, *(self.weaker.named_sites() if self.weaker else [])]


def load_settings(catalog: Catalog) -> Settings:
    """Return the project's settings, which override the user's; a missing file is empty.

    Raises InvalidFile, also for a file that others can change: its lines would run in every job.
    """
    weaker = _read(catalog, "user", catalog.user / SETTINGS_FILE)
    path = catalog.project / PROJECT_FILE
    if not is_there(path):
        return weaker
    return replace(_read(catalog, "project", path), origin=OF_PROJECT, weaker=weaker)


def _read(catalog: Catalog, origin: str, path: Path) -> Settings:
    if not is_there(path):
        return Settings()
    catalog.require(origin, path)
    return read(path, Settings, catalog.kept)


def shell_choices(scheduler: SchedulerRow, environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return key -> (variable, value) for the scheduler's variables that name account, partition or QOS.

    They count only outside a job: inside a job the scheduler itself sets them, to the values of that job.
    """
    if scheduler.inside_job in environment:
        return {}
    return {key: (name, environment[name]) for key, name in scheduler.shell_choices if environment.get(name)}
