"""Runs ``hpclaunch`` in forked children: as another user, with failing I/O, with closed streams. See `Server`.

A child begins with all modules loaded, so a start takes 30 ms, and a user who may not read this Python can be played.
Each line on stdin is a `Trial` as JSON; the answer on stdout is an `Outcome`.
"""

from __future__ import annotations

import ctypes
import encodings
import importlib
import io
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.forked.lines import LineServer

SOURCE = Path(__file__).with_name("faulty_io.c")
_NOT_LOADED = ("hpclaunch.training", "hpclaunch.reports", "hpclaunch.__main__")
_LIBRARIES = (
    *("submitit.slurm.slurm", "submitit.local.local", "submitit.core.utils", "rich.console", "jinja2"),
    *("_strptime", "difflib", "glob", "shlex"),
)
_REPORTS = 200
"""A number of stderr's file that the tested code does not know, so that nothing closes it or lets it fail."""


@dataclass(frozen=True)
class Trial:
    """What is typed where. ``user``: a number without a name.

    ``closed``, ``full``, ``gone``: which of 0, 1 and 2 are closed, a full disk, or a pipe without a reader.

    ``number``: which I/O call below ``root`` fails with ``error`` (0: none); ``streams``: calls on stdout and stderr
    count too; ``stays``: all later calls fail too; ``flock``: whether it works.

    ``seconds``: after so many, SIGALRM ends it.
    """

    words: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    user: int = 0
    closed: Sequence[int] = ()
    full: Sequence[int] = ()
    gone: Sequence[int] = ()
    root: str = ""
    number: int = 0
    error: int = 0
    stays: bool = False
    streams: bool = True
    flock: bool = True
    seconds: int = 60


@dataclass(frozen=True)
class Outcome:
    """``code`` is negative for a signal. ``calls``: of I/O; ``failed``: the name of the one that failed."""

    code: int
    out: str
    err: str
    calls: int = 0
    failed: str = ""

    @property
    def text(self) -> str:
        return self.out + self.err


class Server(LineServer):
    """A process that forks; ``library``: the compiled ``faulty_io.c``, where I/O is to fail."""

    def __init__(self, library: str = "") -> None:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
        super().__init__(
            [sys.executable, "-c", "from tests.forked.server import serve; serve()"],
            env={**variables, **({"LD_PRELOAD": library} if library else {})},
        )

    def run(self, trial: Trial) -> Outcome:
        return Outcome(**self.ask(asdict(trial)))


def compiled(folder: Path, source: Path = SOURCE) -> str:
    """The library of ``faulty_io.c``, or of another file in C; empty where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return ""
    target = folder / f"{source.stem}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", target, source, "-ldl"], check=True)
    return str(target)


def serve() -> None:
    """Answer one trial after the other, until stdin ends."""
    os.environ.pop("LD_PRELOAD", None)  # for what is started from here
    _load_everything()
    sys.path[:] = [place for place in sys.path if place]  # not the folder that a trial stands in
    for line in sys.stdin:
        outcome = _fork(Trial(**json.loads(line)))
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


def _load_everything() -> None:
    import hpclaunch

    for module in pkgutil.walk_packages(hpclaunch.__path__, "hpclaunch.", onerror=lambda name: None):
        if not module.name.startswith(_NOT_LOADED):
            importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.iter_modules(encodings.__path__):  # codecs are loaded on first use
        if module.name not in ("mbcs", "oem", "cp65001"):
            importlib.import_module(f"encodings.{module.name}")


def _fork(trial: Trial) -> Outcome:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _play(trial, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    library: Any = ctypes.CDLL(None)
    calls, failed = 0, ""
    if trial.root:
        library.faulty_failed.restype = ctypes.c_char_p
        calls, failed = library.faulty_calls(), library.faulty_failed().decode()
    return Outcome(os.waitstatus_to_exitcode(status), texts[0], texts[1], calls, failed)


def _play(trial: Trial, out: int, err: int) -> NoReturn:
    """In the child: be who types, and type."""
    code = 99
    try:
        import signal

        signal.alarm(trial.seconds)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, stream in ((0, null), (1, out), (2, err), (_REPORTS, err)):
            os.dup2(stream, number)
        for number in trial.full:
            os.dup2(os.open("/dev/full", os.O_WRONLY), number)
        for number in trial.gone:
            _, writer = os.pipe()
            os.dup2(writer, number)
        os.closerange(3, 64)
        if trial.user:
            os.setgroups([])
            os.setresgid(trial.user, trial.user, trial.user)
            os.setresuid(trial.user, trial.user, trial.user)
        os.chdir(trial.cwd)
        os.environ.clear()
        os.environ.update(trial.environment)
        time.tzset()
        _open_streams(trial.closed)
        code = _main(trial)
    finally:
        os._exit(code)


def _open_streams(closed: Sequence[int]) -> None:
    """What the interpreter does as it begins."""
    for number in closed:
        os.close(number)
    sys.stdin = None if 0 in closed else io.TextIOWrapper(io.FileIO(0, closefd=False))  # type: ignore[assignment, arg-type]
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        stream = None
        if number not in closed:
            raw = io.FileIO(number, "w", closefd=False)
            stream = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=number == 2)
        setattr(sys, name, stream)


def _main(trial: Trial) -> int:
    """Type, and end as the interpreter does. Whatever it would print as a traceback is one."""
    import hpclaunch
    from hpclaunch.cli import main

    library: Any = ctypes.CDLL(None)
    if not trial.flock:
        library.faulty_without_flock()
    if trial.root:
        library.faulty_begin(
            trial.root.encode(), ctypes.c_long(trial.number), trial.error, int(trial.stays), int(trial.streams)
        )
    code = 0
    sys.argv = [str(Path(hpclaunch.__file__).with_name("__main__.py")), *trial.words]
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        code = 98
        os.write(_REPORTS, traceback.format_exc().encode())
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = 120
            os.write(_REPORTS, b"Traceback: the interpreter cannot flush a stream\n")
    return code
