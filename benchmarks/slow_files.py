"""A slow file system: `submit` of a script alone, `status` of 100 runs, `render -o`, where each path call takes 50 ms.

    python benchmarks/slow_files.py [--ms 50] [--runs 100] [--repeats 3] [--base CHECKOUT] [--json]

benchmarks/slow_files.c, loaded with LD_PRELOAD, delays every call with a path below the project and the home, in
hpclaunch and in all programs that it starts. Python and hpclaunch themselves are elsewhere. The scheduler's programs
are stand-ins. With ``--base``, the checkout of another commit, each command is measured in turns with that. Tells the
medians of the wall time, and the path calls, fsyncs and new inodes of one command. Needs a C compiler. Ends with 1 if a
bar does not hold.
"""

from __future__ import annotations

import argparse
import calendar
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(__file__).with_suffix(".c")
BARS_S = {"submit": 8.0, "status": 3.0}
"""Seconds of a command at 50 ms a call."""
MOST = {"fsyncs": 6, "inodes": 60}
"""Of a submission of a script alone."""
PLACE = ("--site", "perlmutter", "--account", "m1234", "--nodes", "1")
COMMANDS: dict[str, Sequence[str]] = {
    "submit": ("submit", "./count.py", *PLACE),
    "render -o": ("render", "./count.py", *PLACE, "-o", "job.sh"),
    "status": ("status",),
}
# Of sys.path, the folder where one types would be asked for every module.
START = "import sys; sys.path[0] = sys.argv.pop(1); from hpclaunch.__main__ import main; main()"
SQUEUE = '#!/bin/sh\ncase "$*" in *%V*) exec cat {0}/queue ;; esac\nexec cat {0}/queue-without-times\n'


class Desk:
    """A project and a home on the slow file system, of one checkout."""

    def __init__(self, folder: Path, checkout: Path, library: Path) -> None:
        self.folder, self.slow, self._checkout, self._library = folder, folder / "slow", checkout, library
        for name in ("slow/project", "slow/home", "bin"):
            (folder / name).mkdir(parents=True)
        (self.slow / "project/count.py").write_text("print(1)\n", encoding="utf-8")
        programs = dict.fromkeys(("sacct", "scontrol", "sacctmgr", "sshare", "sinfo", "srun"), "#!/bin/sh\n")
        programs |= {"sbatch": "#!/bin/sh\necho Submitted batch job 4711\n", "squeue": SQUEUE.format(folder)}
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text, encoding="utf-8")
            (folder / "bin" / name).chmod(0o755)
        for name in ("queue", "queue-without-times"):
            (folder / name).write_text("", encoding="utf-8")

    def type(self, words: Sequence[str], ms: int = 0, log: Path | None = None) -> float:
        """Type a command, and return its wall time (seconds)."""
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": f"{self.slow}/home", "LANG": "C.UTF-8"}
        environment |= {"NERSC_HOST": "perlmutter", "LD_PRELOAD": str(self._library), "SLOW_FILES_MS": str(ms)}
        environment |= {"SLOW_FILES_ROOT": str(self.slow), **({"SLOW_FILES_LOG": str(log)} if log else {})}
        command = [sys.executable, "-c", START, str(self._checkout), *words]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=self.slow / "project", env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
        return time.perf_counter() - began

    def calls(self, words: Sequence[str]) -> dict[str, int]:
        """Return how many calls a command makes, without a delay."""
        log = self.folder / "calls"
        log.unlink(missing_ok=True)
        self.type(words, log=log)
        lines = log.read_text(encoding="utf-8").splitlines()
        names = [line.partition(" ")[0].lstrip("+") for line in lines]
        fsyncs = sum(name in ("fsync", "fdatasync", "syncfs") for name in names)
        paths = len(names) - fsyncs - names.count("sync_file_range")
        return {"path calls": paths, "fsyncs": fsyncs, "inodes": sum(line.startswith("+") for line in lines)}

    def fill(self, number: int) -> None:
        """Let there be so many runs, all of them in the queue: copies of the newest one."""
        runs, state = self.slow / "project/runs", self.slow / "home/.local/state/hpclaunch"
        first = max(runs.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for place in runs.iterdir():
            if place != first:
                shutil.rmtree(place)
        record = json.loads((first / "run.json").read_text(encoding="utf-8"))
        submitted = record.get("submitted") or record["created"]
        epoch = calendar.timegm(time.strptime(submitted, "%Y-%m-%dT%H:%M:%SZ"))
        paths = [first]
        for count in range(1, number):
            path = runs / f"count-copy-{count:05}"
            shutil.copytree(first, path)
            copied = {**record, "token": f"{count:032x}", "job_id": str(4711 + count)}
            (path / "run.json").write_text(json.dumps(copied), encoding="utf-8")
            listed = json.dumps({"directory": str(path), **identity(path, state / "own-runs" / record["token"])})
            (state / "own-runs" / copied["token"]).write_text(listed, encoding="utf-8")
            paths.append(path)
        (state / "runs.txt").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
        rows = [(str(4711 + count), path) for count, path in enumerate(paths)]
        timed = "".join(f"{job}|PENDING|Priority||{epoch}|{path}\n" for job, path in rows)
        (self.folder / "queue").write_text(timed, encoding="utf-8")
        plain = "".join(f"{job}|PENDING|Priority||{path}\n" for job, path in rows)
        (self.folder / "queue-without-times").write_text(plain, encoding="utf-8")


def identity(path: Path, listed: Path) -> dict[str, Any]:
    """Return what the user's list of own runs says of a directory besides its path, as of the run that is copied."""
    about = path.stat()
    own = {"inode": about.st_ino, "device": about.st_dev}
    return {name: own[name] for name in json.loads(listed.read_text(encoding="utf-8")) if name in own}


def measure(desks: dict[str, Desk], options: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    """Return command -> checkout -> median wall time (seconds) and calls; the checkouts in turns."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    for desk in desks.values():
        desk.type(COMMANDS["render -o"])  # compiles templates and byte code
        desk.type(COMMANDS["submit"])
    for name, words in COMMANDS.items():
        if name == "status":
            for desk in desks.values():
                desk.fill(options.runs)
                desk.type(words)
        took: dict[str, list[float]] = {which: [] for which in desks}
        for _ in range(options.repeats):
            for which, desk in desks.items():
                took[which].append(desk.type(words, options.ms))
        medians = {which: {"wall_s": statistics.median(times)} for which, times in took.items()}
        results[name] = {which: {**medians[which], **desk.calls(words)} for which, desk in desks.items()}
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=int, default=50)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--base", type=Path, help="the checkout of another commit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    checkouts = {"this": ROOT, **({"base": options.base.resolve()} if options.base else {})}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # Perlmutter's nodes have a /tmp of their own
        folder = Path(os.path.realpath(name))
        library = folder / "slow_files.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, SOURCE, "-ldl"], check=True)
        results = measure({which: Desk(folder / which, place, library) for which, place in checkouts.items()}, options)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"{options.ms} ms a path call, {options.runs} runs, medians of {options.repeats}")
        print(f"{'command':<12}{'checkout':<10}{'wall':>8}{'path calls':>12}{'fsyncs':>8}{'inodes':>8}")
        for command, rows in results.items():
            for which, row in rows.items():
                line = "{wall_s:>7.2f}s{path calls:>12}{fsyncs:>8}{inodes:>8}".format(**row)
                print(f"{command:<12}{which:<10}{line}")
    slow = [results[command]["this"]["wall_s"] > bar for command, bar in BARS_S.items()]
    many = [results["submit"]["this"][what] > most for what, most in MOST.items()]
    return 1 if any([*slow, *many]) else 0


if __name__ == "__main__":
    sys.exit(main())
