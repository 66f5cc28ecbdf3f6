"""Without a cluster: doctor runs its probe on this machine, with two real ranks, and a plan takes what it measured."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.horovod.conftest import PROGRAMS, Ended


def hpclaunch(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hpclaunch", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_local_installation_passes_and_its_all_reduces_are_measured(tmp_path: Path) -> None:
    if importlib.util.find_spec("horovod") is None:
        pytest.skip("group horovod: needs TensorFlow and Horovod (the extra train)")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HPCLAUNCH", "SLURM"))}
    environment |= {f"XDG_{kind}_HOME": str(tmp_path) for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
    environment["HOME"] = str(tmp_path)
    done = hpclaunch(tmp_path, environment, "doctor", "--local", "--json")
    report = json.loads(done.stdout)
    told = {check["name"]: (check["verdict"], check["what"]) for check in report["checks"]}
    assert done.returncode == 0, told
    assert told["ranks"] == ("PASS", f"2 on 1 node x 2 tasks, as requested: {os.uname().nodename} 2")
    assert told["MPI"][0] == told["TensorFlow"][0] == told["Horovod"][0] == "PASS"
    assert told["shared paths"][0] == "PASS"

    (node,), times = report["nodes"], report["all_reduce"]
    assert [place["rank"] for place in node["ranks"]] == [0, 1]
    assert (times["library"], times["nodes"], times["ranks_per_node"], times["on_gpus"]) == ("Horovod", 1, 2, False)
    assert [row["bytes"] for row in times["rows"][:3]] == [1024, 4096, 16384]
    assert all(row["bus_bytes_per_s"] == pytest.approx(row["bytes"] / row["seconds"]) for row in times["rows"])
    assert times["bandwidth_bytes_per_s"] > 0 and told["all-reduce"][0] == "PASS"
    assert told["process sets"] == ("PASS", "a model that all 2 ranks share needs none; the sum of all is right")
    all_reduces, *speeds = report["kept"]
    (kept,) = json.loads(Path(all_reduces).read_text())["measurements"]
    assert [row["seconds"] for row in kept["rows"]] == [row["seconds"] for row in times["rows"]]

    for speed in speeds:  # none where other work disturbed the machine, which the report then says
        (of_device,) = json.loads(Path(speed).read_text())["measurements"]
        assert of_device["float32"] == report["device"]["float32"] > 0
    assert bool(speeds) != bool(report["not_kept"]) and report["not_kept"] == report["device"]["doubts"]

    plan = hpclaunch(tmp_path, environment, "plan", "cifar", "--site", "local", "--tasks-per-node", "2", "--json")
    assert plan.returncode == 0, plan.stderr
    (line,) = json.loads(plan.stdout)["links"]
    assert line.startswith("all-reduce of 1 node x 2 ranks: ") and line.endswith("; one node measured)")

    name = Path(report["run"]["run_dir"]).name
    again = hpclaunch(tmp_path, environment, "doctor", "--from", name)
    assert again.returncode == 0, again.stderr
    assert "bus GB/s" in again.stdout and "1 KiB" in again.stdout
    assert f"rank 1  CPUs {node['ranks'][1]['cpus']}" in again.stdout


def test_four_ranks_of_a_node_make_the_groups_of_a_split_model(ranks: Callable[..., Ended]) -> None:
    """Pairs of neighbours share a model, the others average; each group has its own sum, and the pairs are measured."""
    ended = ranks(PROGRAMS / "process_sets.py", size=4)
    assert ended.code == 0, ended.text
    found = json.loads(re.findall(r"\{.*\}", ended.text)[0])
    assert (found["shared_by"], found["groups"]) == (2, [[0, 1], [0, 2], [1, 3], [2, 3]])
    assert [row["bytes"] for row in found["inside"]["rows"]] == [1024, 4096, 16384]
