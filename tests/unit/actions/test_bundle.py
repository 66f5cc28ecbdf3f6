"""What a bundle may be for, why pip failed, and the installer's own text."""

from __future__ import annotations

import platform
import sys

import pytest

from hpclaunch.actions.sharing.bundle import BundleTarget, fault_of_pip, target_of
from hpclaunch.actions.sharing.bundle_installer import installer_text
from hpclaunch.core.errors import InvalidRequest

TARGET = BundleTarget(python="3.12", machine="aarch64")


def test_every_part_of_a_target_that_is_not_offered_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        target_of("3.9", "ppc64le", ["train"])
    assert [fault.where for fault in caught.value.faults] == ["--python", "--machine", "--extra"]
    assert target_of("3.12", "aarch64", []) == TARGET
    assert TARGET.file_name.endswith("-python3.12-aarch64.sh")


def test_what_is_left_out_of_a_target_is_that_of_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert target_of(None, None, ["plot"]) == BundleTarget(python=here, machine="aarch64", extras=("plot",))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["/usr/bin/python3: No module named pip"], "has no pip"),
        (
            ["WARNING: Retrying: Failed to establish a new connection", "ERROR: No matching distribution found for x"],
            "no",
        ),
        (["ERROR: No matching distribution found for pyyaml>=6"], "no wheel of pyyaml>=6 is offered for Python 3.12"),
        (["a", "", "b"], "pip failed: a | b"),
    ],
)
def test_the_cause_of_a_failure_of_pip_is_named(lines: list[str], what: str) -> None:
    assert what in fault_of_pip(lines, TARGET).what


def test_a_lost_network_is_not_taken_for_a_missing_package() -> None:
    fault = fault_of_pip(["NameResolutionError", "No matching distribution found for typer"], TARGET)
    assert fault.what == "pip reaches no package index"


def test_the_archive_begins_behind_the_last_line_of_the_installer() -> None:
    about = {"VERSION": "1.2", "WANTED": "3.12", "MACHINE": "aarch64", "REQUIREMENT": "hpclaunch[plot]==1.2"}
    text = installer_text(about, {"a.whl": "0" * 64, "b.whl": "1" * 64})
    assert f"tail -n +{text.count(chr(10)) + 1} " in text
    assert text.startswith("#!/bin/sh\n# hpclaunch 1.2 for Python 3.12 on aarch64") and text.endswith("\nexit 0\n")
    assert f"{'0' * 64}  a.whl\n{'1' * 64}  b.whl\nEND\n" in text
    assert not [word for word in (*about, "SUMS\nEND", "LINES") if word in text.replace("SHA256SUMS", "")]
