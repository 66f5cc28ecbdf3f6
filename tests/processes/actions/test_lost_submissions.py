"""A submission that nobody can learn about any more: waiting for it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch import runs
from hpclaunch.actions.following.states import is_lost
from hpclaunch.actions.queueing.wait import exit_code_of, wait
from hpclaunch.runs import leases
from hpclaunch.runs.ownership import new_token
from tests.builders import a_run


@pytest.fixture
def no_accounting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm whose queue is empty and that keeps no accounting."""
    for name, text in {"squeue": ":", "scontrol": ":", "sacct": "exit 1"}.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))


def test_wait_ends_without_accounting_when_the_submission_can_no_longer_be_obeyed(
    tmp_path: Path, no_accounting: None
) -> None:
    run = runs.save(replace(a_run(tmp_path, state="SUBMITTING"), created="2026-01-02T03:04:05Z", token=new_token()))
    assert runs.list_own(tmp_path / "state/hpclaunch", run) == ""
    lease = leases.take(run)
    assert lease and not is_lost(run), "this process submits it"
    # Another process had it, ten minutes ago.
    words = lease.text.split(" ")
    (lease.folder / "1").write_text(" ".join([*words[:3], "1", "7", *words[5:]]) + "\n")
    (lease.folder / "1.renewed").write_text("-600.0\n")
    pauses: list[float] = []
    found = list(wait([run], None, 0, print, pauses.append))[-1]
    assert (found[0].state, "does not know about ended jobs" in found[0].reason) == ("SUBMITTING", True)
    assert (is_lost(found[0]), exit_code_of(found), len(pauses)) == (True, 1, 5)
