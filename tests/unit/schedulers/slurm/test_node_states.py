"""Which nodes a retry avoids, from what ``scontrol --oneliner show node`` prints in several versions of Slurm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpclaunch.schedulers.slurm.node_states import troubles

LINES = {
    "22.05": "NodeName={name} Arch=x86_64 CoresPerSocket=4  CPUAlloc=2 CPUEfctv=8 CPUTot=8 CPULoad=34.18 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100:4 NodeAddr=10.0.0.1 NodeHostName={name} "
    "Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=8000 AllocMem=0 FreeMem=10059 "
    "Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=batch,debug,preempt  BootTime={boot} SlurmdStartTime={start} "
    "LastBusyTime=2026-11-21T19:28:38 CfgTRES=cpu=8,mem=8000M,billing=8,gres/gpu=4 AllocTRES=cpu=2 CapWatts=n/a",
    "24.11": "NodeName={name} Arch=x86_64 CoresPerSocket=4 CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.01 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100:4 NodeAddr=10.0.0.1 NodeHostName={name} "
    "Version=24.11.5 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC RealMemory=8000 AllocMem=0 FreeMem=97029 "
    "Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch "
    "BootTime={boot} SlurmdStartTime={start} LastBusyTime=2026-11-21T19:28:38 ResumeAfterTime=None "
    "CfgTRES=cpu=8,mem=8000M,billing=8,gres/gpu=4 AllocTRES= CurrentWatts=0 AveWatts=0 Reason=x [root@2026-11-21]",
}
"""A line of each version, from the recorded answers in tests/unit/sites/describe and the test cluster."""
MORNING, NOON, EVENING = "2026-11-21T08:00:00", "2026-11-21T12:00:00", "2026-11-21T18:00:00"
SINCE = time.mktime(time.strptime(NOON, "%Y-%m-%dT%H:%M:%S"))


def line(version: str, name: str, state: str, boot: str = MORNING, start: str = MORNING) -> str:
    return LINES[version].format(name=name, state=state, boot=boot, start=start)


@pytest.mark.parametrize("version", LINES)
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("DOWN", "down"),
        ("DOWN*", "down and not responding"),
        ("DOWN*+NOT_RESPONDING", "down and not responding"),
        ("DOWN+DRAIN+NOT_RESPONDING", "down and drained and not responding"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "drained"),
        ("ALLOCATED+FAIL", "failing"),
        ("IDLE*", "not responding"),
        ("IDLE+NOT_RESPONDING", "not responding"),
        ("DOWN+REBOOT_ISSUED", "down and rebooting"),
        ("IDLE+INVALID_REG", "registered with an invalid configuration"),
        ("UNKNOWN", "in an unknown state"),
    ],
)
def test_a_broken_node_is_named_with_slurms_reason(version: str, state: str, words: str) -> None:
    answer = "\n".join([line(version, "node1", state), line(version, "node2", "IDLE"), ""])
    assert troubles(answer) == {"node1": f"Slurm reports it as {words}"}


@pytest.mark.parametrize("version", LINES)
@pytest.mark.parametrize(
    "state",
    [
        *("IDLE", "MIXED", "ALLOCATED", "IDLE+PLANNED", "COMPLETING", "IDLE+POWERED_DOWN"),
        *("IDLE+NOT_RESPONDING+POWERING_UP", "IDLE*+POWERING_DOWN", "MIXED+POWER_DOWN", "UNKNOWN+POWER_UP"),
    ],
)
def test_a_node_that_works_is_not_blamed(version: str, state: str) -> None:
    assert troubles(line(version, "node1", state), SINCE) == {}


@pytest.mark.parametrize("version", LINES)
@pytest.mark.parametrize(
    "state",
    [
        *("IDLE+CLOUD+NOT_RESPONDING+POWERING_DOWN", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"),
        *("DOWN+CLOUD+POWERED_DOWN", "DOWN*+CLOUD", "IDLE+CLOUD", "IDLE+CLOUD+DRAIN"),
    ],
)
def test_a_node_of_a_cloud_gets_a_new_machine_and_is_not_blamed(version: str, state: str) -> None:
    answer = "\n".join([line(version, "g1", state, boot=EVENING), line(version, "g2", "DOWN+POWERED_DOWN")])
    assert troubles(answer, SINCE) == {"g1": "", "g2": "Slurm reports it as down"}


@pytest.mark.parametrize("version", LINES)
@pytest.mark.parametrize("flag", ["POWERING_DOWN", "POWERED_DOWN", "POWERING_UP"])
def test_a_node_that_slurm_switched_off_and_on_is_not_blamed_for_its_start(version: str, flag: str) -> None:
    answer = "\n".join([line(version, "node1", f"IDLE+{flag}", boot=EVENING), line(version, "node2", "IDLE")])
    assert troubles(answer, SINCE) == {}


@pytest.mark.parametrize("version", LINES)
@pytest.mark.parametrize("times", [{"boot": EVENING}, {"start": EVENING}])
def test_a_node_that_was_down_and_is_back_at_once_is_named(version: str, times: dict[str, str]) -> None:
    answer = "\n".join([line(version, "node1", "IDLE", **times), line(version, "node2", "IDLE")])
    assert troubles(answer, SINCE) == {"node1": "it was started again during the run"}
    assert troubles(answer) == {}


@pytest.mark.parametrize("version", LINES)
def test_nodes_that_were_all_started_again_are_maintenance_and_none_is_blamed(version: str) -> None:
    both = [line(version, name, "IDLE", start=EVENING) for name in ("node1", "node2")]
    assert troubles("\n".join(both), SINCE) == {}
    assert troubles(both[0], SINCE) == {"node1": "it was started again during the run"}


@pytest.mark.parametrize("version", ["slurm_22_05", "slurm_24_05"])
def test_the_recorded_nodes_of_clusters_that_work_are_not_blamed(version: str) -> None:
    text = (Path(__file__).parents[2] / "sites/describe" / version / "nodes.txt").read_text()
    assert text.count(" State=") > 1
    assert not any(troubles(text).values())


def test_damaged_answers_name_no_node() -> None:
    assert troubles("\0\nNodeName= State=DOWN\nNodeName=../x State=DOWN\nslurm_load_node error: State=DOWN") == {}
    assert troubles("NodeName=n1 State=IDLE BootTime=None SlurmdStartTime=Unknown", SINCE) == {}


def test_a_line_with_what_is_no_name_counts_as_no_node() -> None:
    odd = line("22.05", "$(reboot)", "DOWN", start=EVENING)
    assert troubles("\n".join([odd, line("22.05", "node2", "DOWN")])) == {"node2": "Slurm reports it as down"}
    restarted = line("22.05", "node2", "IDLE", start=EVENING)
    assert list(troubles(f"{odd}\n{restarted}", SINCE)) == ["node2"], "one of one node, which is no maintenance of all"
