"""``python -m hpclaunch.search``: a worker of a search, as its script starts it on every node of the allocation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hpclaunch.core.errors import HpclaunchError
from hpclaunch.search.claims import begin_worker
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalReader, read_with_totals
from hpclaunch.search.processes import end_leftovers
from hpclaunch.search.results import failed_among, failures_in_words, summary_of
from hpclaunch.search.slots import slots_of, usable_cpus, usable_gpus
from hpclaunch.search.worker import SearchWorker

_UNFINISHED = "75\n"
"""What the script reads as the exit code of its ranks: they have saved their state, and ask for a further start."""


def main(environment: Mapping[str, str]) -> int:
    """Work until no trial is left, or until a signal; the variables are those that the script exports."""
    run_dir = Path(environment["HPCLAUNCH_RUN_DIR"])
    start = environment["HPCLAUNCH_SEARCH_START"]
    per_node, cpus, gpus = map(int, environment["HPCLAUNCH_SEARCH_SHARES"].split())
    folder = SearchFolder(Path(environment.get("HPCLAUNCH_ARRAY_DIR", run_dir)))
    try:
        searched = folder.read()
        number, lost = begin_worker(folder, str(run_dir), start)
        end_leftovers(f"{folder.path}:{worker}" for worker in lost)
        variable, own_gpus = usable_gpus(environment, gpus)
        slots = slots_of(per_node, usable_cpus(), own_gpus, cpus, variable)
        worker = SearchWorker(folder, searched, number, slots)
        print(f"hpclaunch: worker {number} on {os.uname().nodename}: {per_node} trials at a time", file=sys.stderr)
        is_complete = worker.work(run_dir / "attempts" / start / "trial", environment)
        folder.end_worker(number, "complete" if is_complete else "asked to stop")
        if is_complete and _has_failed(folder, searched):
            return 1
    except (HpclaunchError, OSError) as error:  # a disk that is full, a folder that is gone: the run has failed
        print(f"hpclaunch: this worker ends: {error}", file=sys.stderr)
        return 1
    if not is_complete:
        ask_for_a_further_start(Path(environment["HPCLAUNCH_EXIT_FILE"]))
    return 0


def _has_failed(folder: SearchFolder, searched: SearchRecord) -> bool:
    """Whether every trial of the search has ended and failed; the log then says so, with the end of the first one's.

    Of several workers the last one to end finds all trials ended.
    """
    table, totals = read_with_totals(folder, searched.terms)
    if not summary_of(table, searched.terms, searched.at_once, totals).has_failed:
        return False
    failed = failed_among(JournalReader(folder).read(claims=False).rows())
    lines = [f"hpclaunch: {failures_in_words(failed, len(failed))}; its log: {folder.log(failed[0].number)}"]
    lines += [f"  | {line}" for line in folder.last_lines(failed[0].number)]
    print("\n".join(lines), file=sys.stderr)
    return True


def ask_for_a_further_start(file: Path) -> None:
    """Write the exit code that the script takes from its ranks, unless one has failed before."""
    try:
        with open(file, "x", encoding="ascii") as made:
            made.write(_UNFINISHED)
    except FileExistsError:
        pass


if __name__ == "__main__":
    sys.exit(main(os.environ))
