"""Makes hostile inputs and feeds them to a child process, which is started again when an input has ended it."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given

from tests.fuzz.ways import WAYS
from tests.reliability import ROOT

MOST_WAIT = 300
"""Seconds until an answer: far more than the processor time that an input may take, on a machine that is busy."""
FAILURES = ("traceback", "too slow", "crash")


@dataclass
class Tally:
    """How many inputs had which outcome, how long they took, and the first that failed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failed: list[tuple[Any, str]] = field(default_factory=list)

    def add(self, arguments: Any, outcome: str, words: str) -> None:
        self.outcomes[outcome] += 1
        if outcome in FAILURES and len(self.failed) < 20:
            self.failed.append((arguments, f"{outcome}: {words}"))


class Child:
    """The process that takes the inputs of a way in."""

    def __init__(self, way: str) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        command = [sys.executable, "-m", "tests.fuzz.child", way, str(requests), str(answers)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=(requests, answers), stderr=subprocess.DEVNULL, env=environment
        )
        os.close(requests)
        os.close(answers)
        self._from = os.fdopen(self._answers, "rb")
        self._to = os.fdopen(self._requests, "wb")
        assert self._answer()[0] == "ready"

    def feed(self, arguments: Any) -> tuple[str, str]:
        """The outcome of an input, and the words to a failure. After a crash the child is gone."""
        try:
            pickle.dump(arguments, self._to)
            self._to.flush()
            return self._answer()
        except (EOFError, BrokenPipeError):
            return "crash", f"the process ended with {self._process.wait()}"

    def _answer(self) -> tuple[str, str]:
        if not select.select([self._from], [], [], MOST_WAIT)[0]:
            self._process.kill()
            return "crash", f"no answer within {MOST_WAIT} s"
        outcome, words = pickle.load(self._from)
        return outcome, words

    def close(self) -> None:
        """End the process, which ends when its pipe is closed."""
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except BrokenPipeError:
                continue
        self._process.wait(60)


def feed_many(way: str, inputs: int, seed: int) -> Tally:
    """Feed so many inputs to a way in; the same seed makes the same ones."""
    tally = Tally()
    children: list[Child] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(WAYS[way].inputs)
    def feed_one(arguments: Any) -> None:
        if not children:
            children.append(Child(way))
        began = time.monotonic()
        outcome, words = children[0].feed(arguments)
        tally.seconds += time.monotonic() - began
        tally.add(arguments, outcome, words)
        if outcome == "crash":
            children.pop().close()

    try:
        feed_one()
    finally:
        for child in children:
            child.close()
    return tally
