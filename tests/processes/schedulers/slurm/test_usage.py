"""What jobs used, by a fake sacct on PATH that answers as Slurm 22.05 does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpclaunch.runs import Jobs, identity_of
from hpclaunch.schedulers import JobUsage
from hpclaunch.schedulers.slurm.usage import usage
from tests.builders import a_run
from tests.processes.schedulers.slurm.test_queue_places import write

TRES = "cpu=00:00:20,energy=0,fs/disk=12,mem={},pages=0,vmem=1"
MIB = 2**20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def sacct(path: Path, *lines: str) -> None:
    write(path, "sacct", f'echo "$@" >> {path}/asked', "".join(f"{line}\n" for line in lines))


def test_the_step_that_used_most_memory_and_all_work_of_the_job(path: Path) -> None:
    run = a_run(path, "11")
    sacct(
        path,
        f"11|100|2|8|03:20.500|billing=8,cpu=8,mem=4096M,node=2||1234|lab|5|{run.path}",
        f"11.batch|100|1|4|00:01.000|cpu=4,mem=2048M,node=1|{TRES.format(10 * MIB)}|0|lab|5|",
        f"11.extern|100|2|8|00:00.001|cpu=8,node=2|{TRES.format(0)}|0|lab|5|",
        f"11.0|99|2|8|03:19.499|cpu=8,node=2|{TRES.format('600M')}|1200|lab|5|",
        f"12|7|1|1|00:00:00|cpu=1,mem=1G,node=1||0|lab|5|{run.path}",
    )
    assert usage(Jobs([run])) == {
        identity_of(run): JobUsage(
            seconds=100, cpus=8, core_seconds=200.5, memory=300 * MIB, memory_asked=2048 * MIB, joules=1234
        )
    }


def test_one_call_for_all_and_a_job_of_another_folder_is_left_out(path: Path) -> None:
    mine, other = a_run(path, "11"), a_run(path, "12")
    sacct(
        path,
        f"11|5|1|1|1-01:00:00|cpu=1||0|lab|5|{mine.path}",
        "12|5|1|1|00:00:01|cpu=1||0|lab|5|/elsewhere",
        "damaged",
        "",
    )
    found = usage(Jobs([mine, other]))
    assert found == {identity_of(mine): JobUsage(seconds=5, cpus=1, core_seconds=90000.0)}
    [asked] = (path / "asked").read_text().splitlines()
    assert "--jobs=11,12" in asked and "--noconvert" in asked


def test_nodes_of_several_types_are_not_accounted_for_together(path: Path) -> None:
    run = a_run(path, "11")
    sacct(path, f"11+0|5|1|1|00:00:01|cpu=1||0|lab|5|{run.path}", f"11+1|5|1|1|00:00:01|cpu=1||0|lab|5|{run.path}")
    assert usage(Jobs([run])) == {}


def test_a_job_that_nothing_was_measured_of(path: Path) -> None:
    run = a_run(path, "11")
    sacct(path, f"11|0|1|2|00:00:00|||0|lab|5|{run.path}")
    assert usage(Jobs([run])) == {identity_of(run): JobUsage(seconds=0, cpus=2)}


def test_without_accounting_nothing_is_known(path: Path) -> None:
    assert usage(Jobs([a_run(path, "11")])) == {}
