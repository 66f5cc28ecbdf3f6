"""Writes docs/comparison.md from the results: the table, where hpclaunch is not first, what was seen, the rules.

python benchmarks/peers/compare.py --report
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import environments
import store
from columns import COLUMNS, Column
from peer import Peer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "comparison.md"
RESULTS = Path(__file__).parent / "results"
STUDY, OWN = "peers", "hpclaunch"
RUNS = 3
INTRODUCTION = """# Comparison with other tools

The same job is submitted by hpclaunch and by other tools, on one small Slurm cluster. The job has four nodes with two
ranks each, and one GPU a rank. Each tool is used as its own documentation describes it. Where a tool takes shell text,
its user quotes the words. A rule decides every cell, and the rules were committed before the first measurement. Each
cell is the outcome of three runs.

Many of these tools have other purposes than hpclaunch: they run Python functions, pipelines, tests or cloud machines.
This page compares only how a job reaches Slurm and what becomes of it there.

## Repeat it

You need root on Debian 12, Slurm (`python3 tests/cluster/cluster.py install`), and access to an index of Python
packages. The first command takes about half an hour, and continues where it was stopped:

```
python benchmarks/peers/compare.py
python benchmarks/peers/compare.py --report
```

The second command writes this page. Each tool has a virtual environment of its own. The rules are in
`benchmarks/peers/columns.py`, and the situations in `cases.py` beside it. What a user of a tool writes and types is in
`by_TOOL.py`. The results are in `benchmarks/peers/results/peers.csv`.

## Table
"""
TIMED = "plain"
"""The case whose times are the columns of times."""
ABOUT_TIMES = (
    "Before it submits, hpclaunch asks Slurm for its limits, and writes a run directory with every resolved value."
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell. value: seconds (lower is better), or 0 for yes and 1 for no; None if it could not be run."""

    text: str
    value: float | None
    seen: str = ""


def cell(peer: Peer, column: Column, results: Sequence[store.Result]) -> Cell:
    """The cell of a tool in a line of the table, from the results of the line's case."""
    why = peer.cannot.get("") or peer.cannot.get(column.name)
    why = why or next((result.measured["cannot"] for result in results if "cannot" in result.measured), "")
    if why:
        return Cell(text="not run", value=None, seen=why)
    if len(results) < RUNS:
        return Cell(text="not run", value=None, seen=f"{len(results)} of {RUNS} runs so far")
    if column.judge is None:
        times = [result.measured[column.seconds] for result in results if column.seconds in result.measured]
        if len(times) < RUNS:
            return Cell(text="not run", value=None, seen="has no such command")
        median = statistics.median(times)
        return Cell(text=f"{median:.2f} s", value=round(median, 2), seen=f"{min(times):.2f} to {max(times):.2f} s")
    verdicts = [result.measured["verdicts"][column.name].partition(": ") for result in results]
    good = sum(verdict == "yes" for verdict, _, _ in verdicts)
    shown = "yes" if good == len(verdicts) else "no"
    seen = "; ".join(dict.fromkeys(words for verdict, _, words in verdicts if verdict == shown))
    if 0 < good < len(verdicts):
        return Cell(text=f"{good} of {len(verdicts)}", value=1 - good / len(verdicts), seen=seen)
    return Cell(text=shown, value=float(not good), seen=seen)


def name_of(tool: str, situation: str) -> str:
    """The name of a tool's runs in a situation among the results."""
    return f"{tool}/{situation}"


def results_of(tool: str, folder: Path) -> list[store.Result]:
    """The results of one tool."""
    return [one for one in store.every(STUDY, folder) if one.case.startswith(name_of(tool, ""))]


def cells(folder: Path) -> dict[str, dict[str, Cell]]:
    """Column → tool → cell."""
    table: dict[str, dict[str, Cell]] = {}
    peers = environments.every_peer()
    found = store.by_case(STUDY, folder)
    for column in COLUMNS:
        table[column.name] = {
            name: cell(peer, column, found.get(name_of(name, column.case), ())[:RUNS]) for name, peer in peers.items()
        }
    return table


def not_first(row: Mapping[str, Cell]) -> list[str]:
    """The tools that are better than hpclaunch in a line, the best first."""
    own = row[OWN].value
    values = {name: one.value for name, one in row.items() if name != OWN and one.value is not None}
    better = [name for name, value in values.items() if own is None or value < own]
    return sorted(better, key=lambda name: values[name])


def page(folder: Path) -> str:
    """The page's text."""
    table = cells(folder)
    parts = [
        INTRODUCTION.strip(),
        _table(table, folder),
        _behind(table),
        _made(folder),
        _seen(table),
        _rules(),
        _tools(),
    ]
    return "\n\n".join(_wrapped(part) for part in parts if part) + "\n"


def _wrapped(text: str) -> str:
    """The text with lines of at most 120 characters, but for its tables."""
    lines = []
    for line in text.splitlines():
        indent = "  " if line.startswith("- ") else ""
        short = textwrap.wrap(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines += [line] if line.startswith("|") else short or [""]
    return "\n".join(lines)


def _table(table: Mapping[str, Mapping[str, Cell]], folder: Path) -> str:
    peers = environments.every_peer()
    versions = {name: _version(peer, folder) for name, peer in peers.items()}
    rows = [["", *(f"{name} {versions[name]}".strip() for name in peers)], ["---"] * (len(peers) + 1)]
    rows += [[f"[{c.title}](#{_anchor(c)})", *(table[c.name][name].text for name in peers)] for c in COLUMNS]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _version(peer: Peer, folder: Path) -> str:
    """Pinned, or of the first result: hpclaunch's own, without its commit."""
    return peer.version or next((r.measured["version"].split()[0] for r in results_of(peer.name, folder)), "")


def _made(folder: Path) -> str:
    """When and on what the results were made."""
    results = store.every(STUDY, folder)
    if not results:
        return ""
    days = sorted({result.date[:10] for result in results})
    machines = sorted({f"{r.machine['processor']}, {r.machine['cores']} cores" for r in results})
    versions = sorted(
        {f"Slurm {r.machine['versions']['slurm']}, Python {r.machine['versions']['python']}" for r in results}
    )
    own = sorted({r.measured["version"] for r in results_of(OWN, folder)})
    timed = _loads([result for result in results if result.case.endswith(name_of("", TIMED))])
    others = _loads([result for result in results if not result.case.endswith(name_of("", TIMED))])
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"Made on {when}: {'; '.join(machines)}; {'; '.join(versions)}; hpclaunch {', '.join(own)}. Other work "
        f"lengthens wall times most: the load average was {timed} while times were measured, {others} in the other "
        f"cases. {ABOUT_TIMES}"
    )


def _loads(results: Sequence[store.Result]) -> str:
    loads = [result.measured["load_average"] for result in results]
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded"


def _behind(table: Mapping[str, Mapping[str, Cell]]) -> str:
    lines = ["### Where hpclaunch is not first", ""]
    for column in COLUMNS:
        row = table[column.name]
        if better := not_first(row):
            others = ", ".join(f"{name} ({row[name].text})" for name in better)
            lines.append(f"- **{column.title}**: hpclaunch {row[OWN].text}; better: {others}.")
    return "\n".join(lines if len(lines) > 2 else [*lines, "In no line."])


def _seen(table: Mapping[str, Mapping[str, Cell]]) -> str:
    """What was seen where a rule did not hold, or why a cell was not run; a tool that was never run, once."""
    lines = ['## What was seen where a cell is not "yes"']
    never = {name: peer.cannot[""] for name, peer in environments.every_peer().items() if "" in peer.cannot}
    lines += [f"{name} was not run: it {why}." for name, why in never.items()]
    for column in COLUMNS:
        row = {name: one for name, one in table[column.name].items() if name not in never}
        odd = {name: one for name, one in row.items() if one.seen and one.text != "yes" and not one.text.endswith(" s")}
        if odd:
            found = [f"- {name} ({one.text}): {_plain(one.seen)}" for name, one in odd.items()]
            lines.append(f"**{column.title}**\n\n" + "\n".join(found))
    return "\n\n".join(lines)


def _plain(words: str) -> str:
    """Words of a tool, with nothing that Markdown would read."""
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "'")


def _rules() -> str:
    return "\n\n".join(["## Rules", *(f"### {column.title}\n\n{column.rule}" for column in COLUMNS)])


def _anchor(column: Column) -> str:
    return "".join(letter for letter in column.title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _tools() -> str:
    lines = ["## How each tool is used", ""]
    for name, module in environments.modules().items():
        lines.append(f"- **{name}** (`benchmarks/peers/{module.__name__}.py`): {_about(module.__doc__ or '')}")
    return "\n".join(lines)


def _about(docstring: str) -> str:
    """A module's docstring as one paragraph, without the name that its line begins with."""
    return " ".join(docstring.split()).replace("*", "\\*")
