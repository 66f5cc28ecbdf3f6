"""A run of two ranks on two real nodes: its samples against the kernel's own account, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpclaunch.runs.samples import NodeSamples, samples_of
from tests.slurm.desk import Desk, until

pytestmark = pytest.mark.timeout(600)
CPUS = 8
# Uses the processor, memory and a file, and then sleeps until the sampler of its node has written a line that contains
# all of it. What it says at the end is the kernel's account of itself.
RANK = """
import glob, json, os, time
rank = os.environ["RANK"]
run = os.environ["HPCLAUNCH_RUN_DIR"]
held = bytearray(b"x") * (150 << 20)
path = os.path.join(run, "file-" + rank)
with open(path, "wb") as file:
    for _ in range(30):
        file.write(bytes(1 << 20))
with open(path, "rb") as file:
    while file.read(1 << 20):
        pass
while sum(os.times()[:2]) < 6 + int(rank):  # so long that its own end, which it cannot count, is below 2 %
    pass
done, measured = time.time(), False
while not measured:
    time.sleep(1)
    for name in glob.glob(run + "/samples/*.jsonl"):
        for line in open(name).readlines()[1:]:
            sample = json.loads(line)
            measured = measured or (sample["t"] > done + 1 and rank in sample["ranks"])
account = {
    "rank": int(rank),
    "cpu": sum(os.times()[:2]),
    "pss": int(open("/proc/self/smaps_rollup").read().split("Pss:")[1].split()[0]) * 1024,
    "read": int(open("/proc/self/io").read().split("rchar: ")[1].split()[0]),
    "write": int(open("/proc/self/io").read().split("wchar: ")[1].split()[0]),
}
with open(os.path.join(run, "account-" + rank), "w") as file:
    json.dump(account, file)
"""
SIZE = (
    "--nodes",
    "2",
    "--tasks-per-node",
    "1",
    "--gpus-per-node",
    "0",
    "--cpus-per-task",
    str(CPUS),
    "--walltime",
    "9m",
)


def by_rank(nodes: list[NodeSamples]) -> dict[int, NodeSamples]:
    assert all(len(node.ranks) == 1 for node in nodes), nodes
    return {node.ranks[0]: node for node in nodes}


def test_the_samples_are_the_kernels_account_and_an_idle_run_is_told_so(desk: Desk) -> None:
    (desk.folder / "busy.py").write_text(RANK)
    run = desk.submit("./busy.py", *SIZE, "--framework", "none", "--python", "/usr/bin/python3")
    desk.wait(run, seconds=500)
    assert desk.ended(run) == "COMPLETED 0:0", run.log()
    nodes = by_rank(samples_of(run.path))
    assert sorted(nodes) == [0, 1], run.log()
    for rank, node in nodes.items():
        account = json.loads((run.path / f"account-{rank}").read_text())
        sampled = [one.ranks[rank] for one in node.samples if rank in one.ranks]
        for name in ("read", "write"):
            assert sum(getattr(one, name) for one in sampled) == pytest.approx(account[name], rel=0.02)
            assert getattr(node.ends[rank], name) == pytest.approx(account[name], rel=0.02)
        assert sum(one.cpu or 0 for one in sampled) == pytest.approx(account["cpu"], rel=0.02)
        assert node.ends[rank].cpu == pytest.approx(account["cpu"], rel=0.02)
        assert sampled[-1].pss == pytest.approx(account["pss"], rel=0.05)
    check_efficiency(desk, run.path)


def check_efficiency(desk: Desk, path: Path) -> None:
    """Sixteen CPUs, and two ranks that use a part of one each: that is idle. Slurm's accounting says the same."""
    cpu, advice = cpu_and_advice(desk, path)
    assert cpu["source"] == "proc" and 0 < cpu["share"] < 0.2
    assert advice["options"][0] == "--cpus-per-task" and int(advice["options"][1]) <= 2
    assert "Its ranks waited most of the time" in advice["words"]
    (path / "samples").rename(path / "moved-away")

    def is_accounted() -> bool:
        return cpu_and_advice(desk, path)[0]["used"] is not None

    until(is_accounted, "the account of its steps in sacct")
    accounted, advice = cpu_and_advice(desk, path)
    assert (accounted["source"], advice["options"][0]) == ("accounting", "--cpus-per-task")
    assert 0 < accounted["share"] < 0.2


def cpu_and_advice(desk: Desk, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    done = desk.run("efficiency", path.name, "--json")
    assert done.returncode == 0, done.stderr
    [one] = json.loads(done.stdout)["runs"]
    return one["quantities"][0], next(iter(one["suggestions"]), {})
