"""The check of a site's file: a table of what differs, the patch, and what is not known."""

from __future__ import annotations

from hpclaunch.actions.clusters.check_site import CheckedValue, SiteCheck
from hpclaunch.cli.show.console import say, table, write
from hpclaunch.config.yaml_edits import flow_text
from hpclaunch.core.units import count

_HEADER = ("key", "in the file", "from", "now", "asked")

_MOST_NAMED = 8


def show_check(checked: SiteCheck) -> None:
    """Show the differences and the patch on stdout; the rest on stderr."""
    different = checked.of("differs")
    if different:
        table(_HEADER, [_cells(one) for one in different])
    if checked.patch:
        write(f"\n{checked.patch}")
    for verdict in ("not known", "not asked"):
        for one in checked.of(verdict):
            say(f"{verdict}: {one.finding.key}: {one.finding.what} ({one.finding.asked})")
    for family, names in checked.also.items():
        if not _lists_any(checked, family):
            continue  # then the file leaves them all to the scheduler
        plural = "partitions" if family == "partition" else "QOS"
        others = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
        say(f"there are more {plural} than the file lists: {', '.join(names[:_MOST_NAMED])}{others}")
    say(_summary(checked))
    if checked.written:
        say(f"written: {checked.written}")
    elif checked.patch:
        say(f"to write it to your own folder of sites: hpclaunch sites check {checked.found.name} --write")


def _lists_any(checked: SiteCheck, family: str) -> bool:
    section = "partitions" if family == "partition" else family
    return any(one.finding.path[0] == section for one in checked.values)


def _summary(checked: SiteCheck) -> str:
    counts = {verdict: len(checked.of(verdict)) for verdict in ("differs", "agrees", "not known", "not asked")}
    by_hand = sum(not one.corrected for one in checked.of("differs"))
    different = count(counts["differs"], "value") + (" differs" if counts["differs"] == 1 else " differ")
    if by_hand:
        different += f" ({by_hand} to correct by hand)"
    rest = [f"{counts['agrees']} agree"]
    rest += [f"{counts[verdict]} {verdict}" for verdict in ("not known", "not asked") if counts[verdict]]
    return f"{checked.found.path}: {', '.join([different, *rest])}"


def _cells(one: CheckedValue) -> list[str]:
    finding = one.finding
    said = "-" if one.said is None else flow_text(one.said)
    sources = ", ".join(one.sources) + (" (old)" if one.old else "")
    now = finding.what if finding.now is None else flow_text(finding.now)
    return [finding.key, said, sources or "-", now or "-", finding.asked]
