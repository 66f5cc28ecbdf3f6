"""Types ``hpclaunch`` in a forked child, with limits, and measures it. A child begins with all modules loaded."""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.forked.lines import LineServer

MEGABYTES = 200
_FILE_BYTES = 64 * 2**20
_WALL_SECONDS = 60
"""Ends a child that waits for ever (for a pipe, say) without using the processor."""


@dataclass(frozen=True)
class Outcome:
    """``code`` is negative for a signal; ``seconds`` are of the processor, with those of the programs that ended."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: float


class Typist(LineServer):
    """A process that forks a child for every command."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            [sys.executable, "-c", f"from tests.hostile.forking import serve; serve({seconds})"],
            cwd=Path(__file__).parents[2],
        )

    def type(self, words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Outcome:
        return Outcome(**self.ask([list(words), str(cwd), dict(environment)]))


def type_in_a_process(words: Sequence[str], cwd: Path, environment: Mapping[str, str], seconds: int) -> Outcome:
    """The same in a process of its own, with the time of its start.

    Linux counts the memory of the process that forks as the child's. So a small process forks, not pytest's.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.hostile.forking import start; start({seconds})"],
        input=json.dumps([list(words), str(cwd), dict(environment)]),
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    return Outcome(**json.loads(done.stdout))


def start(seconds: int) -> None:
    """Answer one command, which another Python runs."""
    words, cwd, environment = json.loads(sys.stdin.read())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            try:
                _prepare(out.fileno(), err.fileno(), cwd, seconds)
                os.execve(sys.executable, [sys.executable, "-m", "hpclaunch", *words], environment)
            finally:
                os._exit(98)
        sys.stdout.write(json.dumps(_ending(child, out, err)))


def serve(seconds: int) -> None:
    """Answer one command after the other, until stdin ends."""
    import hpclaunch

    for module in pkgutil.walk_packages(hpclaunch.__path__, "hpclaunch.", onerror=lambda name: None):
        if not module.name.startswith(("hpclaunch.training", "hpclaunch.reports", "hpclaunch.__main__")):
            importlib.import_module(module.name)
    for name in ("submitit.slurm.slurm", "submitit.local.local", "rich.console", "rich.live"):
        importlib.import_module(name)
    for line in sys.stdin:
        words, cwd, environment = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _type(words, environment, out.fileno(), err.fileno(), cwd, seconds)
            answer = _ending(child, out, err)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _ending(child: int, *files: Any) -> dict[str, Any]:
    _, status, used = os.wait4(child, 0)
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read(4 * 2**20).decode("utf-8", "replace"))
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "err": texts[1],
        "seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def _prepare(out: int, err: int, cwd: str, seconds: int) -> None:
    os.setsid()
    signal.alarm(_WALL_SECONDS)
    for number, stream in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
        os.dup2(stream, number)
    os.closerange(3, 64)
    os.chdir(cwd)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES * 2**20, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _type(words: list[str], environment: dict[str, str], out: int, err: int, cwd: str, seconds: int) -> NoReturn:
    code: Any = 99
    try:
        _prepare(out, err, cwd, seconds)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))  # type: ignore[arg-type]
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True
        )
        from hpclaunch.cli import main

        try:
            main(words)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 97
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
