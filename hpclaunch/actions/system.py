"""What is outside the program: clock, folders, environment, and the messages to the user while a command works."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from hpclaunch.core.folders import cache_folder, user_folder
from hpclaunch.core.records import record

if TYPE_CHECKING:
    from hpclaunch.config.catalog import Catalog
    from hpclaunch.core.consents import Keeper
    from hpclaunch.runs.snapshot import Snapshot


def _git_state(snapshot: Snapshot) -> str:
    from hpclaunch.runs import git_state

    return git_state(snapshot)


@record
class System:
    """Everything that is outside the program. ``warn`` and ``tell`` take messages for the user.

    ``confirm`` asks a question on the terminal, and returns whether the answer was yes; None without a terminal.
    ``git_state`` tells the commit of a run's code.
    """

    cwd: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict(os.environ)))
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    unique: Callable[[], str] = lambda: os.urandom(4).hex()
    git_state: Callable[[Snapshot], str] = _git_state
    warn: Callable[[str], None] = lambda text: None
    tell: Callable[[str], None] = lambda text: None
    confirm: Callable[[str], bool | None] = lambda question: None

    @cached_property
    def catalog(self) -> Catalog:
        """Where sites, jobs and templates are looked up."""
        from hpclaunch.config.catalog import Catalog  # commands about runs look up no file of a site or job

        kept = cache_folder(self.environment) / "files"
        return Catalog(project=self.cwd, user=user_folder(self.environment), keeper=self.keeper, kept=kept)

    @property
    def keeper(self) -> Keeper:
        """What tells which files are taken from a folder."""
        from hpclaunch.core.consents import keeper_of

        return keeper_of(self.environment)

    @property
    def index(self) -> Path:
        """The file that lists the runs."""
        from hpclaunch.runs import index_file

        return index_file(self.environment)

    @property
    def run_folders(self) -> list[Path]:
        """Folders that may hold run directories of this project, besides those in the list of runs.

        They have no links in them, as those in the list: ``runs`` may lead to another disk.
        """
        named = self.environment.get("HPCLAUNCH_RUNS_DIR")
        folders = [self.cwd / "runs", *([self.cwd / named] if named else [])]
        return list(dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders))
