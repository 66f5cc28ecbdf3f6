"""Runs the tests against the drawn mutants, and writes the outcome of each into the results file.

``make mutants`` goes on where an earlier run was cut off; ``AGAIN=survived`` runs the survivors again.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from tests.mutants.copies import FAILED, PASSED, TOO_SLOW, Copy, Verdict
from tests.mutants.listing import Mutant
from tests.mutants.reach import Reach, digest, files_of_tests, note_calls

RESULTS = Path(__file__).with_name("results.jsonl")
KILLED, TIMED_OUT, SURVIVED, NOT_REACHED = "killed", "timed out", "survived", "not reached"
MOST_SECONDS = 60.0
"""Of the tests that are run against one mutant, as long as they took without it."""
EACH = 90
"""Seconds for one test; more is a time-out."""
_WITHOUT_PROCESSES = ("tests/unit/", "tests/property/")
_BATCHES = 24
"""The runs of pytest in which the calls are noted; one that is cut off is lost."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Bench:
    """The copies in which the study works, one for each process that runs tests at the same time."""

    copies: Sequence[Copy]

    def each(self, work: Callable[[Copy, T], R], tasks: Iterable[T]) -> list[R]:
        """Do ``work`` for every task, in whatever copy is free."""
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in self.copies:
            free.put(copy)

        def do(task: T) -> R:
            copy = free.get()
            try:
                return work(copy, task)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(len(self.copies)) as threads:
            running = [threads.submit(do, task) for task in tasks]
            try:
                return [one.result() for one in running]
            except BaseException:
                for copy in self.copies:
                    copy.stop()
                threads.shutdown(cancel_futures=True)
                raise


def reach_of_tests(bench: Bench, stored: Path, below: Sequence[str]) -> Reach:
    """The calls of all tests in the folders ``below``; only files that are new or changed are run to note them."""
    notes: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}
    code = bench.copies[0].code
    files = files_of_tests(code, below)
    lock = threading.Lock()

    def note(copy: Copy, some: Sequence[str]) -> None:
        found = note_calls(copy, some)
        with lock:
            notes.update(found)
            stored.write_text(json.dumps(notes))
        for file, about in found.items():
            passed = sum(test["passed"] for test in about["tests"])
            print(f"{file}: {passed} of {len(about['tests'])} tests passed", flush=True)

    wanted = [file for file in files if notes.get(file, {}).get("digest") != digest(code / file)]
    bench.each(note, [wanted[start::_BATCHES] for start in range(_BATCHES) if wanted[start::_BATCHES]])
    reach = Reach()
    for file in files:
        reach.add(notes[file])
    return reach


def judge(copy: Copy, mutant: Mutant, tests: Sequence[str], most_seconds: float) -> Verdict:
    """Run tests against a mutant until one fails that passes without it.

    A test that starts programs must fail twice: what fails only once may have failed for another reason.
    """
    left, took = list(tests), 0.0
    options = [f"--timeout={EACH}"]
    while left:
        with copy.mutated(mutant.change.file, mutant.text):
            verdict = copy.run(left, most_seconds, options)
            took += verdict.seconds
            outcome, test = verdict.outcome, verdict.test
            if outcome == FAILED and test in left and not test.startswith(_WITHOUT_PROCESSES):
                again = copy.run([test], most_seconds, options)
                took += again.seconds
                outcome = again.outcome
        if test not in left or (outcome != PASSED and copy.passes(test, options)):
            return Verdict(outcome, test, took)
        left = left[left.index(test) + 1 :]
    return Verdict(PASSED, "", took)


def recorded(results: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The results file, by the keys of the mutants."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {line["key"]: line for line in map(json.loads, lines)}


def run_study(bench: Bench, mutants: Sequence[Mutant], reach: Reach, about: Mapping[str, Any], results: Path) -> None:
    """Judge each mutant, and add its outcome to the results file at once; ``about`` is added to every line."""
    lock = threading.Lock()

    def study(copy: Copy, mutant: Mutant) -> None:
        source = (copy.code / mutant.change.file).read_text(encoding="utf-8")
        tests = reach.tests_for(mutant, source, MOST_SECONDS)
        expected = sum(reach.seconds[test] for test in tests)
        verdict = judge(copy, mutant, tests, 120 + 5 * expected)
        outcome = {PASSED: SURVIVED, FAILED: KILLED, TOO_SLOW: TIMED_OUT}[verdict.outcome] if tests else NOT_REACHED
        line = {"key": mutant.key, **asdict(mutant.change), "before": mutant.before, "after": mutant.after}
        line |= {"outcome": outcome, "by": verdict.test, "tests": len(tests), "seconds": round(verdict.seconds, 1)}
        line |= {**about, "at": datetime.now(timezone.utc).isoformat(timespec="seconds")}
        with lock:
            write_results([*{**recorded(results), mutant.key: line}.values()], results)
        print(f"{outcome}: {mutant.change.file}:{mutant.change.line}: {mutant.after} {verdict.test}", flush=True)

    bench.each(study, mutants)


def write_results(lines: Iterable[Mapping[str, Any]], results: Path = RESULTS) -> None:
    """Replace the results file, at once."""
    fresh = results.with_suffix(".new")
    fresh.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fresh.replace(results)
