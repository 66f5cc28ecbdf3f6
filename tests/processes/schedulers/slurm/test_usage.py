"""What jobs used, by a fake sacct on PATH that answers as Slurm 22.05 does."""

from __future__ import annotations

from dataclasses import replace
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


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("1K", 2**10), ("1.5M", 3 * 2**19), ("1G", 2**30), ("1T", 2**40), ("1P", 2**50), ("1X", None)],
)
def test_an_amount_of_memory_has_the_unit_that_it_names(path: Path, text: str, size: int | None) -> None:
    run = a_run(path, "11")
    step = f"11.0|5|1|1|00:00:01|cpu=1|{TRES.format(text)}|0|lab|5|"
    sacct(path, f"11|5|1|1|00:00:01|cpu=1||0|lab|5|{run.path}", step)
    assert usage(Jobs([run]))[identity_of(run)].memory == size


def test_memory_that_was_asked_for_without_a_unit_is_in_megabytes_and_of_each_node(path: Path) -> None:
    run = a_run(path, "11")
    sacct(path, f"11|5|4|1|00:00:01|cpu=1,mem=4096,node=4||0|lab|5|{run.path}")
    assert usage(Jobs([run]))[identity_of(run)].memory_asked == 2**30


def test_a_step_whose_nodes_are_not_told_counts_as_one_of_a_node(path: Path) -> None:
    run = a_run(path, "11")
    step = f"11.0|5||1|00:00:01|cpu=1|{TRES.format(1000)}|77|lab|5|"
    sacct(path, f"11|5||1|00:00:01|cpu=1,mem=1M||0|lab|5|{run.path}", step)
    found = usage(Jobs([run]))[identity_of(run)]
    assert (found.memory, found.memory_asked, found.joules) == (1000, 2**20, 77)


def test_a_damaged_line_hides_no_job_after_it(path: Path) -> None:
    first, last = a_run(path, "11"), a_run(path, "13")
    sacct(
        path,
        "damaged",
        f"11|5|1|1|00:00:01|cpu=1||0|lab|5|{first.path}",
        "",
        f"12+0|5|1|1|00:00:01|cpu=1||0|lab|5|{first.path}",
        f"13|5|1|1|00:00:02|cpu=1||0|lab|5|{last.path}",
    )
    assert [one.core_seconds for one in usage(Jobs([first, last])).values()] == [1.0, 2.0]


def test_a_step_of_a_job_whose_number_begins_alike_is_not_its_own(path: Path) -> None:
    run = a_run(path, "11")
    other = f"110.0|5|1|1|00:00:01|cpu=1|{TRES.format('9G')}|0|lab|5|"
    sacct(path, f"11|5|1|1|00:00:01|cpu=1||0|lab|5|{run.path}", other)
    assert usage(Jobs([run]))[identity_of(run)].memory is None


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("2-03:04:05", 183845.0), ("03:04:05", 11045.0), ("04:05.5", 245.5), ("00:00:00", None), ("05", None)],
)
def test_the_time_of_the_cores_is_read_in_each_of_sacct_s_forms(path: Path, clock: str, seconds: float | None) -> None:
    run = a_run(path, "11")
    sacct(path, f"11|5|1|1|{clock}|cpu=1||0|lab|5|{run.path}")
    assert usage(Jobs([run]))[identity_of(run)].core_seconds == seconds


def test_a_job_of_another_cluster_with_the_same_number_is_left_out(path: Path) -> None:
    run = replace(a_run(path, "11"), cluster="lab")
    sacct(path, f"11|5|1|1|00:00:01|cpu=1||0|other|5|{run.path}")
    assert usage(Jobs([run])) == {}
