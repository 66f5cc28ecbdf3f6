"""``python -m tests.mutants``: the study of mutants. It works in copies of the last commit, never in this checkout."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.copies import Copy
from tests.mutants.listing import ROOT, SIZE, Mutant, all_changes, draw
from tests.mutants.page import named_equivalent, outcome_of, page_part
from tests.mutants.reach import FOLDERS
from tests.mutants.study import (
    NOT_REACHED,
    RESULTS,
    SURVIVED,
    Bench,
    reach_of_tests,
    recorded,
    run_study,
    write_results,
)
from tests.reliability import surroundings, write_part

STORED = ROOT / ".cache" / "mutants"
"""What the study keeps beside cosmic-ray: the notes of which test calls what."""


def main() -> None:
    """Draw the mutants, run the tests against those without a result, and write docs/reliability.md."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may start it with SIGINT ignored
        signal.signal(number, lambda *_: sys.exit("stopped; the next run goes on from here"))
    options = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    options.add_argument("--size", type=int, default=SIZE, help="how many mutants; a smaller number is a part of them")
    options.add_argument("--again", default="", help="run those with this outcome again: survived, killed, ...")
    options.add_argument("--tests", nargs="*", default=["tests"], help="folders: only tests in them, for a first look")
    options.add_argument("--processes", type=int, default=2, help="how many run tests at the same time")
    options.add_argument("--list", action="store_true", help="print the drawn mutants with their outcomes, and end")
    asked = options.parse_args()
    changes = all_changes()
    mutants = draw(changes, size=asked.size)
    if asked.list:
        _print(mutants)
        return
    _refuse_changes()
    known = recorded()
    again = (SURVIVED, NOT_REACHED) if asked.again == SURVIVED else (asked.again,)
    wanted = [one for one in mutants if one.key not in known or known[one.key]["outcome"] in again]
    places = len({change.place for change in changes})
    about = {"drawn_from": f"{len(changes):,} changes at {places:,} places", "measured": surroundings("cosmic_ray")}
    begin = time.monotonic()
    if wanted:
        _run(wanted, about, asked.processes, asked.tests)
    print(f"{len(wanted)} mutants in {(time.monotonic() - begin) / 60:.0f} minutes")
    known = recorded()
    results = [known[mutant.key] for mutant in mutants]
    write_results(results)
    write_part("mutants", page_part(results, named_equivalent()))


def _refuse_changes() -> None:
    """The copies are made from the last commit, so nothing else may be thought to be tested."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "hpclaunch", *(f"tests/{x}" for x in FOLDERS))
    if changed:
        sys.exit(f"The study tests the last commit. Commit these first, or put them away:\n{changed}")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout


def _run(mutants: list[Mutant], about: dict[str, str], processes: int, below: list[str]) -> None:
    """Make the copies, note which test calls what, and judge the mutants."""
    STORED.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hpclaunch-mutants-", dir="/var/tmp"))
    folder.chmod(0o755)  # tests play other users
    try:
        bench = Bench([Copy(folder / str(number)) for number in range(processes)])
        for copy in bench.copies:
            copy.fill(ROOT, "HEAD")
        reach = reach_of_tests(bench, STORED / "reach.json", below)
        run_study(bench, mutants, reach, about, RESULTS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print(mutants: list[Mutant]) -> None:
    """Print the drawn mutants, in the order of the draw."""
    known, equivalent = recorded(), named_equivalent()
    for number, mutant in enumerate(mutants, 1):
        outcome = outcome_of(known[mutant.key], equivalent) if mutant.key in known else "not run yet"
        print(f"{number}. {outcome}: {mutant.change.file}:{mutant.change.line} ({mutant.change.operator})")
        print("".join(f"    - {line}\n" for line in mutant.before.splitlines()), end="")
        print("".join(f"    + {line}\n" for line in mutant.after.splitlines()), end="")


if __name__ == "__main__":
    main()
