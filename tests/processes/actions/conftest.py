"""A Slurm at the process edge for tests of verbs: programs on PATH that answer from files and note their calls."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpclaunch import runs
from hpclaunch.runs import Run
from hpclaunch.runs.ownership import new_token
from hpclaunch.schedulers.slurm import configuration, programs
from tests.builders import a_run

_SQUEUE = """case "$*" in
  *'%i|%T|%r|%N|%V|%Z'*) of=states ;; *'%i|%V|%Z'*) of=own ;; *'%i|%T|%r|%N|%Z'*) of=search ;; *) of=other ;;
esac
cat squeue.$of 2> /dev/null; [ ! -e squeue.silent ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }
"""
_SACCT = """case "$*" in *Cluster,Submit*) of=states ;; *) of=search ;; esac
cat sacct.$of 2> /dev/null; [ ! -e sacct.silent ] || exit 1
"""
_SCONTROL = """case "$*" in
  'show config') echo 'ClusterName = lab'; echo 'SlurmctldHost[0] = ctl(10.0.0.1)' ;;
esac
"""


class FakeSlurm:
    """``queue`` and ``account`` say what squeue and sacct list; ``calls`` what was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "slurm"
        self.state = folder / "state/hpclaunch"
        self.home = folder
        self.warned: list[str] = []
        self.folder.mkdir()
        self.put("squeue", _SQUEUE)
        self.put("sacct", _SACCT)
        self.put("scontrol", _SCONTROL)
        self.put("scancel", "")
        self.put("srun", "")
        self.put("sbatch", "echo Submitted batch job 99")
        monkeypatch.setenv("PATH", f"{self.folder}:/usr/bin:/bin")
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        monkeypatch.chdir(folder)  # runs of the folder in which one types are listed, too
        configuration._known.clear()
        programs._answers.clear()

    def put(self, name: str, text: str) -> None:
        program = self.folder / name
        program.write_text(f'#!/bin/sh\ncd {self.folder}\necho "{name} $*" >> calls\n{text}')
        program.chmod(0o755)

    def calls(self, name: str = "") -> list[str]:
        file = self.folder / "calls"
        return [line for line in file.read_text().splitlines() if line.startswith(name)] if file.exists() else []

    def silence(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.silent").touch()

    def queue(
        self, run: Run, state: str = "RUNNING", job_id: str = "", reason: str = "None", nodes: str = "n1"
    ) -> None:
        """Let squeue list a job in the folder of a run."""
        number, when = job_id or run.job_id, int(time.time()) + 10
        self._add("squeue.states", f"{number}|{state}|{reason}|{nodes}|{when}|{run.home}")
        self._add("squeue.own", f"{number}|{when}|{run.home}")
        self._add("squeue.search", f"{number}|{state}|{reason}|{nodes}|{run.home}")

    def account(self, run: Run, state: str, code: str = "0:0", job_id: str = "", nodes: str = "n1") -> None:
        """Let sacct list a job in the folder of a run."""
        number, when = job_id or run.job_id, int(time.time()) + 10
        self._add("sacct.states", f"{number}|{state}|{code}|{nodes}|lab|{when}|{run.home}")
        self._add("sacct.search", f"{number}|{state}|{code}|{nodes}|{run.home}")

    def forget(self) -> None:
        """Let nobody list any job."""
        for file in (*self.folder.glob("squeue.*"), *self.folder.glob("sacct.*")):
            file.unlink()

    def _add(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")

    def run(self, job_id: str = "7", state: str = "RUNNING", listed: bool = True, **fields: Any) -> Run:
        """A recorded run of this user on this cluster."""
        made = replace(a_run(self.home, job_id, state), token=new_token(), created="2026-01-02T03:04:05Z")
        known = {"cluster": "lab", "controller": "ctl", "submission": "hpclaunch", **fields}
        made = runs.save(replace(made, **known), durable=False)
        made.script.write_text(f"#!/bin/bash\n#SBATCH --chdir={made.path}\n")
        if listed:
            assert runs.list_own(self.state, made) == ""
        return made


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path, monkeypatch)
