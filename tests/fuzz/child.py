"""Takes hostile inputs one by one, each with limits of its own; a process that is used again until an input ends it.

``python -m tests.fuzz.child WAY REQUESTS ANSWERS``: the way in, and the numbers of two pipes.
"""

from __future__ import annotations

import os
import pickle
import re
import resource
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.scene import furnished
from tests.fuzz.ways import WAYS

MOST_SECONDS = 5
"""Of the processor, for one input; nearly all take some thousandths."""
MOST_MEMORY = 2**30
"""Bytes of addresses that all inputs together may add: one that asks for more ends in a MemoryError, a traceback."""


def main(name: str, requests_from: int, answers_to: int) -> None:
    """Answer each input (a pickled tuple) with its outcome and a traceback, until the pipe is closed."""
    way = WAYS[name]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(requests_from, "rb") as requests, os.fdopen(answers_to, "wb") as answers, furnished() as scene:
        way.prepare(scene)
        addresses = 1024 * int(re.findall(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[0])
        resource.setrlimit(resource.RLIMIT_AS, (addresses + MOST_MEMORY, resource.RLIM_INFINITY))
        pickle.dump(("ready", ""), answers)
        answers.flush()
        while True:
            try:
                arguments = pickle.load(requests)
            except EOFError:
                return
            began = time.process_time()
            resource.setrlimit(resource.RLIMIT_CPU, (int(began) + MOST_SECONDS + 1, resource.RLIM_INFINITY))
            outcome, words = "traceback", ""
            try:
                way.feed(scene, *arguments)
                outcome = scene.outcome
            except BaseException:
                words = traceback.format_exc()[-4000:]
            if time.process_time() - began > MOST_SECONDS:
                outcome, words = "too slow", f"{time.process_time() - began:.1f} s"
            pickle.dump((outcome, words), answers)
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
