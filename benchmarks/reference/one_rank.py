"""Runs a program as one rank for a study, in a folder of its own, and reads what it has logged."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "large_batch"))

from ranks import run

Event = dict[str, Any]
OF_A_LOG = 15
"""Lines of a failed run's log that the error quotes."""


def events_of(
    program: str, arguments: list[str], folder: Path, data_dir: str, *, keep_checkpoints: bool = False
) -> list[Event]:
    """Run a program of the checkout, and return the lines of its metrics.jsonl. The folder is emptied before.

    Raises RuntimeError, with the end of its log, if it fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ended = run(program, arguments, 1, folder, data_dir)
    if ended.code != 0:
        last = (folder / "log").read_text(errors="replace").splitlines()[-OF_A_LOG:]
        raise RuntimeError("\n".join([f"ended with {ended.code}; the end of {folder}/log:", *last]))
    if not keep_checkpoints:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def data_of(events: list[Event]) -> dict[str, str]:
    """Return the layout and the fingerprint of the data that a run has read, which name no folder."""
    start = of_kind(events, "start")[0]
    return {key: start["data"][key] for key in ("layout", "fingerprint")}


def of_kind(events: list[Event], kind: str) -> list[Event]:
    """Return the events of one kind, in their order."""
    return [event for event in events if event["event"] == kind]
