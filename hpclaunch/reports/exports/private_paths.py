"""Replaces the folders of a machine by names in what is published; it reads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hpclaunch.core.records import record


@record
class PrivatePaths:
    """Folder -> the name that stands for it, and ``meanings``: the name -> what it is, for the reader."""

    names: Mapping[str, str]
    meanings: Mapping[str, str]

    def without(self, text: str) -> str:
        """Return the text with every folder replaced by its name, the longest first; also as JSON spells it."""
        if not self.names:
            return text
        spelled = {form: name for folder, name in self.names.items() for form in (folder, json.dumps(folder)[1:-1])}
        longest = sorted(spelled, key=len, reverse=True)
        # A longer name of a neighbour (/home/ada2) is another folder.
        pattern = re.compile(f"(?:{'|'.join(map(re.escape, longest))})(?![\\w.-]*\\w)")
        return pattern.sub(lambda found: spelled[found[0]], text)


def private_paths(folders: Mapping[str, tuple[str, str]]) -> PrivatePaths:
    """Return the replacements for name -> (folder, what it is); a folder that is not absolute, or /, is left out.

    If two names have one folder, the first counts.
    """
    names: dict[str, str] = {}
    for name, (folder, _) in folders.items():
        place = folder.rstrip("/")
        if place.startswith("/") and place not in names:
            names[place] = name
    return PrivatePaths(
        names=names, meanings={name: what for name, (_, what) in folders.items() if name in names.values()}
    )
