"""Starts ranks as forked children that have TensorFlow and Horovod imported already; an import takes 5 s of a core.

    python server.py SOCKET

Each connection of `client.py` is one rank. Between the two stands a keeper, which ends the rank when its client is
gone. The server ends with its stdin. All else is as in a new process: variables, folder, streams, signals.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Typed:
    """A script with its arguments, and where and with what it begins; ``streams``: files for stdin, stdout, stderr."""

    words: Sequence[str]
    folder: str
    variables: Mapping[str, str]
    streams: Sequence[int]


def serve(listener: socket.socket) -> Typed | None:
    """Fork for each connection until stdin ends. Returns in a rank, with what it is to run; at the end with None."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for a keeper
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        connection, _ = listener.accept()
        typed = receive(connection)
        if os.fork() == 0:
            listener.close()
            return keep(connection, typed)
        for stream in typed.streams:
            os.close(stream)
        connection.close()


def receive(connection: socket.socket) -> Typed:
    """Read what a client sends: a line of JSON, with three open files."""
    text, streams, _, _ = socket.recv_fds(connection, 2**16, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(2**16)
    return Typed(**json.loads(text), streams=streams)


def keep(connection: socket.socket, typed: Typed) -> Typed:
    """Fork the rank, where this returns. The keeper tells the client its number, and at last how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    rank = os.fork()
    if rank == 0:
        connection.close()
        return typed
    for stream in (0, *typed.streams):
        os.close(stream)
    connection.sendall(f"{rank}\n".encode())
    ended = os.pidfd_open(rank)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:  # the client is gone
        os.kill(rank, signal.SIGKILL)
        os._exit(0)
    _, status = os.waitpid(rank, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def begin(typed: Typed) -> None:
    """Make this process what a new one would be, and run the script."""
    import numpy as np

    os.setsid()
    for number, stream in enumerate(typed.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(typed.folder)
    os.environ.clear()
    os.environ.update(typed.variables)
    np.random.seed()  # it was forked with the server's
    sys.argv = list(typed.words)
    script = typed.words[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    if typed.variables.get("PYTHONUNBUFFERED"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    with open(script, encoding="utf-8") as file:
        code = compile(file.read(), script, "exec")
    exec(code, vars(main))


def serve_at(place: str) -> None:
    """Import what takes long, tell that it is there, and serve."""
    # As training.start sets them; TensorFlow reads them once.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    import horovod.tensorflow.keras  # noqa: F401

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    gc.freeze()
    gc.set_threshold(100_000)  # a graph is many objects, and few of them are dropped
    print("ready", flush=True)
    typed = serve(listener)
    if typed:
        begin(typed)


if __name__ == "__main__":
    serve_at(sys.argv[1])
