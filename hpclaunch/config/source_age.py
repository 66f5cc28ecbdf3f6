"""How old the sources of a site file's values are, by the dates of the sources themselves; the day is given."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date

from hpclaunch.config.provenance import Value
from hpclaunch.config.site import Site
from hpclaunch.core.units import count

OLD_MONTHS = 18
"""A value is marked if all its sources are older: partitions, limits and software of a cluster change in less."""


def date_of(read: str) -> date | None:
    """Return the last day that a source's own date can mean (``2026``: its last day); None if it is undated."""
    found = re.fullmatch(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", read)
    if found is None:
        return None
    year, month, day = (int(part) if part else 0 for part in found.groups())
    try:
        if day:
            return date(year, month, day)
        first = date(year, month or 12, 1)
        return first.replace(day=monthrange(first.year, first.month)[1])
    except ValueError:
        return None


def newest_source(site: Site, names: Iterable[str]) -> date | None:
    """Return the date of the newest source of these names; None if one of them is undated, and may be newer."""
    found = [date_of(site.sources[name].read) if name in site.sources else None for name in names]
    known = [one for one in found if one is not None]
    return max(known) if known and len(known) == len(found) else None


def newest_of_file(site: Site) -> str:
    """Return the own date of the newest dated source of a site file (maybe a year alone); empty if none is dated.

    A day comes before its month alone, and that before its year alone: how new those are is not known.
    """
    dated = [source.read for source in site.sources.values() if date_of(source.read) is not None]
    return max(dated, key=lambda read: (read.split("-") + ["00", "00"])[:3], default="")


def old_origins(site: Site, today: date) -> list[str]:
    """Return the keys of ``origins`` whose sources are all old."""
    return [key for key, names in site.origins.items() if is_old(site, names, today)]


def months_between(source: date, today: date) -> int:
    """Return the whole months of the calendar since a source; 0 for a date that is not over."""
    months = 12 * (today.year - source.year) + today.month - source.month
    return max(0, months - (today.day < source.day))


def is_old(site: Site, names: Iterable[str], today: date) -> bool:
    """Whether all of these sources are dated, and older than OLD_MONTHS."""
    newest = newest_source(site, names)
    return newest is not None and months_between(newest, today) >= OLD_MONTHS


def old_keys(site: Site, file_values: Iterable[Value], today: date) -> frozenset[str]:
    """Return the keys of the values that have old sources only."""
    return frozenset(value.key for value in file_values if is_old(site, value.sources, today))


def age_words(site: Site, today: date) -> str:
    """Return how old the newest source of a file is: ``of 2026-07-01, 4 months ago``; empty if none is dated."""
    newest = newest_of_file(site)
    latest = date_of(newest)
    if latest is None:
        return ""
    if latest > today:
        return f"of {newest}"  # a month or a year that is not over
    months = months_between(latest, today)
    ago = f"{count(months, 'month')} ago" if months else "this month"
    return f"of {newest}, {ago}" + ("" if newest.count("-") == 2 else " or more")
