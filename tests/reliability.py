"""Writes one part of docs/reliability.md, which is made by the runs that it tells of; the other parts stay."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import hpclaunch

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"


def write_part(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between the marks of a part. Raises ValueError where the page has no such marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not begin or not end:
        raise ValueError(f"{page} has no part {name}")
    page.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}", encoding="utf-8")


def read_part(name: str, page: Path = PAGE) -> str:
    """What stands between the marks of a part; nothing where there are none."""
    rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")[2]
    return rest.partition(f"<!-- end of {name} -->\n")[0]


def with_rows(text: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows of a part's table with these in the place of those that begin the same; a new one comes last."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    kept: dict[str, Sequence[str]] = {line[0]: line for line in lines[2:] if lines[0] == list(header)}
    return list((kept | {row[0]: row for row in rows}).values())


def surroundings(*modules: str) -> str:
    """Date, version, machine and versions of other programs, in a line.

    No commit: those of a branch are written anew when it lands, and then name nothing.
    """
    from importlib.metadata import packages_distributions, version

    distributions = packages_distributions()  # tensorflow may be from tensorflow-cpu
    told = [f"{name} {version(distributions[name][0])}" for name in modules]
    slurm = re.sub(r"^slurm(-wlm)? ", "Slurm ", _output("squeue", "--version")) or "no Slurm"
    cores = len(os.sched_getaffinity(0))
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    system = f"Python {platform.python_version()}, {slurm}"
    machine = f"{cores} cores (load {os.getloadavg()[1]:.1f})"
    return ", ".join([today, f"hpclaunch {hpclaunch.__version__}", machine, system, *told])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
