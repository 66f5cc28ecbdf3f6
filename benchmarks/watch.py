"""The processor time of ``hpclaunch watch`` for many runs, on a real pseudo-terminal; squeue and sacct are stand-ins.

    python benchmarks/watch.py [--runs 1000] [--seconds 120] [--json]

Half of the runs run, a quarter waits, a quarter has ended. While the screen is watched, every run that runs gets an
epoch in its metrics.jsonl every ten seconds, and keys move the selection and change the order. The share is the
processor time of hpclaunch and its stand-ins between the first screen and the end, divided by the seconds between
them. On a busy machine the screen is drawn less often, so the time of a whole minute of screens is shown beside it:
that of one look at all runs and of one screen, as often as they are made on a free machine. Ends with 1 if the share,
or that time, is above a tenth of a core, or if two calls of squeue came at once.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import runs as of_many

BAR = 0.10
EPOCH_S = 10.0
STAND_IN = "#!/bin/bash\necho {name} $EPOCHREALTIME >> {folder}/calls\nexec cat {folder}/{name}.out\n"
SIZE = (24, 80)
KEYS = ("j", "k", "s", "\x1b[6~", "\x1b[5~", "r", "r")


def make(folder: Path, number: int) -> tuple[dict[str, str], list[Path]]:
    """Write the runs, with the answers of the stand-ins; return the environment and the runs that run."""
    environment = of_many.make(folder, number)
    paths = sorted((folder / "runs").iterdir())
    half, rest = number // 2, 3 * number // 4
    lines = [f"{job}|RUNNING|None|n{job}|{of_many.SUBMITTED}|{path}" for job, path in enumerate(paths[:half], 1)]
    lines += [
        f"{job}|PENDING|Priority||{of_many.SUBMITTED}|{path}" for job, path in enumerate(paths[half:rest], half + 1)
    ]
    ended = [
        f"{job}|COMPLETED|0:0|n1|lab|{of_many.SUBMITTED}|{path}" for job, path in enumerate(paths[rest:], rest + 1)
    ]
    of_many.answer(folder, "\n".join(lines) + "\n", "\n".join(ended) + "\n")
    (folder / "scontrol.out").write_text("")
    for name in ("squeue", "sacct", "scontrol"):
        (folder / "bin" / name).write_text(STAND_IN.format(name=name, folder=folder))
        (folder / "bin" / name).chmod(0o755)
    spec = {"layout": {"nodes": 1, "tasks_per_node": 4}, "walltime": 3600, "partition": "batch"}
    for job, path in enumerate(paths, 1):
        (path / "spec.json").write_text(json.dumps(spec))
        if job <= half:
            (path / f"attempts/{job}.0").mkdir()
            (path / f"attempts/{job}.0/started").write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            start = {"event": "start", "time": time.time(), "options": {"epochs": 1000}}
            (path / "metrics.jsonl").write_text(json.dumps(start) + "\n")
    return {**environment, "TERM": "xterm-256color"}, paths[:half]


def train(running: list[Path], over: threading.Event) -> None:
    """Add an epoch to every run, again and again."""
    epoch = 0
    while not over.wait(EPOCH_S):
        epoch += 1
        event = {"event": "epoch", "epoch": epoch, "time": time.time(), "loss": 1 / epoch, "seconds": EPOCH_S}
        line = json.dumps(event)
        for path in running:
            with (path / "metrics.jsonl").open("a") as file:
                file.write(line + "\n")


def used(process: int) -> float:
    """Return the processor time of a process with that of its ended children, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def watched(folder: Path, environment: dict[str, str], seconds: float) -> tuple[float, float, int]:
    """Watch for so long; return the processor time, the seconds, and the bytes that the terminal got."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "hpclaunch", "watch"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    written, shown, began, before, keys = 0, b"", 0.0, 0.0, iter(KEYS * 10_000)
    next_key = 0.0
    while began == 0.0 or time.monotonic() - began < seconds:
        if select.select([terminal], [], [], 0.5)[0]:
            content = os.read(terminal, 2**16)
            written += len(content)
            shown = (shown + content)[-(2**16) :]
        if began == 0.0 and b"RUNNING" in shown:
            began, before = time.monotonic(), used(process)
        if began and time.monotonic() > next_key:
            os.write(terminal, next(keys).encode())
            next_key = time.monotonic() + 5
    after, end = used(process), time.monotonic()
    os.write(terminal, b"q")
    while True:
        try:
            if not os.read(terminal, 2**16):
                break
        except OSError:  # its other end is closed
            break
    os.waitpid(process, 0)
    return after - before, end - began, written


ONE_MINUTE = """
import sys, time
sys.path.insert(0, {root!r})
from hpclaunch.actions.following import states
from hpclaunch.actions.following.monitor import Monitor
from hpclaunch.actions.system import System
from hpclaunch.cli.show.watch_frame import frame
from hpclaunch.cli.show.watch_scene import Scene
from hpclaunch.cli.show.watch_view import View
system = System()
monitor = Monitor(lambda: states.all_runs(system))
monitor.turn()
began = time.process_time()
for _ in range(4):
    monitor._due = 0.0
    monitor.turn()
asking = time.process_time() - began
began = time.process_time()
for number in range(60):
    view = View(sort=("active", "loss")[number % 2])
    scene = Scene(runs=monitor.found.runs, progress=monitor.progress, now=time.time(), asked_s=float(number))
    frame(view, scene, 80, 24)
print(asking, time.process_time() - began)
"""


def minute(folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Return the processor time of a minute: of its four questions, and of its 60 screens, half of them by loss."""
    command = [sys.executable, "-c", ONE_MINUTE.format(root=str(of_many.ROOT))]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    asking, drawing = map(float, done.stdout.split())
    return asking, drawing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        environment, running = make(folder, arguments.runs)
        over = threading.Event()
        writer = threading.Thread(target=train, args=(running, over))
        writer.start()
        try:
            processor, seconds, written = watched(folder, environment, arguments.seconds)
        finally:
            over.set()
            writer.join()
        calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
        asking, drawing = minute(folder, environment)
    squeue = [float(when) for name, when in calls if name == "squeue"]
    gaps = [second - first for first, second in itertools.pairwise(squeue)]
    result: dict[str, object] = {
        "runs": arguments.runs,
        "share_of_a_core": round(processor / seconds, 4),
        "processor_s": round(processor, 2),
        "seconds": round(seconds, 1),
        "squeue_calls": len(squeue),
        "sacct_calls": sum(name == "sacct" for name, _ in calls),
        "shortest_gap_of_squeue_s": round(min(gaps), 2) if gaps else None,
        "bytes_to_the_terminal_per_s": round(written / seconds),
        "a_minute_of_questions_s": round(asking, 3),
        "a_minute_of_screens_s": round(drawing, 3),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(result) if arguments.json else "\n".join(f"{name:<28} {value}" for name, value in result.items()))
    holds = processor / seconds <= BAR and (asking + drawing) / 60 <= BAR and min(gaps, default=2.0) >= 1.0
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
