"""The tests that CI has no time for, in parts of at most 40 minutes on two cores: ``make long``.

    python tools/long_tier.py              every part, one after the other
    python tools/long_tier.py PART...      these parts
    python tools/long_tier.py --list       the parts, and what each runs

After a part its row of docs/reliability.md says when it ran, on which commit, for how long and how it ended. Run it on
a commit of main, with nothing changed: a commit of a branch may be written anew when it lands. A release needs every
part (tools/release.py). Some parts need root, Slurm or a network; tests/README.md says which.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.reliability import PAGE, read_part, table, with_rows, write_part  # noqa: E402

LONG = {
    "HPCLAUNCH_TIER": "long",
    "HPCLAUNCH_TEST_SITE_ENVIRONMENT": "1",
    "HPCLAUNCH_TEST_JAX": "1",
    "HPCLAUNCH_TEST_MLFLOW": "1",
    "HPCLAUNCH_TEST_TFDS": "1",
}
_SLURM = ("broadcast", "cifar", "frameworks", "gpus", "jobs", "model_parallel", "node_types", "scale", "strategies")
PARTS: dict[str, str] = {
    "packaging": "pytest tests/packaging tests/script/test_every_script.py tests/docs/test_guides.py "
    "tests/processes/training/test_tfds_package.py",
    "ranks": "pytest tests/horovod",
    "frameworks": "pytest tests/frameworks tests/site_environment/test_site_environment.py "
    "tests/site_environment/test_keras_3.py",
    "tensorflow-2.12": "pytest tests/site_environment/test_whole_group.py -k 2.12",
    "tensorflow-2.18": "pytest tests/site_environment/test_whole_group.py -k 2.18",
    "tensorflow-2.20": "pytest tests/site_environment/test_whole_group.py -k 2.20",
    "cluster": "pytest tests/faults/test_search.py " + " ".join(f"tests/slurm/test_{name}.py" for name in _SLURM),
    "environments": "pytest -s tests/slurm/test_environments.py",
    "faults-clusters": "make faults BED=test_clusters.py",
    "faults-lost-nodes": "make faults BED=test_lost_nodes.py",
    "faults-many": "make faults BED=test_many.py",
    "faults-restarting": "make faults BED=test_restarting.py",
    "faults-training": "make faults BED=test_training.py",
    "once": "make once",
    "io-submit": "make io IO='-k submit'",
    "io-others": "make io IO='-k \"not submit\"'",
    "hostile": "make hostile",
    "fuzz": "make fuzz MINUTES=40",
    "mutants": "make mutants",
    "newer-slurm": "make newer-slurm",
}
"""A part -> its command. Those of pytest run with the variables of ``LONG``."""
WITHOUT_PYTEST = ("fuzz", "mutants")
"""Parts that are no tests: programs that count inputs and mutants."""
PASSED = "passed"
NONE = "-"
NEVER = "not run yet"
HEADER = ("part", "outcome", "tests passed", "minutes", "date", "commit")
OLDEST_DAYS = 14
"""A release needs every part to have passed within so many days."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts and write their rows; 1 if one failed, 2 if it may not be run here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of: {', '.join(PARTS)}")
    parser.add_argument("--list", action="store_true", help="print the parts with their commands")
    options = parser.parse_args(arguments)
    if options.list:
        print("".join(f"{name:20} {command}\n" for name, command in PARTS.items()), end="")
        return 0
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; allowed are {', '.join(PARTS)}")
    if problem := objection():
        print(f"long tier: {problem}", file=sys.stderr)
        return 2
    commit = git("rev-parse", "--short", "HEAD")
    failed = [name for name in options.parts or PARTS if not run_part(name, commit)]
    if failed:
        print(f"long tier: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def objection() -> str:
    """Return why the rows would not say what ran; nothing if they would."""
    allowed = ("docs/reliability.md", "results.jsonl")  # what the parts themselves write
    changed = [line[3:] for line in git("status", "--porcelain").splitlines() if not line.endswith(allowed)]
    if changed:
        return f"these files are not committed, so no commit says what runs: {', '.join(changed[:5])}"
    if git("branch", "--show-current") not in ("main", ""):
        return "this is a branch: its commits may be written anew when it lands; merge it, then run this on main"
    return ""


def run_part(name: str, commit: str) -> bool:
    """Run a part, write its row, and return whether it passed."""
    command = PARTS[name]
    environment = dict(os.environ)
    if command.startswith("pytest "):
        command = f"{sys.executable} -m {command}"
        environment.update(LONG)
    print(f"long tier: {name}: {command}", flush=True)
    began, output = time.monotonic(), ""
    with subprocess.Popen(
        command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)
            output = (output + line)[-4000:]  # pytest's summary stands at the end
    code = process.returncode
    minutes = (time.monotonic() - began) / 60
    tests = tests_passed(output)
    outcome = PASSED if code == 0 else f"failed ({code})"
    if code == 0 and tests == NONE and name not in WITHOUT_PYTEST:
        outcome = "failed (no test ran)"
    write_row((name, outcome, tests, f"{minutes:.0f}", today(), commit))
    return outcome == PASSED


def tests_passed(output: str) -> str:
    """Return how many tests passed by pytest's last summary, and how many were skipped; a dash if none passed."""
    passed, skipped = (re.findall(rf"(\d+) {word}", output) for word in ("passed", "skipped"))
    if not passed:
        return NONE
    return f"{passed[-1]} ({skipped[-1]} skipped)" if skipped else passed[-1]


def today() -> str:
    """Return the date in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def write_row(row: Sequence[str], page: Path = PAGE) -> None:
    """Write a part's row; a part without one gets a row that says so."""
    known = {line[0]: line for line in with_rows(read_part("long tier", page), HEADER, [row])}
    rows = [known.get(name, (name, NEVER, NONE, NONE, NONE, NONE)) for name in PARTS]
    write_part("long tier", table(HEADER, rows), page)


def missing(day: str, page: Path = PAGE) -> list[str]:
    """Return the parts that have not passed within OLDEST_DAYS before a day (ISO), each with its last outcome."""
    since = datetime.date.fromisoformat(day) - datetime.timedelta(days=OLDEST_DAYS)
    rows = {row[0]: row for row in with_rows(read_part("long tier", page), HEADER, [])}
    found = []
    for name in PARTS:
        row = rows.get(name)
        if row is None or row[1] == NEVER:
            found.append(f"{name} ({NEVER})")
        elif row[1] != PASSED:
            found.append(f"{name} ({row[1]} on {row[4]})")
        elif datetime.date.fromisoformat(row[4]) < since:
            found.append(f"{name} (last on {row[4]})")
    return found


def git(*words: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
