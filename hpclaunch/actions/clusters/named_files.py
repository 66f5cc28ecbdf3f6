"""Whether the folders, images and files that a site file names are there now, as far as this machine shows them.

Folders that only compute nodes have (``node_private``) are not looked for.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping

from hpclaunch.config.fileformat import Environment
from hpclaunch.config.site import Site
from hpclaunch.core.spec import Context
from hpclaunch.resolve.environment.folders import expanded, variables_in
from hpclaunch.sites.describe.check import Finding, Path

_ASKED = "the file system"
_SOURCES = re.compile(r"(?:^|[;&]\s*)(?:source|\.)\s+(\S+)")
_MADE = ("runs", "data", "environments")
"""The folders that hpclaunch makes when it needs them."""


def file_findings(site: Site, context: Context) -> list[Finding]:
    """Return a finding for every folder and file that the file names. ``context``: for its variables."""
    found = []
    for path, text, is_made in _places(site):
        where = expanded(text, context)
        missing = variables_in(where)
        if missing:
            what = f"{', '.join(f'${name}' for name in missing)} is not set in this shell"
            found.append(Finding(path=path, verdict="not asked", asked=_ASKED, what=what))
        elif where.startswith("/"):
            found.append(_look(path, where, is_made))
    return found


def _places(site: Site) -> Iterator[tuple[Path, str, bool]]:
    """Yield (path of the key, place, whether hpclaunch makes it) of everything that is named as a path."""
    for key in _MADE:
        folder = getattr(site.folders, key)
        if folder:
            yield ("folders", key), folder, True
    environments: dict[Path, Environment | None] = {("environment",): site.environment}
    environments |= {("frameworks", name): one for name, one in site.frameworks.items()}
    for key, node in site.node_types.items():
        environments[("node_types", key, "environment")] = node.environment
        environments |= {("node_types", key, "frameworks", name): one for name, one in node.frameworks.items()}
    for path, one in environments.items():
        if one is not None:
            yield from _places_of(path, one)
    for name, recipe in site.recipes.items():
        if recipe.image and _is_path(recipe.image):
            yield ("recipes", name, "image"), recipe.image, False
        for line in recipe.setup:
            yield from ((("recipes", name, "setup"), word, False) for word in _files_sourced(line))


def _places_of(path: Path, environment: Environment) -> Iterator[tuple[Path, str, bool]]:
    named: Mapping[str, str | None] = {
        key: getattr(environment, key) for key in ("container", "venv", "conda", "python")
    }
    for key, text in named.items():
        if text and _is_path(text):
            yield (*path, key), text, False
    for line in environment.setup:
        yield from (((*path, "setup"), word, False) for word in _files_sourced(line))


def _is_path(text: str) -> bool:
    """Whether a text names a file here: an image may have an address of a registry, an interpreter only a name."""
    return text.startswith(("/", "$", "~"))


def _files_sourced(line: str) -> list[str]:
    """Return the files that a line of set-up reads, if it names them as plain paths."""
    words = []
    for word in _SOURCES.findall(line):
        try:
            plain = "".join(shlex.split(word))
        except ValueError:
            continue
        if _is_path(plain) and not set(plain) & set("`()*?[]\"'"):
            words.append(plain)
    return words


def _look(path: Path, where: str, is_made: bool) -> Finding:
    try:
        os.stat(where)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Finding(path=path, verdict="not asked", asked=_ASKED, what=f"{where}: {why}")
    else:
        return Finding(path=path, verdict="agrees", asked=_ASKED, now=where)
    if not is_made:
        return Finding(path=path, verdict="differs", asked=_ASKED, what=f"{where} does not exist")
    above = _nearest_folder(where)
    if os.access(above, os.W_OK | os.X_OK):
        return Finding(path=path, verdict="agrees", asked=_ASKED, now=where)
    what = f"{where} does not exist, and you cannot make it in {above}"
    return Finding(path=path, verdict="differs", asked=_ASKED, what=what)


def _nearest_folder(where: str) -> str:
    """Return the nearest folder above a path that exists."""
    above = os.path.dirname(where)
    while above != "/" and not os.path.lexists(above):
        above = os.path.dirname(above)
    return above
