"""The part of docs/reliability.md about the mutants: counted from the results file and the named equivalent ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.mutants.study import KILLED, NOT_REACHED, SURVIVED, TIMED_OUT
from tests.reliability import table

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
HEADER = ("part", "mutants", "killed", "timed out", "survived", "equivalent")


def named_equivalent(file: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """The reason why a mutant behaves as the code does, by file, line and changed line."""
    rows = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    return {(row["file"], row["line"].strip(), row["becomes"].strip()): row["why"] for row in rows}


def outcome_of(result: Mapping[str, Any], equivalent: Mapping[tuple[str, str, str], str]) -> str:
    """The outcome that counts: what a test killed is not equivalent, whatever the list says."""
    survived = result["outcome"] in (SURVIVED, NOT_REACHED)
    if survived and (result["file"], result["before"], result["after"]) in equivalent:
        return "equivalent"
    return SURVIVED if survived else str(result["outcome"])


def page_part(results: Sequence[Mapping[str, Any]], equivalent: Mapping[tuple[str, str, str], str]) -> str:
    """The counts of each part of the code, the share that was killed, and every survivor."""
    if not results:
        return "Not run yet.\n"
    last = max(results, key=lambda result: str(result["at"]))
    parts: dict[str, Counter[str]] = {"`runs/`": Counter(), "`schedulers/`": Counter(), "the YAML reader": Counter()}
    for result in results:
        folder = result["file"].split("/")[1]
        part = f"`{folder}/`" if folder != "config" else "the YAML reader"
        parts[part][outcome_of(result, equivalent)] += 1
    whole = sum(parts.values(), Counter())
    rows = [_row(name, counts) for name, counts in (*parts.items(), ("together", whole))]
    dead, counted = whole[KILLED] + whole[TIMED_OUT], whole.total() - whole["equivalent"]
    head = (
        f"{whole.total()} mutants, drawn from {last['drawn_from']}; the last one ran on {last['measured']}.\n"
        f"{whole['equivalent']} are equivalent. Of the other {counted}, {dead} were killed or timed out: "
        f"{100 * dead / max(counted, 1):.1f} %.\n"
    )
    left = [result for result in results if outcome_of(result, equivalent) == SURVIVED]
    lines = [f"- `{result['file']}`, line {result['line']}: {_change(result)}" for result in left]
    survivors = "\nThe survivors:\n\n" + "\n".join(lines) + "\n" if left else ""
    return f"{head}\n{table(HEADER, rows)}{survivors}"


def _row(name: str, counts: Counter[str]) -> list[str]:
    return [name, str(counts.total()), *(str(counts[outcome]) for outcome in (KILLED, *HEADER[3:]))]


def _change(result: Mapping[str, Any]) -> str:
    after = f"becomes `{result['after']}`" if result["after"] else "is removed"
    return f"`{result['before']}` {after}".replace("\n", " ")
