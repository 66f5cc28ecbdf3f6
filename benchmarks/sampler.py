"""What the sampler of a node costs: its processor time beside ranks that hold memory and wait.

    python benchmarks/sampler.py [--ranks 2 16] [--megabytes 500] [--seconds 120] [--json]

Starts the sampler as a script does, with its own intervals, beside so many processes. Its start counts. The processor
time is the kernel's account when it has ended (wait4), and the share is that of the time from its start to its end.
Ends with 1 if it takes more than 0.5 % of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SAMPLER = Path(__file__).resolve().parents[1] / "templates/sampler.py"
RANK = "import sys, time\nheld = bytearray(b'x') * (int(sys.argv[1]) << 20)\nprint(flush=True)\ntime.sleep(10**6)"
BAR = 0.005


def began_at(process: int) -> str:
    """When a process began, as the shell of a rank writes it."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[19]


def measured(ranks: int, megabytes: int, seconds: float) -> dict[str, Any]:
    """What the sampler takes beside so many ranks, of which each holds this memory."""
    words = [sys.executable, "-S", "-c", RANK, str(megabytes)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(ranks)]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"begin {rank} {process.pid} {began_at(process.pid)}\n" for rank, process in enumerate(started)]
        (Path(folder) / "node-1.0.ranks").write_text("".join(lines))
        begin = time.monotonic()
        sampler = os.posix_spawn(
            sys.executable, [sys.executable, "-I", "-S", str(SAMPLER), "node", "1.0", folder], os.environ
        )
        time.sleep(seconds)
        for process in started:
            process.kill()
            process.wait()
        _, _, used = os.wait4(sampler, 0)
        whole = time.monotonic() - begin
        written = (Path(folder) / "node-1.0.jsonl").read_text()
    return {
        "ranks": ranks,
        "megabytes": megabytes,
        "seconds": round(whole, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 3),
        "share": round((used.ru_utime + used.ru_stime) / whole, 5),
        "memory_mb": used.ru_maxrss // 1024,
        "lines": written.count("\n") - 1,
        "with_pss": written.count('"pss":') - written.count('"pss":null'),
        "bytes_per_line": len(written) // max(1, written.count("\n")),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measured(ranks, options.megabytes, options.seconds) for ranks in options.ranks]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(map(str, row.values())))
    return 0 if all(row["share"] <= BAR for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
