"""The arrays that this Slurm accepts, from a fake ``scontrol show config``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.spec import Sweep
from hpclaunch.schedulers.slurm.arrays import objections
from hpclaunch.schedulers.slurm.configuration import configuration
from tests.builders import planned

SWEEP = Sweep(axes=(("seed", ("1", "2", "3")), ("augment", ("true", "false"))))


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ("MaxArraySize            = 1001\nMaxJobCount             = 10000", []),
        ("MaxArraySize            = 6\nMaxJobCount             = 6", []),
        ("MaxArraySize            = 1\nMaxJobCount             = 6", []),  # it is divided
        ("MaxArraySize            = 1\nMaxJobCount             = 5", ["MaxJobCount: at most 5 runs"]),
        ("MaxArraySize            = 0\nMaxJobCount             = 10", ["MaxArraySize: "]),
        ("MaxArraySize            = (null)\nMaxJobCount             = 0", []),
        ("", []),
    ],
)
def test_an_array_that_is_larger_than_a_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, found: list[str]
) -> None:
    (tmp_path / "scontrol").write_text(f"#!/bin/bash\n[ \"$1\" = ping ] || echo '{limits}'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ("MaxArraySize" in configuration()) is bool(limits)
    faults = objections(replace(planned(), sweep=SWEEP))
    assert [f"{fault.where}: {fault.allowed}" for fault in faults] == found
    assert objections(planned()) == []
