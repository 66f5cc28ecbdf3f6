"""Keeps what was read of YAML files, so that an unchanged file is not parsed again: parsing takes a tenth of a dry run.

What is kept stands beside the text that it was read from, and counts only for the same text, read by the same code. So
it is never older than its file, whatever the times of files say.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hpclaunch.config.plain_files import read_text_file
from hpclaunch.core.files import is_own_folder, json_object, read_text, write_text

_READERS = ("hpclaunch.config.documents", "hpclaunch.config.plain_files", "yaml")
"""The modules that read YAML: with another version of them, what is kept does not count."""


def read_kept(path: Path, folder: Path | None) -> dict[str, Any]:
    """Return the mapping in a YAML file, as ``documents.read_yaml`` does: from ``folder``, where it was kept before.

    A folder that cannot be used, or that others may write, changes nothing; None: nothing is kept. Raises InvalidFile.
    """
    text = read_text_file(path)
    place = folder / f"{zlib.crc32(os.fsencode(path)):08x}.json" if folder else None
    if place:
        kept = json_object(read_text(place)) if _is_own(place.parent) else {}
        if kept.get("text") == text and kept.get("readers") == _readers() and isinstance(kept.get("values"), dict):
            return dict(kept["values"])
    from hpclaunch.config.documents import yaml_values  # the parser of YAML, which takes longer than all of this

    values = yaml_values(path, text)
    if place:
        _keep(place, text, values)
    return values


def _keep(place: Path, text: str, values: dict[str, Any]) -> None:
    """Write what was read of a text, if JSON can hold it; keys that are numbers, for example, would become texts."""
    with contextlib.suppress(OSError, TypeError, ValueError):
        content = json.dumps({"text": text, "readers": _readers(), "values": values})
        if _readers() and json.loads(content)["values"] == values:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A file that only its owner may read is not to be read here by others.
            if is_own_folder(place.parent) and not place.parent.stat().st_mode & 0o077:
                write_text(place, content, durable=False)


def _is_own(folder: Path) -> bool:
    try:
        return is_own_folder(folder)
    except OSError:
        return False


@lru_cache(maxsize=1)
def _readers() -> list[int]:
    """Return a checksum of the code of each reader; none if it cannot be read, as of a package in an archive."""
    checksums = []
    for name in _READERS:
        found = find_spec(name)
        try:
            checksums.append(zlib.crc32(Path(found.origin).read_bytes()) if found and found.origin else 0)
        except OSError:
            return []
    return checksums
