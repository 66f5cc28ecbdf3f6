"""Finds a site, job or template by name: first in the project, then in the user's folder, then among the bundled."""

from __future__ import annotations

import os
import re
from dataclasses import field
from pathlib import Path

from hpclaunch.core.consents import Keeper
from hpclaunch.core.errors import Fault, NotFound, did_you_mean
from hpclaunch.core.files import is_there
from hpclaunch.core.folders import PACKAGE
from hpclaunch.core.records import record

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@record
class FileFamily:
    """Files that are found by name: ``folder`` holds them, ``entry`` is the pattern of their names."""

    noun: str
    folder: str
    entry: str
    listing: str


SITE = FileFamily(noun="site", folder="site_configs", entry="{}.yaml", listing="hpclaunch sites list")
JOB = FileFamily(noun="job", folder="jobs", entry="{}/job.yaml", listing="hpclaunch jobs list")
THIS_MACHINE = "local"
"""The bundled site for a machine that belongs to no cluster."""


@record
class Found:
    """Where a name was found; ``origin`` is ``project``, ``user`` or ``bundled``."""

    name: str
    path: Path
    origin: str


@record
class Catalog:
    """The three places to look in, highest precedence first; ``keeper`` tells which of their files are taken.

    ``kept``: the folder that keeps what was read of them, so that it is not parsed again; None: nothing is kept.

    A folder, or a file that was found, is looked up once: a command makes a catalog for itself.
    """

    project: Path
    user: Path
    keeper: Keeper = Keeper()
    kept: Path | None = None
    _known_roots: dict[str, list[tuple[str, Path]]] = field(default_factory=dict, compare=False, repr=False)
    _known_files: dict[tuple[str, str], Found] = field(default_factory=dict, compare=False, repr=False)
    _taken: set[Path] = field(default_factory=set, compare=False, repr=False)

    def roots(self, folder: str) -> list[tuple[str, Path]]:
        """Return (origin, folder) of those that exist, highest precedence first.

        The bundled folder is always the last; a project that is the bundled folder itself counts as bundled.
        """
        if folder not in self._known_roots:
            shipped = bundled(folder)
            own = [("project", self.project / folder), ("user", self.user / folder)]
            found = [(origin, path) for origin, path in own if _is_another(path, shipped)]
            self._known_roots[folder] = [*found, ("bundled", shipped)]
        return self._known_roots[folder]

    def template_roots(self) -> list[tuple[str, Path]]:
        """Return the folders of templates as `roots` does, without those that this user may not read."""
        return [root for root in self.roots("templates") if not _is_closed(root[1])]

    def require(self, origin: str, path: Path) -> None:
        """Raise ChangeableByOthers for a file that others can change; what is bundled is trusted as hpclaunch is."""
        if origin != "bundled" and path not in self._taken:
            self.keeper.require(path, self.project if origin == "project" else self.user)
            self._taken.add(path)

    def find(self, family: FileFamily, name: str) -> Found:
        """Return where ``name`` is. Raises NotFound with the nearest names.

        A file that cannot be read counts, whatever it is: whoever reads it tells why.
        """
        known = self._known_files.get((family.folder, name))
        if known is not None:
            return known
        if NAME.fullmatch(name):
            for origin, folder in self.roots(family.folder):
                path = folder / family.entry.format(name)
                if is_there(path) and not _is_closed(folder):
                    found = Found(name=name, path=path, origin=origin)
                    self._known_files[family.folder, name] = found
                    return found
        raise NotFound(self._missing_name_fault(family, name))

    def names(self, family: FileFamily) -> list[Found]:
        """Return all files of a family, sorted by name; of several with one name, only the one that is used."""
        found: dict[str, Found] = {}
        for origin, folder in self.roots(family.folder):
            for name in _names_in(folder, family):
                path = folder / family.entry.format(name)
                if name not in found and is_there(path):
                    found[name] = Found(name=name, path=path, origin=origin)
        return [found[name] for name in sorted(found)]

    def _missing_name_fault(self, family: FileFamily, name: str) -> Fault:
        known = [found.name for found in self.names(family)]
        what = f"no {family.noun} is called {name!r}{did_you_mean(name, known)}"
        closed = [str(folder) for _, folder in self.roots(family.folder) if _is_closed(folder)]
        if closed:
            what += f"; you may not read {', '.join(closed)}"
        return Fault(what=what, allowed=", ".join(known), next=family.listing)


def _names_in(folder: Path, family: FileFamily) -> list[str]:
    """Return the names that a folder may have files of this family for; none if this user may not read it."""
    if _is_closed(folder):
        return []
    suffix = "" if "/" in family.entry else family.entry.removeprefix("{}")
    try:
        names = [entry.removesuffix(suffix) for entry in os.listdir(folder) if entry.endswith(suffix)]
    except OSError:
        return []
    return [name for name in names if NAME.fullmatch(name)]


def _is_another(path: Path, shipped: Path) -> bool:
    """Whether there is such a folder, and it is not the bundled one; one that this user may not enter counts."""
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return not os.path.samestat(about, os.stat(shipped))


def _is_closed(folder: Path) -> bool:
    """Whether a folder exists that this user may not list and enter."""
    return is_there(folder) and not os.access(folder, os.R_OK | os.X_OK)


def bundled(folder: str) -> Path:
    """Return a bundled folder: inside the wheel, or beside the package in a checkout (editable install)."""
    installed = PACKAGE / "_bundled" / folder
    return installed if installed.is_dir() else PACKAGE.parent / folder
