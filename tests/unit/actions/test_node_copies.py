"""How much is copied to the nodes, as far as the submitting machine sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.actions.preparing.node_copies import copied, copied_bytes, not_copied, nothing_to_copy, too_large
from hpclaunch.actions.preparing.submit import Prepared
from hpclaunch.config.site import NodeCopies, Site
from hpclaunch.core.spec import Script
from hpclaunch.core.spec_parts import CONDA_PREFIX, Broadcast
from tests.builders import a_case, a_site, planned


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    folder = tmp_path / "venv"
    (folder / "lib").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_bytes(b"x" * 100)
    (folder / "lib/a.py").write_bytes(b"x" * 2000)
    (folder / "lib/link").symlink_to("a.py")
    return folder


def small() -> Site:
    """A site whose nodes have 1 GB."""
    node = replace(a_site().node_types["gpu"], memory_gb=1)
    return a_site(node_types={"gpu": node}, broadcast=NodeCopies(to="/dev/shm"))


def prepared(venv: Path) -> Prepared:
    typed = {"broadcast": True, "venv": str(venv)}
    return Prepared(
        case=a_case(small(), **typed), spec=planned(small(), **typed), script=Script(text="", library=""), notices=()
    )


def test_the_size_is_that_of_the_files(venv: Path) -> None:
    assert copied_bytes(prepared(venv).spec) == 100 + 2000 + len("a.py")


def test_other_environments_of_a_conda_installation_do_not_count(venv: Path) -> None:
    for name in ("conda-meta", "pkgs", "envs", "lib/pkgs"):
        (venv / name).mkdir()
        (venv / name / "file").write_bytes(b"x" * 10)
    assert copied_bytes(prepared(venv).spec) == 100 + 2000 + len("a.py") + 20


@pytest.mark.parametrize("source", ["", CONDA_PREFIX, "/nonexistent/venv"])
def test_the_size_of_what_is_not_here_is_not_known(source: str) -> None:
    spec = replace(planned(), broadcast=Broadcast(source=source, folder="/dev/shm", required=True))
    assert copied_bytes(spec) is None and not_copied(spec) == ""
    assert copied_bytes(planned()) is None


def test_an_environment_must_fit_into_half_of_a_nodes_memory(venv: Path) -> None:
    assert too_large(prepared(venv)) == []
    with (venv / "big").open("wb") as file:
        file.truncate(260_000_000)  # a file of holes
    found = prepared(venv.rename(venv.with_name("other")))
    (fault,) = too_large(found)
    assert (fault.where, fault.next) == (str(venv.with_name("other")), "--no-broadcast")
    assert fault.allowed == "at most half of a node's memory of 1 GB"
    elsewhere = replace(found.spec, broadcast=Broadcast(source=fault.where, folder="/tmp", required=True))
    assert too_large(replace(found, spec=elsewhere)) == []


def test_a_folder_that_is_no_environment_is_named_and_neither_measured_nor_refused(venv: Path) -> None:
    """``--python ~/bin/python3`` names the home folder."""
    assert not_copied(prepared(venv).spec) == ""
    (venv / "pyvenv.cfg").unlink()
    with (venv / "big").open("wb") as file:
        file.truncate(10**12)
    found = prepared(venv)
    assert "no pyvenv.cfg" in not_copied(found.spec) and not_copied(found.spec).endswith(": only the code is")
    assert (copied_bytes(found.spec), too_large(found), nothing_to_copy(found.spec)) == (None, [], [])
    assert copied(found.spec) == ["the code"]


def test_a_broadcast_of_nothing_is_refused(venv: Path) -> None:
    spec = prepared(venv).spec
    in_place = replace(spec, code=replace(spec.code, in_place=True))
    assert (nothing_to_copy(in_place), copied(in_place), copied(spec)) == ([], [str(venv)], [str(venv), "the code"])
    (venv / "pyvenv.cfg").unlink()
    (fault,) = nothing_to_copy(in_place)
    assert (fault.where, fault.what) == ("--broadcast", "there is nothing to copy")
    assert not_copied(in_place).endswith("so it is not broadcast")
