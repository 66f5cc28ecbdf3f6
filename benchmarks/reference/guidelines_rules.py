"""What each rule of the guidelines says about each bundled job that trains, in the planner's own words; as Markdown."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpclaunch.cli import main
from hpclaunch.config.job import job_of_file
from hpclaunch.guidelines.reasoning import GUIDELINES

ROOT = Path(__file__).resolve().parents[2]
SITES = ("perlmutter", "local")
NOTHING = "-"
LADDER = "ladder"
"""A section of a plan whose rungs explain one rule, which has a row of its own."""


def jobs_that_train() -> list[str]:
    """The bundled jobs whose training the planner knows."""
    files = sorted((ROOT / "jobs").glob("*/job.yaml"))
    return [path.parent.name for path in files if job_of_file(path, path.parent.name).training]


def plan_of(job: str, site: str) -> dict[str, Any]:
    """What `hpclaunch plan JOB --site SITE --explain --json` prints. Raises RuntimeError if it refuses."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # the command writes bytes
    try:
        with contextlib.redirect_stdout(printed):
            main(["plan", job, "--site", site, "--explain", "--json"])
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"hpclaunch plan {job} --site {site} ended with {ended.code}") from None
    printed.flush()
    found: dict[str, Any] = json.loads(printed.buffer.getvalue())  # type: ignore[attr-defined]
    return found


def verdicts(plan: dict[str, Any]) -> dict[str, str]:
    """The verdict of each rule of the guidelines in a plan, by the rule; what is declined begins with "not"."""
    found: dict[str, str] = {}
    for section in plan["sections"]:
        if section["title"] == LADDER:
            continue
        for reason in section["reasons"]:
            if reason["source"].startswith(GUIDELINES):
                found[reason["rule"]] = reason["verdict"]
        for passed in section["declined"]:
            if passed["source"].startswith(GUIDELINES):
                found[f"not: {passed['name']}"] = passed["why"]
    return found


def report(sites: Sequence[str], jobs: Sequence[str] | None = None) -> str:
    """A table for each site: rules as rows, jobs as columns; and those of what is declined."""
    chosen = list(jobs or jobs_that_train())
    found = {site: {job: verdicts(plan_of(job, site)) for job in chosen} for site in sites}
    parts = [f"### Verdicts at {site}\n\n{table(held)}" for site, held in found.items()]
    return "\n\n".join([*parts, *declined(found)])


def declined(found: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    """What is declined for every job at every site, and what for some: then for which. found: site → job → verdicts."""
    where: dict[tuple[str, str], dict[str, list[str]]] = {}
    for site, held in found.items():
        for job, one in held.items():
            for rule, why in one.items():
                if rule.startswith("not: "):
                    where.setdefault((rule[len("not: ") :], why), {}).setdefault(site, []).append(job)
    everywhere = {site: list(held) for site, held in found.items()}
    parts = []
    if for_all := [[*what] for what, places in where.items() if places == everywhere]:
        parts.append("### Declined for every job\n\n" + markdown(["way", "why"], for_all))
    if for_some := [[*what, in_words(places)] for what, places in where.items() if places != everywhere]:
        parts.append("### Declined for some jobs\n\n" + markdown(["way", "why", "jobs"], for_some))
    return parts


def in_words(places: dict[str, list[str]]) -> str:
    return "; ".join(f"at {site}: {', '.join(jobs)}" for site, jobs in places.items())


def table(held: dict[str, dict[str, str]]) -> str:
    """The verdicts of all jobs at one site, each rule once, in the order of the plans."""
    rules = list(dict.fromkeys(rule for one in held.values() for rule in one))
    rows = [
        [rule, *(one.get(rule, NOTHING) for one in held.values())] for rule in rules if not rule.startswith("not: ")
    ]
    return markdown(["rule", *held], rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
