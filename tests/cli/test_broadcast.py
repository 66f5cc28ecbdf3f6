"""--broadcast and --no-broadcast, as one types them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk


@pytest.fixture
def shell(cluster: Desk) -> Desk:
    """A site whose nodes have a folder for copies and 1 GB of memory; its user has a venv."""
    site = cluster.project / "site_configs/slurmsite.yaml"
    text = site.read_text().replace("cores_per_node: 8}", "cores_per_node: 8, memory_gb: 1}")
    site.write_text(text + "broadcast: {to: /dev/shm, from_nodes: 4}\n")
    for name in ("pyvenv.cfg", "bin/activate"):
        cluster.write(f"venv/{name}", "", mode=0o755)
    return cluster


def calls(script: str) -> list[str]:
    return [line for line in script.splitlines() if line.startswith("broadcast ")]


def test_the_flag_asks_for_it_and_the_screen_says_what_is_copied(shell: Desk) -> None:
    shell.write("venv/lib/big.so", "x" * 1_500_000)
    words = ("submit", "./train.py", "--venv", "venv", "--broadcast", "--dry-run")
    done = shell.type(*words, "-v")
    venv = shell.project / "venv"
    assert (done.code, calls(done.out)) == (0, [f"broadcast required /dev/shm {venv}"])
    (line,) = [line for line in done.err.splitlines() if line.startswith("  broadcast")]
    told = f"broadcast 1.5 MB to /dev/shm ({venv} and the code, on every node; --broadcast)"
    assert line.split() == told.split()
    summary = shell.type(*words).err.splitlines()
    assert f"  broadcast: {venv} and the code, 1.5 MB to /dev/shm of every node" in summary


def test_from_the_sites_number_of_nodes_on_only_the_other_flag_prevents_it(shell: Desk) -> None:
    typed = ("submit", "./train.py", "--venv", "venv", "--dry-run")
    assert calls(shell.type(*typed, "--nodes", "3").out) == []
    assert calls(shell.type(*typed, "--nodes", "4").out) == [f"broadcast optional /dev/shm {shell.project}/venv"]
    assert calls(shell.type(*typed, "--nodes", "4", "--no-broadcast").out) == []


def test_what_does_not_fit_is_refused_if_it_was_asked_for_and_else_told(shell: Desk) -> None:
    with shell.write("venv/big", "").open("wb") as file:
        file.truncate(300_000_000)  # a file of holes
    done = shell.type("submit", "./train.py", "--venv", "venv", "--broadcast")
    assert done.code == 1 and "at most half of a node's memory of 1 GB" in done.err and "--no-broadcast" in done.err
    assert not (shell.project / "runs").exists()
    done = shell.type("submit", "./train.py", "--venv", "venv", "--nodes", "4", "--dry-run")
    assert (done.code, "not broadcast: " in done.err) == (0, True)


def test_a_site_without_a_folder_refuses_it(cluster: Desk) -> None:
    done = cluster.type("submit", "./train.py", "--broadcast")
    assert done.code == 1 and "broadcast: {to: /dev/shm}" in done.err
