"""How busy the workers of a search are, how fast trials that do nothing are made, and what 100,000 trials cost to read.

python benchmarks/search.py simulated     1,920 workers, 192,000 trials of 1 to 8 s, on a fake clock
python benchmarks/search.py no-op         10,000 real trials in one allocation here; the worker is killed on the way
python benchmarks/search.py large         status, results and picture of 100,000 trials: processor time
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from hpclaunch.search.events import TrialBegin, TrialEnd
from hpclaunch.search.folder import SearchFolder, SearchRecord
from hpclaunch.search.journal import JournalReader, JournalWriter
from hpclaunch.search.sampling import values_by_number
from hpclaunch.search.scheduling import Desk
from hpclaunch.search.space import Dimension, SearchSpace
from hpclaunch.search.terms import SearchTerms

CLAIM_S = 0.002
"""A claim on a shared file system: a file is written, and its name linked. No two claims happen at the same time."""


@dataclass
class Claims:
    """The claims of all workers, as a folder on a shared file system serves them: one after the other."""

    workers: int
    fresh: int = 0
    made: int = 0
    free_at: float = 0.0
    now: float = 0.0
    given: list[int] = field(default_factory=list)

    def refresh(self) -> None:
        """See every claim: the folder is one list."""

    def due_again(self) -> list[tuple[int, int]]:
        return []

    def add(self, first: int, last: int, again: list[tuple[int, int]]) -> bool:
        self.free_at = max(self.free_at, self.now) + CLAIM_S
        self.fresh, self.made = last, self.made + 1
        return True


def simulated(workers: int, trials: int, seed: int) -> None:
    """Print which part of the workers' time trials ran, until no trial was left to claim."""
    claims, chance = Claims(workers=workers), random.Random(seed)
    desks = [Desk(claims, trials, lambda: claims.now) for _ in range(workers)]
    events = [(0.0, number) for number in range(workers)]
    busy, runs, empty_at = 0.0, [], None
    seen = [0] * trials
    while events:
        claims.now, number = heapq.heappop(events)
        before = claims.made
        starts = desks[number].take(1)
        if not starts:
            continue
        begin = claims.free_at if claims.made > before else claims.now
        length = chance.uniform(1, 8)
        runs.append((begin, begin + length))
        seen[starts[0][0]] += 1
        if claims.fresh >= trials and empty_at is None:
            empty_at = begin
        heapq.heappush(events, (begin + length, number))
    last = max(end for _, end in runs)
    until = empty_at or last
    busy = sum(min(end, until) - begin for begin, end in runs if begin < until)
    assert seen == [1] * trials, "a trial was lost or made twice"
    print(f"{workers} workers, {trials} trials, {claims.made} claims of {CLAIM_S * 1000:g} ms")
    print(f"busy until no trial was left to claim ({until:.0f} s): {busy / (until * workers):.2%}")
    print(f"busy until the last end ({last:.0f} s): {sum(e - b for b, e in runs) / (last * workers):.2%}")


def no_op(trials: int, at_once: int, kill: bool) -> None:
    """Make trials that do nothing, by the real command and the real script; kill the worker when a third is done."""
    with tempfile.TemporaryDirectory(prefix="hpclaunch-search-") as folder:
        environment = {**os.environ, "HOME": folder, "HPCLAUNCH_SITE": "local"}
        words = ["search", "--sweep", f"n=1..{trials}", "--trials-at-once", str(at_once), "--json", "--", "true", "{n}"]
        # The words after -- are the program's; the flag of JSON stands before them.
        done = subprocess.run(
            [sys.executable, "-m", "hpclaunch", *words], cwd=folder, env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        path = SearchFolder(Path(json.loads(done.stdout)["run_dir"]))
        reader, killed = JournalReader(path), not kill
        while True:
            time.sleep(0.5)
            reader.read()
            ended = sum(1 for row in reader.table.rows() if row.state == "COMPLETED")
            if not killed and ended > trials // 3:
                worker = path.workers()[1]["process"].split()[3]
                os.kill(int(worker), signal.SIGKILL)
                killed = True
                print(f"worker killed after {ended} trials")
            if ended >= trials or all(values.get("ended") for values in path.workers().values() if values):
                break
        rows = list(reader.read().rows())
        begins = [row.begin.time for row in rows if row.begin]
        ends = [row.end.time for row in rows if row.end]
        completed = sum(row.state == "COMPLETED" for row in rows)
        again = sum(row.attempts > 1 for row in rows)
        lasted = max(ends) - min(begins)
        print(f"{completed} of {trials} completed, {trials - completed} lost, {again} claimed again after the kill")
        print(
            f"{lasted:.1f} s: {completed / lasted:.0f} trials/s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
        )


def large(trials: int) -> None:
    """Write a search of so many trials with eight workers, and print the processor time of each command on it."""
    with tempfile.TemporaryDirectory(prefix="hpclaunch-search-") as folder:
        environment = {**os.environ, "HOME": folder, "HPCLAUNCH_SITE": "local"}
        words = ["search", "--sweep", "lr=1", "--sweep", "n=1", "--json", "--", "true"]
        done = subprocess.run(
            [sys.executable, "-m", "hpclaunch", *words], cwd=folder, env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        run_dir = Path(json.loads(done.stdout)["run_dir"])
        while '"COMPLETED"' not in (run_dir / "states.jsonl").read_text():
            time.sleep(0.5)
            subprocess.run(
                [sys.executable, "-m", "hpclaunch", "status"], cwd=folder, env=environment, capture_output=True
            )
        write_trials(run_dir, trials)
        for name, command in {
            "status": ("status",),
            "results": ("results",),
            "results to CSV": ("results", "--csv"),
            "results to JSON": ("results", "--json"),
            "picture": ("results", "--plot", "search.svg"),
        }.items():
            print(f"{name}: {processor_time(folder, environment, 'search', *command)}")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


def write_trials(run_dir: Path, trials: int) -> None:
    """Replace the record of a search by one of so many trials."""
    space = SearchSpace(
        dimensions=(
            Dimension(name="lr", low=1e-5, high=1.0, log=True),
            Dimension(name="n", low=1, high=512, whole=True),
        )
    )
    terms = SearchTerms(space=space, metric="loss", sampler="random", trials=trials)
    path, values = SearchFolder(run_dir), values_by_number(space, "random", 0)
    path.write(SearchRecord(terms=terms, target="true", at_once=64, created="", free=True))
    for worker in path.journals():
        path.journal(worker).unlink()
        path.totals(worker).unlink(missing_ok=True)
    workers = [path.add_worker({"run": "x", "start": "1.0"}) for _ in range(8)]
    claimed = len(list(path.claims(0)))
    for number, worker in enumerate(workers):
        writer = JournalWriter(path, worker, terms)
        first, last = number * trials // 8, (number + 1) * trials // 8
        claimed += 1
        path.add_claim(claimed, {"worker": worker, "from": first, "to": last})
        for trial in range(first, last):
            given = values(trial)
            assert given is not None
            writer.add(TrialBegin(trial, 1, 1e9 + trial / 10, given, f"n{number}", f"{trial % 8}", f"{trial % 4}"))
            loss = (float(given["lr"]) - 0.1) ** 2 + float(given["n"]) / 512
            writer.add(TrialEnd(trial, 1, 1e9 + trial / 10 + 6, "COMPLETED", loss))
        writer.close()


def processor_time(folder: str, environment: dict[str, str], *words: str) -> str:
    """Return the processor time of a command in words, with its time on the clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, "-m", "hpclaunch", *words], cwd=folder, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr.decode()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{used:.2f} s of processor time ({time.monotonic() - began:.1f} s), {len(done.stdout)} bytes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulated", "no-op", "large"))
    parser.add_argument("--workers", type=int, default=1920)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--at-once", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-kill", action="store_true", help="do not kill the worker")
    typed = parser.parse_args()
    if typed.what == "simulated":
        simulated(typed.workers, typed.trials or 100 * typed.workers, typed.seed)
    elif typed.what == "no-op":
        no_op(typed.trials or 10_000, typed.at_once, not typed.no_kill)
    else:
        large(typed.trials or 100_000)


if __name__ == "__main__":
    main()
