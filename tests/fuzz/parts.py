"""Runs a part of the fuzzing, adds its figures to the results file, and writes docs/reliability.md from that file.

``make fuzz PART=2``: another part makes other inputs, and the same part the same ones. Parts add up.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.child import MOST_MEMORY, MOST_SECONDS
from tests.fuzz.feeding import FAILURES, Tally, feed_many
from tests.fuzz.ways import SHARES, WAYS
from tests.reliability import surroundings, table, write_part

RESULTS = Path(__file__).with_name("results.jsonl")
GOAL, GOAL_EACH = 300_000, 20_000
BATCH = 500
"""Inputs with one seed. After each batch its figures are written down, so that an interrupted part counts too."""
HEADER = ("way in", "inputs", "refused", "tracebacks", "too slow", "crashes", "seconds")


def recorded(results: Path = RESULTS) -> list[dict[str, Any]]:
    """All batches that were run."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def record(way: str, seed: int, tally: Tally, results: Path = RESULTS) -> None:
    """Add a batch; the same batch takes the place of an earlier one."""
    about = {"way": way, "seed": seed, "inputs": tally.outcomes.total(), "refused": tally.outcomes["refused"]}
    about |= {name: tally.outcomes[name] for name in FAILURES}
    about |= {"seconds": round(tally.seconds, 1), "measured": surroundings("hypothesis")}
    kept = [line for line in recorded(results) if (line["way"], line["seed"]) != (way, seed)]
    results.write_text("".join(json.dumps(line) + "\n" for line in [*kept, about]))


def page_part(batches: list[dict[str, Any]]) -> str:
    """The part of docs/reliability.md: every figure is a sum over the results file. A way without one has no row."""
    tried = {batch["way"] for batch in batches}
    sums: dict[str, Counter[str]] = {way: Counter() for way in WAYS if way in tried}
    for batch in batches:
        sums[batch["way"]].update({name: batch[name] for name in ("inputs", "refused", *FAILURES)})
        sums[batch["way"]].update({"milliseconds": round(1000 * batch["seconds"])})
    whole = sum(sums.values(), Counter())
    names = ("inputs", "refused", *FAILURES)
    rows = [
        (way, *(f"{found[name]:,}" for name in names), f"{found['milliseconds'] / 1000:.0f}")
        for way, found in sums.items()
    ]
    head = (
        f"{len(batches)} batches, the last one on {batches[-1]['measured']}: {whole['inputs']:,} inputs of the goal of "
        f"{GOAL:,} in {whole['milliseconds'] / 60_000:.0f} minutes.\n"
    )
    end = f"\nTracebacks: {whole['traceback']}. Too slow: {whole['too slow']}. Crashes: {whole['crash']}.\n"
    return f"{head}\n{table(HEADER, rows)}{end}"


def run_part(part: int, inputs: int, ways: list[str], minutes: float) -> bool:
    """Feed ``inputs`` to each way (times its share), batch by batch; return whether none failed."""
    deadline, sound = time.monotonic() + 60 * minutes, True
    for batch in range(-(-inputs // BATCH)):
        for way in ways:
            if time.monotonic() > deadline:
                return sound
            count = round(min(BATCH, inputs - batch * BATCH) * SHARES[way])
            tally = feed_many(way, count, seed=10_000 * part + batch)
            for arguments, words in tally.failed:
                print(f"{way}: {arguments!r}\n{words}", flush=True)
            sound = sound and not tally.failed
            record(way, 10_000 * part + batch, tally)
            print(f"{way}: {dict(tally.outcomes)} in {tally.seconds:.0f} s", flush=True)
    return sound


def main() -> None:
    """Run a part as the command line says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--part", type=int, default=1, help="another part makes other inputs")
    options.add_argument("--inputs", type=int, default=GOAL_EACH, help="for each way in")
    options.add_argument("--ways", default="", help="with commas between them; without it, all")
    options.add_argument("--minutes", type=float, default=60, help="no batch begins later")
    asked = options.parse_args()
    ways = asked.ways.split(",") if asked.ways else list(WAYS)
    sound = run_part(asked.part, asked.inputs, ways, asked.minutes)
    write_part("fuzzing", page_part(recorded()))
    print(f"each input: at most {MOST_SECONDS} s of the processor and {MOST_MEMORY // 2**20} MiB")
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
