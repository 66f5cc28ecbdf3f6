"""The set-up around a program that is no rank, as a shell runs it."""

from __future__ import annotations

import subprocess

import pytest

from hpclaunch.core.spec import Step
from hpclaunch.resolve.python_environment import PythonEnvironment


@pytest.mark.parametrize(
    ("line", "code", "out", "err"), [("A=1", 0, "1 b c\n", ""), ("false", 78, "", "my step: failed\n")]
)
def test_the_script_sets_up_or_says_what_failed(line: str, code: int, out: str, err: str) -> None:
    steps = (Step(line=line, failure="my step"),)
    found = PythonEnvironment(words=("x",), steps=steps, variables={"B": "b c"}, unset=("C",))
    script = found.script("/bin/bash -c 'echo $A $B $C' ").replace("A=1", "export A=1")
    done = subprocess.run(["/bin/bash", "-c", script], env={"C": "no"}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)
