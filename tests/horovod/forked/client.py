"""Stands for a rank that `server.py` forks: python -I -S client.py SOCKET SCRIPT [ARGUMENT...]

It passes on its variables, its folder and its streams, hands signals to the rank, and ends as the rank ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    words = {"words": sys.argv[2:], "folder": os.getcwd(), "variables": dict(os.environ)}
    text = (json.dumps(words) + "\n").encode()
    sent = socket.send_fds(connection, [text], [0, 1, 2])
    connection.sendall(text[sent:])
    answers = connection.makefile()
    rank = int(answers.readline())
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: os.kill(rank, received))
    code = int(answers.readline())
    if code >= 0:
        return code
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main())
