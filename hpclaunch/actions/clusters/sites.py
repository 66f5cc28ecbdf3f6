"""``sites list`` and ``sites show``, and the default site of a submission."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

from hpclaunch.config.catalog import SITE, Catalog, Found
from hpclaunch.config.documents import read_yaml
from hpclaunch.config.provenance import values
from hpclaunch.config.site import Site, load_site
from hpclaunch.config.source_age import age_words, newest_of_file, old_keys
from hpclaunch.core.errors import InvalidFile
from hpclaunch.core.records import record
from hpclaunch.sites.card import sections_of
from hpclaunch.sites.card.lines import Row, Section
from hpclaunch.sites.card.short import gpus_in_short, lacks

if TYPE_CHECKING:
    from hpclaunch.actions.system import System
    from hpclaunch.core.hardware import Hardware


@record
class SiteLine:
    """A site in a list. ``gpus``: those of its usual node type; ``unverified``: essential keys that its file lacks."""

    name: str
    origin: str
    status: str
    title: str
    gpus: str = ""
    launcher: str = ""
    unverified: tuple[str, ...] = ()


def list_sites(catalog: Catalog) -> list[SiteLine]:
    """Return all sites, one line each; for a faulty file the title is the error."""
    return [_line(catalog, found) for found in catalog.names(SITE)]


def _line(catalog: Catalog, found: Found) -> SiteLine:
    try:
        site = load_site(catalog, found.name)
    except InvalidFile as error:
        title = f"cannot be used: {error.faults[0]}"
        return SiteLine(name=found.name, origin=found.origin, status="faulty", title=title)
    return SiteLine(
        name=found.name,
        origin=found.origin,
        status=site.status,
        title=site.title,
        gpus=gpus_in_short(site),
        launcher=site.launchers.default if site.launchers else "",
        unverified=tuple(lacks(site)),
    )


def site_file(catalog: Catalog, name: str) -> Found:
    """Return where a site was found. Raises NotFound."""
    return catalog.find(SITE, name)


def site_card(catalog: Catalog, name: str, today: date, environment: Mapping[str, str] = os.environ) -> list[Section]:
    """Return the sections of a site's card on the day ``today``. Raises NotFound or InvalidFile."""
    found, site = site_file(catalog, name), load_site(catalog, name)
    content = read_yaml(found.path)
    old = old_keys(site, values(site, content), today)
    return [
        *sections_of(site, content, f"{found.path} ({found.origin})", age_words(site, today), old),
        *_found_here(site, environment),
    ]


def _found_here(site: Site, environment: Mapping[str, str]) -> list[Section]:
    """Return what is found on this machine, and how, if the site is this machine."""
    hardware = hardware_of(site, environment)
    if hardware is None:
        return []
    rows = [Row(label=what, pieces=((how, ""),)) for what, how in hardware.how]
    rows += [Row(label="note", pieces=((remark, "third-party"),)) for remark in hardware.remarks]
    return [Section(title="Found on this machine", rows=tuple(rows))]


def hardware_of(site: Site, environment: Mapping[str, str]) -> Hardware | None:
    """Return the hardware of this machine, if the site is this machine."""
    if not site.is_this_machine:
        return None
    from hpclaunch.sites.found import find_hardware  # loads ctypes

    return find_hardware(environment)


def site_as_json(
    catalog: Catalog, name: str, today: date, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return a site as plain values; ``provenance`` lists every value of its file with its sources.

    ``old``: whether these are all older than OLD_MONTHS on the day ``today``.
    """
    found, site = site_file(catalog, name), load_site(catalog, name)
    file_values = values(site, read_yaml(found.path))
    old = old_keys(site, file_values, today)
    provenance = [{**asdict(value), "old": value.key in old} for value in file_values]
    place = {"path": str(found.path), "origin": found.origin}
    hardware = hardware_of(site, environment)
    seen = {"found": asdict(hardware)} if hardware else {}
    dated = {"newest_source": newest_of_file(site) or None}
    return {**place, **seen, **dated, **asdict(site), "needs_accept_unverified": lacks(site), "provenance": provenance}


def usual_site(system: System) -> tuple[str, str]:
    """Return the site of a submission without --site, and who chose it. Raises HpclaunchError."""
    from hpclaunch.actions.place import choose_site
    from hpclaunch.config.settings import load_settings

    choice = choose_site(system, None, load_settings(system.catalog))
    return choice.site.name, choice.origin
