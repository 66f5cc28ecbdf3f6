"""A run of the local site is measured by the sampler that its script starts, and notices nothing of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpclaunch.core.spec import SAMPLER
from hpclaunch.runs.samples import NodeSamples, samples_of
from tests.cli.conftest import Desk, wait_for
from tests.cli.test_rank_logs import MPIRUN

TWO = ("--nodes", "1", "--tasks-per-node", "2", "--launcher", "mpirun")
# Uses so many seconds of a core as its rank's number says, and then waits until its node was seen by the sampler.
BUSY = """import glob, os, time
rank = int(os.environ["RANK"])
while sum(os.times()[:2]) < 0.5 + rank:
    pass
open(f"{os.environ['HPCLAUNCH_RUN_DIR']}/written-{rank}", "wb").write(bytes(3_000_000))
while not glob.glob(f"{os.environ['HPCLAUNCH_RUN_DIR']}/samples/*.jsonl"):
    time.sleep(0.05)
print("account", rank, sum(os.times()[:2]), flush=True)
"""


@pytest.fixture
def local(desk: Desk) -> Desk:
    desk.environment["HPCLAUNCH_SITE"] = "local"
    desk.program("mpirun", MPIRUN.format(told="OMPI_COMM_WORLD_RANK"))
    return desk


def samplers(run: Path) -> list[int]:
    """The processes on this machine that run the run's sampler."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if os.fsencode(run / SAMPLER) in words.split(b"\0"):
            found.append(int(entry.name))
    return found


def node_of(run: Path) -> NodeSamples:
    [node] = samples_of(run)
    return node


def test_the_account_of_each_rank_is_the_kernels_and_the_sampler_ends_with_the_run(local: Desk) -> None:
    local.write("busy.py", BUSY)
    done = local.type("submit", "./busy.py", *TWO, "--wait", "--json")
    run = Path(done.json["run_dir"])
    log = local.type("logs").out
    assert (done.code, log.count("account"), log.count("\n")) == (0, 2, 2), log
    wait_for(lambda: not samplers(run), "the end of the sampler")
    node = node_of(run)
    for rank, seconds in ((int(words[1]), float(words[2])) for words in map(str.split, log.splitlines())):
        # The shell of the rank, and the end of its Python, use some more.
        assert seconds <= node.ends[rank].cpu + 0.02 <= seconds + 0.5
        assert 3_000_000 <= node.ends[rank].write < 3_100_000
    assert (node.ranks, node.attempt) == ((0, 1), (run / "attempts").iterdir().__next__().name)


@pytest.mark.parametrize("by", ["flag", "settings"])
def test_one_switch_turns_it_off(local: Desk, by: str) -> None:
    local.write("run.sh", "echo here\n")
    if by == "settings":
        local.write("hpclaunch.yaml", "samples: false\n")
    done = local.type("submit", "./run.sh", *TWO, *(["--no-samples"] if by == "flag" else []), "--wait", "--json")
    run = Path(done.json["run_dir"])
    assert (done.code, (run / SAMPLER).exists(), (run / "samples").exists()) == (0, False, False)
    assert " samples=no" in (run / "job.sh").read_text()
    again = local.type("submit", "./run.sh", *TWO, "--samples", "--wait", "--json")
    assert (Path(again.json["run_dir"]) / "samples").is_dir()


def test_a_sampler_that_is_killed_changes_nothing(local: Desk) -> None:
    local.write("run.sh", "while [ ! -e go ]; do sleep 0.1; done\necho $RANK\nexit 3\n")
    run = Path(local.type("submit", "./run.sh", *TWO).out.strip())
    (sampler,) = wait_for_sampler(run)
    os.kill(sampler, 9)
    local.write("go", "")
    assert local.type("wait", run.name).code == 3
    assert sorted(local.type("logs").out.split()) == ["0", "1"]
    assert set(node_of(run).ends) == {0, 1}, "the ranks' shells write these themselves"


def wait_for_sampler(run: Path) -> list[int]:
    wait_for(lambda: samplers(run) and samples_of(run), "the sampler")
    return samplers(run)


def test_every_start_of_a_run_is_measured_for_itself(local: Desk) -> None:
    local.write("run.sh", "exit 75\n")
    run = Path(local.type("submit", "./run.sh", *TWO, "--wait", "--json").json["run_dir"])
    assert local.type("resume", run.name, "--wait").code == 1
    files = (run / "samples").glob("*.ranks")
    starts = {file.stem.removeprefix(f"{os.uname().nodename}-") for file in files}
    assert starts == {folder.name for folder in (run / "attempts").iterdir()} and len(starts) == 2


def test_a_run_that_is_cancelled_leaves_no_sampler(local: Desk) -> None:
    local.write("run.sh", "sleep 1000\n")
    run = Path(local.type("submit", "./run.sh", *TWO).out.strip())
    wait_for_sampler(run)
    assert local.type("cancel", run.name).code == 0
    wait_for(lambda: not samplers(run), "the end of the sampler")


def test_a_run_whose_script_is_killed_leaves_no_sampler_when_its_ranks_end(local: Desk) -> None:
    local.write("run.sh", "echo $PPID >> shells\nsleep 1000\n")
    run = Path(local.type("submit", "./run.sh", *TWO).out.strip())
    wait_for_sampler(run)
    wait_for(lambda: len((local.project / "shells").read_text().split()) == 2, "both ranks")
    for shell in (local.project / "shells").read_text().split():
        os.kill(int(shell), 9)
    wait_for(lambda: not samplers(run), "the end of the sampler")


def test_a_sampler_that_was_changed_is_not_started_and_the_log_says_so(local: Desk) -> None:
    local.write("run.sh", "echo here\n")
    run = Path(local.type("render", "./run.sh", *TWO, "-o", "job.sh", "--json").json["run_dir"])
    (run / SAMPLER).write_text("raise SystemExit(1)\n")
    done = subprocess.run(["bash", "job.sh"], cwd=local.project, env=local.environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "here\nhere\n")
    assert done.stderr.count(f"hpclaunch: no samples: {run}/{SAMPLER} is not the sampler of this script") == 1
    assert not (run / "samples").exists()


def test_a_folder_that_cannot_be_written_costs_the_run_nothing(local: Desk) -> None:
    local.write("run.sh", "echo here\n")
    run = Path(local.type("render", "./run.sh", *TWO, "-o", "job.sh", "--json").json["run_dir"])
    (run / "samples").write_text("")
    done = subprocess.run(["bash", "job.sh"], cwd=local.project, env=local.environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\nhere\n", "")
