from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from hpclaunch.core.errors import NotFound
from hpclaunch.core.scheduler_rows import SCHEDULERS
from hpclaunch.runs import Jobs, identity_of
from hpclaunch.schedulers import ClusterIdentity, Scheduler, scheduler_of
from hpclaunch.schedulers.slurm import addresses, scheduler, states
from hpclaunch.schedulers.slurm.programs import leaking
from tests.builders import a_run

FUNCTIONS = [name for name in vars(Scheduler) if not name.startswith("_")]


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_scheduler_has_the_functions_of_the_protocol(name: str, function: str) -> None:
    ours, promised = (inspect.signature(getattr(it, function)) for it in (scheduler_of(name), Scheduler))
    assert [*ours.parameters] == [*promised.parameters][1:], "all but self"
    assert len(FUNCTIONS) > 10


def test_an_unknown_scheduler_is_not_found() -> None:
    with pytest.raises(NotFound, match="no scheduler is called 'pbs'"):
        scheduler_of("pbs")


@pytest.mark.parametrize(
    ("variable", "leaks"),
    [
        ("SLURM_JOB_ID", True),
        ("SLURM_CPU_BIND", True),
        ("SBATCH_ACCOUNT", True),
        ("SRUN_CPUS_PER_TASK", True),
        ("PMI_RANK", True),
        ("PMIX_NAMESPACE", True),
        ("OMPI_MCA_btl", True),
        ("SLURM_CONF", False),
        ("SLURM_CLUSTERS", True),
        ("SLURM_TIME_FORMAT", False),
        ("PATH", False),
        ("MY_SLURM_THING", False),
    ],
)
def test_row_01_what_sbatch_must_not_see(variable: str, leaks: bool) -> None:
    assert leaking({variable: "x"}) == ([variable] if leaks else [])


def test_a_job_is_the_runs_own_if_its_folder_is_the_run_directory_by_any_path(tmp_path: Path) -> None:
    run = a_run(tmp_path, "7")
    (tmp_path / "link").symlink_to(run.path)
    for folder in (str(run.path), f"{run.path}/", str(tmp_path / "link")):
        assert identity_of(run).is_job(folder, None)
    for folder in ("", str(tmp_path), "/nowhere", "\0"):
        assert not identity_of(run).is_job(folder, None)


def test_nothing_is_asked_for_no_runs() -> None:
    assert states.states(Jobs([])) == {}


def test_what_to_type_to_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path, "7")
    assert scheduler.cancel_command(run) == "hpclaunch cancel run-7 (or: scancel 7)"
    monkeypatch.setattr(addresses, "cluster", lambda: ClusterIdentity(name="here"))
    sent = replace(run, cluster="there", via="here")
    assert scheduler.cancel_command(sent) == "hpclaunch cancel run-7 (or: scancel --clusters=there 7)"


def test_many_jobs_are_asked_about_in_several_calls() -> None:
    """The numbers of one call are one argument, which the kernel limits."""
    numbers = [str(number) for number in range(25_000)]
    found = list(states.portions(numbers))
    assert [len(one) for one in found] == [10_000, 10_000, 5_000]
    assert [number for one in found for number in one] == numbers
    assert list(states.portions([])) == []
