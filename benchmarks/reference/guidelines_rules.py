"""What each rule of the guidelines says about each bundled job that trains, in the planner's own words; as Markdown."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpclaunch.cli import main
from hpclaunch.config.job import job_of_file
from hpclaunch.guidelines.reasoning import GUIDELINES

ROOT = Path(__file__).resolve().parents[2]
SITES = ("perlmutter", "local")
NOTHING = "-"
LADDER, MODEL = "ladder", "model"
"""Sections of a plan: the rungs of the ladder explain one rule, which has a row of its own; the notes about the model
are figures of the job."""


def jobs_that_train() -> list[str]:
    """The bundled jobs whose training the planner knows."""
    files = sorted((ROOT / "jobs").glob("*/job.yaml"))
    return [path.parent.name for path in files if job_of_file(path, path.parent.name).training]


def plan_of(job: str, site: str) -> dict[str, Any]:
    """What `hpclaunch plan JOB --site SITE --explain --json` prints. If it refuses, its error ends the program."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # the command writes bytes
    try:
        with contextlib.redirect_stdout(printed):
            main(["plan", job, "--site", site, "--explain", "--json"])
    except SystemExit as ended:  # every command ends so; a code of 0 is its success
        if ended.code:
            raise
    printed.flush()
    found: dict[str, Any] = json.loads(printed.buffer.getvalue())  # type: ignore[attr-defined]
    return found


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a plan says by the guidelines. rules: rule → verdict; declined: way → why; notes: note → its section."""

    rules: Mapping[str, str]
    declined: Mapping[str, str]
    notes: Mapping[str, str]


def verdicts(plan: Mapping[str, Any]) -> Verdicts:
    """The verdict of each rule of the guidelines in a plan, what is declined, and the notes beside these rules."""
    rules, declined, notes = {}, {}, {}
    for section in plan["sections"]:
        of_guidelines = [one for one in section["reasons"] if one["source"].startswith(GUIDELINES)]
        if section["title"] == LADDER or not of_guidelines:
            continue
        rules |= {one["rule"]: one["verdict"] for one in of_guidelines}
        declined |= {one["name"]: one["why"] for one in section["declined"] if one["source"].startswith(GUIDELINES)}
        if section["title"] != MODEL:
            notes |= dict.fromkeys(section["remarks"], section["title"])
    return Verdicts(rules=rules, declined=declined, notes=notes)


def report(sites: Sequence[str], jobs: Sequence[str] | None = None) -> str:
    """For each site a table with rules as rows and jobs as columns; then what is declined, and the notes."""
    chosen = list(jobs or jobs_that_train())
    held = {site: verdicts_by_job(site, chosen) for site in sites}
    parts = [section(site, one) for site, one in held.items()]
    declined = {site: {job: found.declined for job, found in one.items()} for site, one in held.items()}
    notes = {site: {job: found.notes for job, found in one.items()} for site, one in held.items()}
    parts += tables_by_place(declined, "Declined for", ("way", "why"))
    return "\n\n".join([*parts, *tables_by_place(notes, "Notes for", ("note", "about"))])


def verdicts_by_job(site: str, jobs: Sequence[str]) -> dict[str, Verdicts]:
    return {job: verdicts(plan_of(job, site)) for job in jobs}


def tables_by_place(
    found: Mapping[str, Mapping[str, Mapping[str, str]]], title: str, heads: tuple[str, str]
) -> list[str]:
    """Tables of what holds for every job at every site, and of what holds for some: then for which.

    found: site → job → the two cells of each row.
    """
    where: dict[tuple[str, str], dict[str, list[str]]] = {}
    for site, held in found.items():
        for job, rows in held.items():
            for row in rows.items():
                where.setdefault(row, {}).setdefault(site, []).append(job)
    everywhere = {site: list(held) for site, held in found.items()}
    parts = []
    if for_all := [list(row) for row, places in where.items() if places == everywhere]:
        parts.append(f"### {title} every job\n\n" + markdown(heads, for_all))
    if for_some := [[*row, in_words(places)] for row, places in where.items() if places != everywhere]:
        parts.append(f"### {title} some jobs\n\n" + markdown([*heads, "jobs"], for_some))
    return parts


def in_words(places: dict[str, list[str]]) -> str:
    return "; ".join(f"at {site}: {', '.join(jobs)}" for site, jobs in places.items())


def section(site: str, held: Mapping[str, Verdicts]) -> str:
    """The table of a site's verdicts, with its heading."""
    return f"### Verdicts at {site}\n\n{table(held)}"


def table(held: Mapping[str, Verdicts]) -> str:
    """The verdicts of all jobs at one site, each rule once, in the order of the plans."""
    rules = list(dict.fromkeys(rule for one in held.values() for rule in one.rules))
    rows = [[rule, *(one.rules.get(rule, NOTHING) for one in held.values())] for rule in rules]
    return markdown(["rule", *held], rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
