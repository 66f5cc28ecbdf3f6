"""Closed, full and abandoned stdout and stderr: one line or silence, never a traceback, and a job's ID is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Desk
from tests.forked.server import Server, Trial

VERBS = (
    "--version",
    "--help",
    "status",
    "status none --json",
    "watch",
    "logs",
    "runs show",
    "rerun @1 --dry-run",
    "sites show local",
    "submit ./train.py --dry-run",
    "submit",
    "cancel --all",
)
STREAMS = ((1,), (2,), (0, 1, 2))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize("state", ["closed", "full", "gone"])
def test_no_verb_ends_with_a_traceback(cluster: Desk, server: Server, state: str) -> None:
    cluster.fake("sacct", out="4711|COMPLETED|0:0|n1\n")
    assert cluster.type("submit", "./train.py").code == 0
    for words in VERBS:
        for streams in STREAMS:
            trial = Trial(words.split(), str(cluster.project), cluster.environment, **{state: streams})
            done = server.run(trial)
            assert "Traceback" not in done.text and "Exception ignored" not in done.text, (words, streams, done.text)
            assert done.code in (0, 1, 2, 141), (words, streams, done)
            if 1 in streams and words in ("status", "watch", "sites show local", "submit ./train.py --dry-run"):
                assert done.code == 1, (words, streams, done)


@pytest.mark.parametrize("state", ["closed", "full", "gone"])
@pytest.mark.parametrize("words", ["submit ./train.py", "submit ./train.py --json", "submit ./train.py --wait"])
def test_a_queued_jobs_id_is_on_the_stream_that_works(cluster: Desk, server: Server, state: str, words: str) -> None:
    cluster.fake("sacct", out="4711|COMPLETED|0:0|n1\n")
    for streams in STREAMS:
        trial = Trial(words.split(), str(cluster.project), cluster.environment, **{state: streams})
        done = server.run(trial)
        assert "Traceback" not in done.text, done.text
        assert ("4711" in done.text) == (streams != (0, 1, 2)), (streams, done)
        assert done.code == (1 if 1 in streams else 0), (streams, done)
        if 1 in streams and 2 not in streams and state != "gone":
            assert "error: stdout: " in done.err
