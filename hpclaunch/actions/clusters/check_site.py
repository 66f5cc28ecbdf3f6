"""``sites check``: a site's file beside what its scheduler, ``module`` and the file system answer now; its patch."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from hpclaunch.actions.clusters.listed_modules import module_findings
from hpclaunch.actions.clusters.named_files import file_findings
from hpclaunch.actions.place import choose_site, context_at
from hpclaunch.actions.preparing.this_machine import misplaced_at
from hpclaunch.actions.system import System
from hpclaunch.config.catalog import SITE, Found
from hpclaunch.config.documents import yaml_values
from hpclaunch.config.fileformat import read
from hpclaunch.config.plain_files import read_text_file
from hpclaunch.config.provenance import longest
from hpclaunch.config.settings import load_settings
from hpclaunch.config.site import Site
from hpclaunch.config.source_age import is_old
from hpclaunch.config.yaml_edits import Change, edited
from hpclaunch.core.errors import Fault, HpclaunchError, InvalidFile, Refused, SchedulerError
from hpclaunch.core.folders import user_folder
from hpclaunch.core.records import record
from hpclaunch.core.spec import Request
from hpclaunch.schedulers import scheduler_of
from hpclaunch.sites.describe.check import Finding
from hpclaunch.sites.describe.platforms import PLATFORMS

AGREES, DIFFERS, NOT_ASKED = 0, 1, 3
"""The exit codes: all that was asked agrees; something differs; nothing differs, but not everything could be asked."""
_BOOKS = ("origins", "derived", "unverified")


class NotAsked(HpclaunchError):
    """A site's file cannot be checked on this machine, or its scheduler does not answer."""

    exit_code = NOT_ASKED


@record
class CheckedValue:
    """A finding about a value of the file: ``said`` there (None: it has none), with its sources and their dates.

    ``old``: they are all old. ``corrected``: the patch corrects it.
    """

    finding: Finding
    said: Any
    sources: tuple[str, ...] = ()
    old: bool = False
    corrected: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        finding = self.finding
        return {
            "key": finding.key,
            "verdict": finding.verdict,
            "file": self.said,
            "sources": list(self.sources),
            "old": self.old,
            "now": finding.now,
            "what": finding.what,
            "asked": finding.asked,
            "corrected": self.corrected,
        }


@record
class SiteCheck:
    """The checked file of a site. ``text``: the corrected file; ``patch``: its differences, empty without any.

    ``also``: partitions and QOS that the scheduler has, and the file does not list. ``written``: where the corrected
    file was written.
    """

    found: Found
    values: tuple[CheckedValue, ...]
    also: Mapping[str, tuple[str, ...]]
    text: str
    patch: str
    written: Path | None = None

    def of(self, verdict: str) -> list[CheckedValue]:
        """Return the values with this verdict."""
        return [one for one in self.values if one.finding.verdict == verdict]

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.of("differs"):
            return DIFFERS
        return NOT_ASKED if self.of("not asked") else AGREES

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "site": self.found.name,
            "path": str(self.found.path),
            "origin": self.found.origin,
            "exit_code": self.exit_code,
            "values": [one.to_json() for one in self.values],
            "also": {family: list(names) for family, names in self.also.items()},
            "patch": self.patch,
            "written": str(self.written) if self.written else None,
        }


def check_site(system: System, name: str | None) -> SiteCheck:
    """Return the file of a site (None: the usual one) beside what is answered now.

    Raises NotAsked if this machine is not the site's or its scheduler does not answer, and NotFound or InvalidFile.
    """
    choice = choose_site(system, name, load_settings(system.catalog))
    site, context = choice.site, context_at(system, Request(target=""), choice)
    found = system.catalog.find(SITE, site.name)
    _require_place(site, misplaced_at(site, context), system.environment)
    try:
        scheduler = scheduler_of(site.scheduler).check(site)
    except SchedulerError as error:
        raise NotAsked(error.faults) from None
    findings = [
        *scheduler.findings,
        *module_findings(site, system.environment),
        *file_findings(site, context),
    ]
    text = read_text_file(found.path)
    content, today = yaml_values(found.path, text), system.now().date()
    changes = [one.change for one in findings if one.change is not None]
    source = f"{site.scheduler}-{today.isoformat()}"
    ref = f"{scheduler.cluster}, asked by hpclaunch sites check"
    corrected, made = edited(text, changes)
    corrected = _add_sources(corrected, made, source, {"ref": ref, "read": today.isoformat()})
    values = [_checked_value(site, content, one, today, one.change in made) for one in findings]
    return SiteCheck(
        found=found,
        values=tuple(values),
        also=scheduler.also,
        text=corrected,
        patch=_patch(found.path, text, corrected),
    )


def _checked_value(
    site: Site, content: Mapping[str, Any], finding: Finding, today: date, corrected: bool
) -> CheckedValue:
    said = _value_at(content, finding.path)
    names = site.origins.get(longest(finding.key, site.origins) or "", ()) if said is not None else ()
    sources = tuple(f"{name} ({site.sources[name].read})" if name in site.sources else name for name in names)
    old = is_old(site, names, today)
    return CheckedValue(finding=finding, said=said, sources=sources, old=old, corrected=corrected)


def _require_place(site: Site, faults: Sequence[Fault], environment: Mapping[str, str]) -> None:
    """Raise NotAsked unless this is a machine of the site with its scheduler's programs."""
    row = site.scheduler_row
    if not row.has_queue:
        what = f"{site.name} has no scheduler: its file is not checked, but looked at whenever it is used"
        raise NotAsked(Fault(what=what, next=f"hpclaunch sites show {site.name}"))
    step = f"log in at {site.name}, and type it there"
    if site.status == "retired":
        step = "hpclaunch sites list"
    elif site.name in {one.name for one in PLATFORMS}:
        step = f"hpclaunch sites detect --name NAME, on a cluster of {site.name}: its own file can be checked"
    if faults:
        raise NotAsked([one if one.where else replace(one, next=step) for one in faults])
    if shutil.which(row.start_command, path=environment.get("PATH", os.defpath)) is None:
        what = f"this machine has no {row.start_command}, so {row.title} cannot be asked about {site.name}"
        raise NotAsked(Fault(what=what, next=step))


def _value_at(content: Mapping[str, Any], path: Sequence[str]) -> Any:
    place: Any = content
    for name in path:
        if not isinstance(place, dict) or name not in place:
            return None
        place = place[name]
    return place


# --- The corrected file


def _add_sources(text: str, made: Sequence[Change], source: str, entry: Mapping[str, str]) -> str:
    """Return the text with the origin of every corrected value, and without notes about the value before."""
    content = yaml_values("text", text)
    books: list[Change] = []
    for change in made:
        key = ".".join(change.path)
        for book in _BOOKS:
            below = [one for one in content.get(book) or {} if one == key or one.startswith(f"{key}.")]
            books += [Change(path=(book, one), removes=True) for one in below]
        if not change.removes:
            books.append(Change(path=("origins", key), value=[source]))
    marked = content.get("third_party")
    if isinstance(marked, list):
        kept = [one for mark in marked for one in _marks_kept(content, str(mark), made)]
        if kept != marked:
            books.append(Change(path=("third_party",), value=kept, removes=not kept))
    if any(not change.removes for change in made):
        books.append(Change(path=("sources", source), value=dict(entry)))
    return edited(text, books)[0]


def _marks_kept(content: Mapping[str, Any], mark: str, made: Sequence[Change]) -> list[str]:
    """Return what is left of the mark of a third party's value: none, or those of the values below that stay.

    ``content``: the corrected values. The rest of a mapping of which one member went keeps its mark.
    """
    if any(mark == key or mark.startswith(f"{key}.") for key in (".".join(change.path) for change in made)):
        return []
    set_below = [one for one in made if not one.removes and ".".join(one.path).startswith(f"{mark}.")]
    if not set_below:
        return [mark]
    depth = mark.count(".") + 1
    members = _value_at(content, set_below[0].path[:depth])
    if not isinstance(members, Mapping):
        return [mark]
    return [one for name in members for one in _marks_kept(content, f"{mark}.{name}", made)]


def _patch(path: Path, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), str(path), str(path))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write(system: System, checked: SiteCheck) -> SiteCheck:
    """Write the corrected file to the user's own folder of sites, and return the check with its path.

    A file of the user's own is replaced, and kept beside it. Raises Refused if another file is in the way, and
    InvalidFile if the corrected file could not be used.
    """
    found = checked.found
    path = user_folder(system.environment) / SITE.folder / SITE.entry.format(found.name)
    is_own = found.origin == "user"
    if not is_own and (path.exists() or path.is_symlink()):
        what = f"exists already, and is not the file that was checked ({found.path})"
        raise Refused(Fault(where=str(path), what=what, next="move it, or correct it by the patch"))
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{system.unique()}")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & ~0o022)  # one that others can change is not used
            file.write(checked.text)
        read(draft, Site, name=found.name)
        if is_own:
            when = system.now().strftime("%Y%m%d-%H%M%S")
            os.link(path.resolve(), path.with_name(f"{path.name}.{when}"))
            draft.replace(path.resolve())
        else:
            os.link(draft, path)
    except InvalidFile as error:
        what = f"the corrected file could not be used: {error.faults[0].what}"
        raise Refused(Fault(where=str(found.path), what=what, next="correct it by hand: see the table")) from None
    finally:
        draft.unlink(missing_ok=True)
    if found.origin == "project":
        system.warn(f"the project's own file {found.path} still comes before {path}")
    return replace(checked, written=path)
