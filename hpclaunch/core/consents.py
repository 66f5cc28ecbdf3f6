"""Which files of a project or of the user are taken: those that nobody else can change, or with a consent.

A consent is for one folder and what is in it. It holds the identity (owner, group, permissions, inode) of that folder
and of each place on the way where somebody else can change it. When one of these changes, it ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hpclaunch.core.errors import ChangeableByOthers, Fault
from hpclaunch.core.files import append_line, json_lines, write_text
from hpclaunch.core.folders import state_folder
from hpclaunch.core.protection import WeakPlace, place_of, weak_places
from hpclaunch.core.quoting import shell_word
from hpclaunch.core.records import record

FILE = "shared-folders.jsonl"
_MOST_NAMED = 3


@record
class Keeper:
    """Tells files that are taken from others. ``state``: the folder with the consents; ``home``: the user's home."""

    state: Path | None = None
    home: str = ""

    def require(self, path: Path, folder: Path, outcome: str = "is not used") -> None:
        """Raise ChangeableByOthers if somebody else can change a file and the user has not consented to its folder.

        ``folder`` is the one that the user would consent to, and ``outcome`` says in words what becomes of the file.
        """
        weak = self.doubtful(path)
        if not weak:
            return
        named = "; ".join(map(str, weak[:_MOST_NAMED])) + ("; ..." if weak[_MOST_NAMED:] else "")
        consent = f"hpclaunch trust {shell_word(os.path.realpath(folder))} --despite-group"
        next_step = "; or, ".join(filter(None, [_chmod(weak), f"if you trust them: {consent}"]))
        what = f"{outcome}, as others can change it: {named}"
        raise ChangeableByOthers(Fault(where=str(path), what=what, next=next_step))

    def doubtful(self, path: Path) -> list[WeakPlace]:
        """Return where somebody else can change a file or folder, unless the user has consented to this."""
        weak = weak_places(path, self.home)
        if not weak:
            return []
        real = os.path.realpath(path)
        return [] if any(_covers(consent, real, weak) for consent in self._consents()) else weak

    def consent(self, folder: Path) -> None:
        """Take the files in a folder from now on, whoever can change them now.

        Raises OSError, and ChangeableByOthers if somebody else could write consents.
        """
        if self.state is None:
            raise ValueError("there is no folder for consents")
        make_private(self.state / FILE)
        self.require_own(self.state / FILE)
        real = os.path.realpath(folder)
        places = [place_of(real), *(place for place in weak_places(real, self.home) if place.path != real)]
        append_line(self.state / FILE, json.dumps({"folder": real, "places": [place.identity for place in places]}))

    def withdraw(self, folder: Path) -> bool:
        """Forget the consents for a folder, and return whether there were any. Raises OSError."""
        real, consents = os.path.realpath(folder), self._consents()
        kept = [consent for consent in consents if consent.get("folder") != real]
        if self.state is None or len(kept) == len(consents):
            return False
        write_text(self.state / FILE, "".join(f"{json.dumps(consent)}\n" for consent in kept))
        return True

    def _consents(self) -> list[Mapping[str, Any]]:
        if self.state is None or weak_places(self.state / FILE, self.home):
            return []
        return list(json_lines(self.state / FILE))

    def require_own(self, file: Path) -> None:
        """Raise ChangeableByOthers if somebody else can change what hpclaunch keeps here; no consent allows that."""
        weak = weak_places(file, self.home)
        if weak:
            what = f"others can change what is kept here: {'; '.join(map(str, weak[:_MOST_NAMED]))}"
            next_step = _chmod(weak) or "set XDG_STATE_HOME to a folder that only you can change"
            raise ChangeableByOthers(Fault(where=str(file), what=what, next=next_step))


def _chmod(weak: Iterable[WeakPlace]) -> str:
    """Return the command after which nobody else can change the places; empty if some are not this user's."""
    places = list(weak)
    if any(place.owner != os.geteuid() for place in places):
        return ""
    return f"chmod go-w {' '.join(shell_word(place.path) for place in places)}"


def make_private(file: Path) -> None:
    """Make a file and its folder, unless they exist, which only this user can change. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def keeper_of(environment: Mapping[str, str]) -> Keeper:
    """Return the keeper of the user whose environment this is."""
    return Keeper(state=state_folder(environment), home=environment.get("HOME", ""))


def _covers(consent: Mapping[str, Any], path: str, weak: Iterable[WeakPlace]) -> bool:
    """Whether a consent is for this file, and everything that it was given for is as it was."""
    folder, recorded = consent.get("folder"), consent.get("places")
    if not isinstance(folder, str) or not isinstance(recorded, list):
        return False
    if path != folder and not path.startswith(f"{folder}/"):
        return False
    agreed = {tuple(place) for place in recorded if isinstance(place, list)}
    try:
        if place_of(folder).identity not in agreed:
            return False
    except OSError:
        return False
    return all(place.identity in agreed or place.path.startswith(f"{folder}/") for place in weak)
