"""Names, reasons and values that another wrote, in what the verbs print: none acts, and commands may be pasted."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from tests.cli.conftest import Desk

NAMES = (
    *("$(touch X)", "`touch X`", ";touch X", "a|touch X", "a\nerror: touch X", "'q", '"q', "b\\", "two words", "*"),
    *("~root", "#c", "t\tab", "\x1b]0;title\x07", "\x9b31m", "\u202eabc", "a\rb"),
)
RUN = {"format": 1, "site": "local", "scheduler": "local", "host": os.uname().nodename, "user": "", "job_id": "1"}


@pytest.fixture
def foreign(desk: Desk) -> Desk:
    """A cloned repository with runs of these names, whose reasons and values are hostile too."""
    for number, name in enumerate(NAMES):
        record = {**RUN, "name": name, "created": f"2026-01-01T00:00:{number:02d}Z", "uid": str(os.getuid())}
        record |= {"state": "FAILED", "exit_code": "1:0", "reason": f"because {name}"}
        desk.write(f"runs/{name}/run.json", json.dumps(record))
        desk.write(f"runs/{name}/metrics.jsonl", json.dumps({"event": "end", name: name}) + "\n")
        desk.write(f"runs/{name}/spec.json", json.dumps({"name": name, "parameters": [[name, name]]}))
    return desk


VERBS = ("status", "runs list", "results", "efficiency", "wait", "cancel", "retry", "resume", "rerun", "runs show")
VERBS += ("logs", "runs forget", "runs clean", "runs compare", "runs export --to tensorboard")


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_prints_of_hostile_runs(foreign: Desk, verb: str) -> None:
    before = sorted(os.listdir(foreign.project))
    commands = set()
    for names in [[f"runs/{name}"] for name in NAMES] + [[]]:
        done = foreign.type(*verb.split(), *names)
        for text in (done.out, done.err):
            assert all(sign.isprintable() or sign in "\n\t" for sign in text), ascii(text)
            assert not re.search(r"^error: touch", text, re.MULTILINE), text
        for step in re.findall("next: (.*)", done.err):
            commands.update(re.findall(r"hpclaunch [^;,]*", step))
    assert commands or verb in ("status", "runs list", "results", "wait", "runs show", "logs")
    for command in commands:  # pasted into bash, it gives hpclaunch its words and does nothing else
        pasted = f"hpclaunch() {{ :; }}; {command}"
        subprocess.run(["bash", "-c", pasted], cwd=foreign.project, capture_output=True, timeout=60)
    assert sorted(os.listdir(foreign.project)) == before


def test_json_has_the_names_as_they_are(foreign: Desk) -> None:
    found = [one["run"] for one in foreign.type("status", "--json").runs]
    assert sorted(found) == sorted(NAMES)


def test_the_next_step_of_a_run_names_it_in_the_shell(foreign: Desk) -> None:
    for name in NAMES:
        done = foreign.type("rerun", f"runs/{name}")
        shown = re.search(r"runs adopt (.*)", done.err)
        assert shown, done.err
        words = subprocess.run(["bash", "-c", f"printf %s {shown[1]}"], capture_output=True, timeout=60)
        assert words.stdout.decode().endswith(f"/runs/{name}")
